"""After a kill a group goes on behind what is in flight, and nowhere else."""

import json

import pytest

from regulus.broker.pop import places as pop_places
from regulus.broker.pop.orders import PopOrders
from regulus.broker.state import CONSUMER_OFFSET_DOCUMENT, POP_ORDERS_DOCUMENT, POP_PLACES_DOCUMENT
from regulus.errors import HeaderError
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.topics import TopicConfig
from regulus.record.pop_record import CheckpointKey, PopCheckpoint
from regulus.wire import encoded_table
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


@pytest.mark.parametrize("text", ['{}', '[]', '{"logPosition":-1}', '{"logPosition":"7"}', '{"logPosition":7.5}'])
def test_a_place_that_is_none_is_refused(text):
    """Without one a start passes by all that was popped since the offsets were saved, and hands it out once more."""
    with pytest.raises(HeaderError, match=r"regulusPops.json: .* no position of the log"):
        Rig().broker.load_documents({POP_PLACES_DOCUMENT: text})


# --- a slave ---------------------------------------------------------------------------------------------------------


class Pair:
    """A master and a slave that has all of its log."""

    def __init__(self) -> None:
        self.master = Rig()
        self.slave = Rig(self.master.store, broker_role="SLAVE", broker_id=1, namesrv_addr="n:1")

    def ask(self) -> None:
        log_end = self.slave.store.commit_log_max_offset()
        self.slave.broker.follow(self.master.broker.documents(), log_end, NOW, is_copy=True)

    def promoted(self) -> Rig:
        """The slave as the master, by what it saved."""
        documents = saved(self.slave)
        rig = Rig(self.slave.store, self.master.now_ms)
        rig.broker.load_documents(documents)
        rig.broker.lower_offsets(rig.now_ms)
        return rig


def test_a_promoted_slave_goes_on_behind_what_was_popped_since_it_asked():
    """Whenever it saved what it knows."""
    pair = Pair()
    pair.master.send(*"abcd")
    pair.master.pop(count=1, queue_id=0)
    for _ in range(2):
        pair.ask()
        pair.slave.broker.documents()
    assert bodies(pair.master.pop(count=2, queue_id=0)) == ["b", "c"]
    assert bodies(pair.promoted().pop(queue_id=0)) == ["d"]


def test_a_slave_that_never_heard_of_its_master_reads_all_of_the_log():
    pair = Pair()
    pair.master.send(*"abc")
    pair.slave.broker.subscription_groups.find("G", NOW)
    pair.master.pop(count=2, queue_id=0)
    assert bodies(pair.promoted().pop(queue_id=0)) == ["c"]


def test_a_slave_that_heard_nothing_in_this_run_goes_by_the_place_of_the_one_before():
    pair = Pair()
    pair.master.send(*"abc")
    pair.master.pop(count=1, queue_id=0)
    pair.ask()
    place = json.loads(saved(pair.slave)[POP_PLACES_DOCUMENT])
    assert place["logPosition"] > 0
    again = Rig(pair.slave.store, broker_role="SLAVE", broker_id=1, namesrv_addr="n:1")
    again.broker.load_documents({POP_PLACES_DOCUMENT: json.dumps(place)})
    pair.master.pop(count=1, queue_id=0)
    for _ in range(3):
        assert json.loads(again.broker.documents()[POP_PLACES_DOCUMENT]) == place


def test_a_slave_saves_its_place_when_there_is_more_of_the_log_to_know():
    pair = Pair()
    pair.master.send("a")
    changes = []
    for body in (None, "b", None):
        if body:
            pair.master.send(body)
        pair.ask()
        changes.append(pair.slave.broker.pop_places.changes)
    assert changes == [1, 2, 2]


def test_a_promoted_slave_keeps_back_what_was_popped_in_order():
    pair = Pair()
    pair.master.send(*"abc")
    (_, first), (_, second) = pair.master.pop(count=2, queue_id=0, order=True)
    pair.master.ack(first)
    pair.ask()
    rig = pair.promoted()
    assert rig.pop(queue_id=0, order=True) == []
    assert rig.ack(second).code == 0
    assert bodies(rig.pop(queue_id=0, order=True)) == ["c"]


def test_what_was_acknowledged_in_order_since_the_orders_were_asked_for_stays_done():
    """A slave asks for the offsets behind them, and a kill may leave the two documents like that, too."""
    pair = Pair()
    pair.master.send(*"abcd")
    popped = pair.master.pop(count=3, queue_id=0, order=True)
    orders = pair.master.broker.documents()[POP_ORDERS_DOCUMENT]
    for _, receipt in popped[:2]:
        pair.master.ack(receipt)
    documents = pair.master.broker.documents() | {POP_ORDERS_DOCUMENT: orders}
    pair.slave.broker.follow(documents, 0, NOW, is_copy=True)
    rig = pair.promoted()
    assert rig.ack(popped[2][1]).code == 0
    assert offset(rig) == 3
    assert bodies(rig.pop(queue_id=0, order=True)) == ["d"]


def test_what_is_out_of_a_log_that_the_slave_has_not_is_not_out_of_what_comes_there_instead():
    """The master's last messages did not come: their numbers are given once more."""
    pair = Pair()
    pair.master.send(*"abc")
    popped = pair.master.pop(count=3, queue_id=0, order=True)
    pair.ask()
    documents = saved(pair.slave)
    rig = Rig()
    rig.broker.load_documents(documents)
    rig.send(*"ab")                     # so much of it came
    rig.broker.lower_offsets(NOW)
    rig.send("d")
    for _, receipt in popped:
        rig.ack(receipt)
    assert bodies(rig.pop(queue_id=0, order=True)) == ["a", "b", "d"]


def test_a_slave_has_what_is_popped_in_order_as_its_master_has_it_and_nothing_more():
    pair = Pair()
    orders = pair.slave.broker.pop_orders
    orders.begin("T", "H", 0, [0], None, 30_000, NOW)       # of a run as the master
    pair.master.send("a")
    pair.master.pop(queue_id=0, order=True)
    for _ in range(2):
        pair.ask()
        assert (orders.changes, orders.wait_ms(NOW), orders.encoded.changed) == (2, None, {})
        assert text(orders) == text(pair.master.broker.pop_orders)
    pair.master.broker.pop_orders.remove("T", "G")
    pair.ask()
    assert (orders.changes, json.loads(text(orders))) == (3, {"table": {}})


def text(orders: PopOrders) -> str:
    return encoded_table.text(orders.document())


def test_a_log_that_was_cut_before_the_place_of_its_pops_is_read_from_its_end():
    """An old master that comes back as a slave: until it hears of the new one, its place is that of before the cut."""
    rig = Rig()
    rig.broker.subscription_groups.find("G", NOW)
    rig.send(*"abc")
    documents = saved(rig) | {POP_PLACES_DOCUMENT: '{"logPosition":1099511627776}'}
    again = Rig(rig.store, broker_role="SLAVE", broker_id=1, namesrv_addr="n:1")
    again.broker.load_documents(documents)
    documents[POP_PLACES_DOCUMENT] = again.broker.documents()[POP_PLACES_DOCUMENT]
    assert bodies(rig.pop(count=1, queue_id=0)) == ["a"]        # which comes with the log
    rig = killed(rig, documents)
    assert bodies(rig.pop(queue_id=0)) == ["b", "c"]


def test_acks_of_pops_that_lie_ahead_count_though_later_ones_lie_behind():
    """The clock was put back while the broker ran."""
    rig = Rig()
    rig.send(*"ab")
    documents = saved(rig)
    rig.now_ms = NOW + 5_000
    ((_, ahead),) = rig.pop(count=1, queue_id=0, invisible=10_000)
    rig.now_ms = NOW
    rig.pop(count=1, queue_id=0, invisible=10_000)
    rig = killed(rig, documents)
    assert rig.ack(ahead).code == 0
    rig.run_to(NOW + 20_000)
    assert bodies(rig.pop()) == ["b"]


@pytest.mark.parametrize("behind_ms", [0, 2_000, 3_600_000])
def test_acks_and_times_of_pops_that_lie_ahead_count_where_the_clock_is_behind_that_of_the_run_before(behind_ms):
    """It was put back, or is that of a slave that was promoted."""
    rig = Rig()
    rig.send(*"abc")
    documents = saved(rig)
    popped = rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 1_000)
    rig.now_ms -= behind_ms
    rig = killed(rig, documents)
    assert rig.ack(popped[0][1]).code == 0
    assert rig.change(popped[1][1], 30_000).code == 0
    rig.run_to(rig.now_ms + 10_000, step=200)
    rig.now_ms = NOW + 10_000 if behind_ms > 10_000 else rig.now_ms     # the hour goes by
    rig.run_to(NOW + 20_000)
    assert bodies(rig.pop()) == ["c"]
