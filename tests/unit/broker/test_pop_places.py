"""After a kill a group goes on behind what is in flight, and nowhere else."""

import json

import pytest

from regulus.broker import pop_places
from regulus.broker.state import CONSUMER_OFFSET_DOCUMENT, POP_PLACES_DOCUMENT
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.topics import TopicConfig
from regulus.record.pop_record import CheckpointKey, PopCheckpoint
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import DeleteTopicInBrokerRequest
from tests.unit.broker.pop_rig import HOST, NOW, Rig, bodies


def saved(rig: Rig) -> dict[str, str]:
    """What is saved now; the place is that of the round before."""
    rig.broker.documents()
    return rig.broker.documents()


def killed(rig: Rig, documents: dict[str, str]) -> Rig:
    rig.broker.documents = lambda: documents
    return rig.restarted(is_killed=True)


def offset(rig: Rig) -> int:
    return rig.broker.consumer_offsets.query("G", "T", 0)


def test_a_filter_that_passed_over_messages_hands_nothing_out_twice():
    rig = Rig()
    rig.send("a", "b", tags="red")
    rig.pop(count=1, queue_id=0)
    documents = saved(rig)
    rig.send("c", "d", tags="blue")
    assert bodies(rig.pop(queue_id=0, exp="blue", exp_type="TAG")) == ["c", "d"]
    rig = killed(rig, documents)
    assert rig.pop(queue_id=0, exp="blue", exp_type="TAG") == []
    assert offset(rig) == 4


def test_a_filter_that_passed_over_whole_looks_hands_nothing_out_twice():
    """What it passed over left nothing in the log."""
    rig = Rig()
    rig.broker.subscription_groups.find("G", NOW)
    documents = saved(rig)
    rig.send("a", "b", tags="red")
    assert rig.pop(queue_id=0, exp="blue", exp_type="TAG") == []
    rig.send("c", tags="blue")
    assert bodies(rig.pop(queue_id=0, exp="blue", exp_type="TAG")) == ["c"]
    documents[CONSUMER_OFFSET_DOCUMENT] = '{"offsetTable":{"T@G":{0:0}}}'
    rig = killed(rig, documents)
    assert rig.pop(queue_id=0, exp="blue", exp_type="TAG") == []


@pytest.mark.parametrize("back_to", [0, 1, 2])
def test_a_group_that_was_set_back_stays_there(back_to):
    rig = Rig()
    rig.send(*"abcd")
    documents = saved(rig)
    rig.pop(count=4, queue_id=0)
    rig.broker.consumer_offsets.commit("G", "T", 0, back_to, NOW)
    documents = rig.broker.documents() | {POP_PLACES_DOCUMENT: documents[POP_PLACES_DOCUMENT]}
    rig = killed(rig, documents)
    assert offset(rig) == back_to


def test_a_set_back_that_was_not_saved_is_known_by_the_pops_behind_it():
    rig = Rig()
    rig.send(*"abcd")
    rig.pop(count=4, queue_id=0)
    documents = saved(rig)
    rig.run_to(NOW + 1_000)
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, rig.now_ms)
    assert bodies(rig.pop(count=2, queue_id=0)) == ["a", "b"]
    rig = killed(rig, documents)
    assert offset(rig) == 2
    rig.broker.consumer_offsets.commit("G", "T", 0, 1, rig.now_ms)      # a later set-back still has a later number
    assert rig.broker.consumer_offsets.set_back_number("G", "T", 0) > NOW + 1_000


def test_a_time_that_was_changed_moves_nobody():
    rig = Rig()
    rig.send(*"abcd")
    popped = rig.pop(count=4, queue_id=0)
    rig.run_to(NOW + 1_000)
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, rig.now_ms)
    documents = saved(rig)
    assert rig.change(popped[3][1], 20_000).code == 0
    rig = killed(rig, documents)
    assert offset(rig) == 0


def test_a_group_that_was_not_saved_yet_gets_back_what_was_in_flight():
    rig = Rig()
    rig.send("a")
    documents = saved(rig)
    assert bodies(rig.pop(invisible=10_000)) == ["a"]
    rig = killed(rig, documents)
    assert rig.pop() == []
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]


def test_a_group_that_was_deleted_stays_so():
    rig = Rig()
    rig.send("a")
    documents = saved(rig)
    rig.pop()
    rig.broker.subscription_groups.delete("G", NOW)
    rig.broker.consumer_offsets.remove_group("G", NOW)
    documents = rig.broker.documents() | {POP_PLACES_DOCUMENT: documents[POP_PLACES_DOCUMENT]}
    rig = killed(rig, documents)
    assert "G" not in rig.broker.subscription_groups
    assert offset(rig) == -1


def test_of_a_topic_that_was_made_anew_nothing_is_passed_over():
    rig = Rig()
    rig.send(*"abc")
    documents = saved(rig)
    rig.pop(queue_id=0)
    assert rig.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic="T").ext()).code == 0
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2), NOW)
    rig.send(*"defg")
    documents = rig.broker.documents() | {POP_PLACES_DOCUMENT: documents[POP_PLACES_DOCUMENT]}
    rig = killed(rig, documents)
    assert bodies(rig.pop(queue_id=0)) == list("defg")


def test_a_start_reads_no_log_that_grew_without_pops(monkeypatch):
    monkeypatch.setattr(pop_places, "PLACE_STEP", 1_000)
    rig = Rig()
    seen = rig.broker.pop_places.changes
    rig.send(*[f"m{number}" for number in range(100)])
    assert rig.broker.pop_places.changes > seen
    place = rig.store.commit_log_max_offset()
    saved(rig)
    rig.send("n")
    assert json.loads(rig.broker.documents()[POP_PLACES_DOCUMENT]) == {"logPosition": place}


def test_a_kill_behind_the_first_save_of_a_run_may_leave_the_offsets_of_the_former_one():
    """The place is that of the former run then."""
    rig = Rig()
    rig.send(*"ab")
    documents = saved(rig)
    rig.pop(count=1, queue_id=0)
    rig = killed(rig, documents)
    documents[POP_PLACES_DOCUMENT] = rig.broker.documents()[POP_PLACES_DOCUMENT]
    rig = killed(rig, documents)
    assert offset(rig) == 1


@pytest.mark.parametrize("timed", [{}, {"TIMER_DELIVER_MS": str(NOW + 60_000)}])
def test_a_message_of_a_client_moves_no_group(timed):
    """One that looks like the record of a pop: it is of another topic."""
    rig = Rig()
    rig.send(*"abc")
    rig.broker.subscription_groups.find("G", NOW)
    documents = saved(rig)
    body = PopCheckpoint(key=CheckpointKey("T", "G", 0, 0, NOW), broker_name="broker-a", invisible_time=30_000,
                         offsets=(0, 1)).encode()
    forged = {"TAGS": "ck", names.SET_BACKS: "0", "X": rig.broker.pop_flights.revive_topic, **timed}
    rig.broker.storing.store(MessageExt("T", body, forged, 1, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.settle()
    rig = killed(rig, documents)
    assert bodies(rig.pop(queue_id=0)) == ["a", "b", "c"]


def test_a_group_that_is_further_than_its_last_pop_stays_there():
    """It was set forward, by hand or by one who pulls."""
    rig = Rig()
    rig.send(*"abcd")
    documents = saved(rig)
    rig.pop(count=2, queue_id=0)
    rig.broker.consumer_offsets.commit("G", "T", 0, 4, NOW)
    rig = killed(rig, rig.broker.documents() | {POP_PLACES_DOCUMENT: documents[POP_PLACES_DOCUMENT]})
    assert offset(rig) == 4
