"""What is popped is one consumer's for a time, and comes again unless it was acknowledged: by a virtual clock."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Hold, Reply
from regulus.model.message import MessageExt
from regulus.model.message_properties import PROPERTIES_SIZE_MAX
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.store_result import Arrival
from regulus.model.store_rules import FlushDiskType
from regulus.model.topics import TIMER_TOPIC, TopicConfig
from regulus.record import message_record
from regulus.record.pop_record import REVIVE_GROUP
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import SCANNED_MAX
from regulus.wire import recall_handle
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    AckMessageRequest,
    ChangeMessageInvisibletimeRequest,
    NotificationRequest,
    PeekMessageRequest,
    PollingInfoRequest,
    PopMessageRequest,
    PullMessageRequest,
    RecallMessageRequest,
    SendMessageRequest,
    UpdateConsumerOffsetRequest,
)
from regulus.wire.recall_handle import RecallHandle
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import HOST, NOW, PEER, PRECISION, Rig, bodies


def test_what_is_popped_is_hidden_and_comes_again_at_its_time_with_its_count_raised():
    rig = Rig()
    rig.send("a", "b")
    assert bodies(rig.pop()) == ["a", "b"]
    for later in range(0, 30_000, 1_000):
        rig.run_to(NOW + later)
        assert rig.pop() == []
    rig.run_to(NOW + 31_000)
    again = rig.pop()
    assert bodies(again) == ["a", "b"]
    message, handle = again[0]
    assert (message.topic, message.reconsume_times, handle.retry) == ("T", 1, "1")
    assert message.properties["1ST_POP_TIME"] == str(NOW)
    assert message.properties["POP_CK"] == encode(handle)


def test_what_is_acknowledged_never_comes_again():
    rig = Rig()
    rig.send("a", "b", "c")
    popped = rig.pop()
    for _, handle in popped[:2]:
        assert rig.ack(handle).code == 0
    rig.run_to(NOW + 40_000)
    assert bodies(rig.pop()) == ["c"]
    for _, handle in popped:
        assert rig.ack(handle).code == 0        # late: nothing comes of it
    rig.run_to(NOW + 80_000)
    assert bodies(rig.pop()) == ["c"]


def test_all_of_a_pop_acknowledged_leaves_nothing_in_the_revive_topic():
    rig = Rig()
    rig.send(*"abcd")
    for _, handle in rig.pop():
        rig.ack(handle)
    assert len(rig.broker.pop_flights) == 0
    rig.run_to(NOW + 40_000)
    assert rig.pop() == []
    topic = rig.broker.pop_flights.revive_topic
    assert [rig.store.max_offset(topic, queue_id) for queue_id in range(8)] == [0] * 8


def test_a_changed_time_counts_from_the_change_and_ends_the_old_receipt():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(invisible=30_000)
    rig.run_to(NOW + 25_000)
    answer = rig.change(handle, 40_000)
    assert answer.code == 0
    assert answer.ext["popTime"] == str(NOW + 25_000)
    assert rig.change(handle, 40_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 64_900)
    assert rig.pop() == []
    rig.run_to(NOW + 66_000)
    assert bodies(rig.pop()) == ["a"]


def test_a_new_receipt_acknowledges_and_the_old_one_does_not():
    rig = Rig()
    rig.send("a", "b")
    (_, old), (_, other) = rig.pop()
    answer = rig.change(old, 20_000)
    new = old._replace(start_offset=old.queue_offset, pop_time=int(answer.ext["popTime"]), invisible_time=20_000,
                       revive_queue_id=int(answer.ext["reviveQid"]))
    rig.ack(old)
    rig.ack(other)
    rig.run_to(NOW + 21_000)
    ((message, _),) = rig.pop()
    assert message.body == b"a"
    rig = Rig()
    rig.send("a")
    ((_, old),) = rig.pop()
    answer = rig.change(old, 20_000)
    new = old._replace(start_offset=old.queue_offset, pop_time=int(answer.ext["popTime"]), invisible_time=20_000,
                       revive_queue_id=int(answer.ext["reviveQid"]))
    rig.ack(new)
    rig.run_to(NOW + 60_000)
    assert rig.pop() == []


def test_a_time_of_nothing_makes_it_visible_at_once():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    rig.run_to(NOW + 25_000)
    assert rig.change(handle, 0).code == 0
    rig.run_to(NOW + 25_400)
    assert bodies(rig.pop()) == ["a"]


def test_what_is_over_or_acknowledged_takes_no_other_time():
    rig = Rig()
    rig.send("a", "b")
    (_, acked), (_, late) = rig.pop()
    rig.ack(acked)
    assert rig.change(acked, 60_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 30_000)
    assert rig.change(late, 60_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["b"]


@pytest.mark.parametrize("changed", [{"pop_time": NOW - 1}, {"pop_time": NOW + 1}, {"start_offset": 1},
                                     {"queue_offset": 1}, {"invisible_time": 12 * 3_600_000}])
def test_a_forged_receipt_acknowledges_nothing(changed):
    rig = Rig()
    rig.send("a")
    rig.run_to(NOW + 1)
    ((_, handle),) = rig.pop()
    rig.send("b")
    changed = {name: value + 1 if name == "pop_time" else value for name, value in changed.items()}
    if "invisible_time" in changed:
        changed["pop_time"] = handle.pop_time - 7
    rig.ack(handle, **changed)
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop())) == ["a", "b"]


FORGED = [{"broker_name": "broker-b"}, {"broker_name": ""}, {"revive_queue_id": 5}, {"invisible_time": 29_999},
          {"invisible_time": 30_001}, {"retry": "1"}, {"retry": "2"}, {"queue_offset": 1}, {"start_offset": 1},
          {"start_offset": -1}, {"queue_id": 1}, {"pop_time": NOW + 1}, {"pop_time": NOW + 2}]
"""Each field of a receipt that was given at NOW, for 30 s, of the first message of queue 0 by the revive queue 1."""


def request_with(handle: ReceiptHandle, code: Code, **changed: object) -> RemotingCommand:
    """That of the message itself, whatever the receipt says."""
    fields = {"consumer_group": "G", "topic": "T", "queue_id": 0, "offset": 0,
              "extra_info": encode(handle._replace(**changed))}
    if code == Code.ACK_MESSAGE:
        return RemotingCommand.request(int(code), AckMessageRequest(**fields).ext())
    return RemotingCommand.request(int(code), ChangeMessageInvisibletimeRequest(**fields, invisible_time=90_000).ext())


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("code", [Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME])
@pytest.mark.parametrize("changed", FORGED, ids=str)
def test_each_field_of_a_receipt_counts(changed, code, order):
    rig = Rig()
    rig.send("a", "b")
    rig.send("c", queue_id=1)
    handle = rig.pop(queue_id=0, order=order)[0][1]
    assert (handle.pop_time, handle.invisible_time, handle.start_offset) == (NOW, 30_000, 0)
    before = rig.store.commit_log_max_offset()
    if order:
        handle = handle._replace(revive_queue_id=999)
    request = request_with(handle, code, **changed)
    answer = rig.ask(code, request.ext)
    assert rig.store.commit_log_max_offset() == before
    assert code == Code.ACK_MESSAGE or answer.code in (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop(order=order))) == ["a", "b", "c"]


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("changed", [{"rq": 5}, {"it": 29_999}, {"it": 30_001}, {"r": "1"}, {"r": "x"}, {"pt": NOW + 1},
                                     {"q": 1}, {"so": 1, "b": "AQ=="}], ids=str)
def test_each_field_of_a_receipt_in_a_batch_counts(changed, order):
    rig = Rig()
    rig.send("a")
    rig.send("b", queue_id=1)
    handle = rig.pop(queue_id=0, order=order)[0][1]
    entry = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": handle.revive_queue_id, "pt": NOW, "it": 30_000,
             "b": "AQ=="}
    rig.ask(Code.BATCH_ACK_MESSAGE, {}, json.dumps({"brokerName": "broker-a", "acks": [entry | changed]}).encode())
    rig.ask(Code.BATCH_ACK_MESSAGE, {}, json.dumps({"brokerName": "broker-b", "acks": [entry]}).encode())
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop(order=order))) == ["a", "b"]


def test_a_forged_receipt_of_an_earlier_run_acknowledges_nothing_that_is_looked_up():
    """The record of it stands in another revive queue than its pop."""
    rig = Rig()
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop(queue_id=0)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    rig.ack(first, revive_queue_id=(first.revive_queue_id + 1) % 8)
    assert rig.change(second, 60_000).code == 0     # the pop is known from now on
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["a"]


def test_each_group_has_messages_of_its_own():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    assert bodies(rig.pop(group="H")) == ["a"]
    rig.ack(handle)
    rig.run_to(NOW + 31_000)
    assert rig.pop() == []
    assert bodies(rig.pop(group="H")) == ["a"]


def test_after_its_last_try_a_message_is_a_dead_letter_and_never_comes_again():
    rig = Rig()
    rig.send("a")
    rig.pop()
    rig.broker.subscription_groups.table["G"] = rig.broker.subscription_groups.table["G"].__class__(
        group_name="G", retry_max_times=2)
    for tries in range(1, 3):
        rig.run_to(NOW + 31_000 * tries)
        ((message, _),) = rig.pop()
        assert message.reconsume_times == tries
    rig.run_to(NOW + 200_000)
    assert rig.pop() == []
    (unit,) = rig.store.queue_units("%DLQ%G", 0, 0, 10)
    letter = rig.store.look_message(unit.physical_offset)
    assert (letter.body, letter.properties["DLQ_ORIGIN_TOPIC"]) == (b"a", "T")
    [text] = rig.broker.pop_revival.dead_letters.take()
    assert text.endswith(" is a dead letter of group G after 3 tries: the cause is not known")


def test_retries_go_to_the_second_form_of_their_topic_and_those_of_the_first_are_taken_too():
    rig = Rig()
    rig.send("a")
    rig.pop()
    rig.run_to(NOW + 31_000)        # in the first form's topic
    again = rig.restarted()
    again.broker.set_config(BrokerConfig(listen_port=10911, timer_precision_ms=PRECISION, enable_retry_topic_v2=True))
    again.send("b")
    assert sorted(bodies(again.pop())) == ["a", "b"]
    again.run_to(NOW + 62_000)
    assert again.store.max_offset("%RETRY%G+T", 0) == 1
    assert sorted(bodies(again.pop()) + bodies(again.pop())) == ["a", "b"]


def test_a_filter_holds_for_retries_as_well():
    rig = Rig()
    rig.send("a", tags="red")
    rig.send("b", tags="blue")
    assert bodies(rig.pop(exp="red", exp_type="TAG")) == ["a"]
    rig.run_to(NOW + 31_000)
    assert rig.pop(exp="blue", exp_type="TAG") == []
    assert bodies(rig.pop(group="H", exp="blue", exp_type="TAG")) == ["b"]


@pytest.mark.parametrize(("fields", "code"), [
    ({"count": 33}, ResponseCode.INVALID_PARAMETER), ({"count": 0}, ResponseCode.INVALID_PARAMETER),
    ({"invisible": 0}, ResponseCode.INVALID_PARAMETER), ({"invisible": 12 * 3_600_000 + 1},
                                                         ResponseCode.INVALID_PARAMETER),
    ({"queue_id": 2}, ResponseCode.INVALID_PARAMETER),
    ({"exp": "a >", "exp_type": "SQL92"}, ResponseCode.SYSTEM_ERROR)])
def test_what_cannot_be_is_refused(fields, code):
    rig = Rig()
    header = {"consumer_group": "G", "topic": "T", "queue_id": -1, "max_msg_nums": 1, "invisible_time": 1000,
              "poll_time": 0, "born_time": NOW, "init_mode": 0}
    spelled = {"count": "max_msg_nums", "invisible": "invisible_time", "group": "consumer_group"}
    header |= {spelled.get(name, name): value for name, value in fields.items()}
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header).ext()).code == code


def test_a_pop_that_cannot_be_noted_hands_nothing_out():
    rig = Rig()
    rig.send("a")
    rig.store.refusal = "the disk is full"
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=1, invisible_time=30_000,
                               poll_time=0, born_time=NOW, init_mode=0)
    answer = rig.ask(Code.POP_MESSAGE, header.ext())
    assert (answer.code, "the disk is full" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    rig.store.refusal = ""
    assert bodies(rig.pop()) == ["a"]


def test_a_pop_waits_for_a_message_and_one_that_was_slower_waits_on():
    rig = Rig()
    rig.broker.steady_ms = NOW
    for _ in range(2):
        header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=1, invisible_time=30_000,
                                   poll_time=5_000, born_time=NOW, init_mode=0)
        assert rig.ask(Code.POP_MESSAGE, header.ext()) is None
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a"}, 1, 0, 0, NOW, HOST, HOST, 0), NOW)
    arrivals = rig.store.dispatch(100, rig.broker.held_requests.queues)
    rig.broker.message_arrived(arrivals, NOW + 10)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]
    assert len(rig.broker.held_requests) == 1
    rig.run_to(NOW + 5_100)
    assert [notice.reply.answer.code for notice in rig.broker.notices] == [0, ResponseCode.POLLING_TIMEOUT]


def held_pop(rig: Rig, poll: int = 5_000, **fields: object) -> None:
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=32, invisible_time=30_000,
                               poll_time=poll, born_time=rig.now_ms, init_mode=0, **fields)
    assert rig.ask(Code.POP_MESSAGE, header.ext()) is None


def test_a_pop_that_waits_gets_what_comes_to_queues_that_its_topic_got_since():
    rig = Rig()
    rig.broker.steady_ms = NOW
    held_pop(rig)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4), NOW)
    rig.send("a", queue_id=3)
    rig.broker.message_arrived([Arrival("T", 3, 0, 0, NOW)], NOW)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]


def test_a_pop_with_a_filter_goes_on_by_itself_behind_what_it_passed_over():
    """No message has to arrive for it."""
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send(*[f"m{number}" for number in range(2 * SCANNED_MAX)], tags="red")
    rig.send("wanted", tags="blue")
    held_pop(rig, exp="blue", exp_type="TAG")
    rig.run_to(NOW + 50)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["wanted"]


def test_a_pop_with_a_filter_waits_at_the_end_of_what_it_passed_over():
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send(*[f"m{number}" for number in range(2 * SCANNED_MAX)], tags="red")
    held_pop(rig, exp="blue", exp_type="TAG")
    rig.run_to(NOW + 50)
    assert not rig.broker.held_requests.has_ready
    assert len(rig.broker.held_requests) == 1
    rig.run_to(NOW + 5_100)
    assert [notice.reply.answer.code for notice in rig.broker.notices] == [ResponseCode.POLLING_TIMEOUT]


@pytest.mark.parametrize("how", ["damaged", "unmapped"])
def test_a_damaged_queue_keeps_a_pop_from_no_other(how):
    rig = Rig()
    rig.send("a")
    rig.send("b", queue_id=1)
    getattr(rig.store, how)["T", 0] = "queue 0 is torn"
    assert bodies(rig.pop()) == ["b"]
    answer = rig.ask(Code.POP_MESSAGE, PopMessageRequest(
        consumer_group="G", topic="T", queue_id=-1, max_msg_nums=1, invisible_time=30_000, poll_time=0, born_time=NOW,
        init_mode=0).ext())
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "queue 0 is torn")
    getattr(rig.store, how).clear()
    assert bodies(rig.pop()) == ["a"]


def test_a_message_that_was_passed_on_with_an_old_receipt_has_its_own():
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a", "POP_CK": "0 1 2 3 0 broker-b 0 0"}, 0, 0, 0, NOW,
                                        HOST, HOST, 0), NOW)
    rig.settle()
    rig.pop()
    rig.run_to(NOW + 31_000)
    ((message, handle),) = rig.pop()
    assert message.properties["POP_CK"] == encode(handle)


def test_a_large_message_that_a_client_sent_to_a_retry_topic_keeps_no_other():
    rig = Rig()
    rig.send("a")
    rig.pop()
    rig.run_to(NOW + 31_000)        # the retry topic is there
    rig.broker.storing.store(MessageExt("%RETRY%G_T", b"b", {"X": "x" * (PROPERTIES_SIZE_MAX - 3)}, 0, 0, 0, NOW, HOST,
                                        HOST, 0), NOW)
    rig.settle()
    assert bodies(rig.pop()) == ["a", "b"]
    rig.run_to(NOW + 62_000)
    assert bodies(rig.pop()) == ["a"]
    assert [message.body for message in rig.shown("%DLQ%G")] == [b"b"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_hands_out_nothing_before_its_time_and_loses_nothing(is_killed):
    rig = Rig()
    rig.send(*"abcdef")
    first = rig.pop(count=3)
    rig.ack(first[0][1])
    rig.run_to(NOW + 5_000)
    documents = rig.broker.documents()          # what was saved; then three more are popped, and one is acknowledged
    rig.broker.documents()
    second = rig.pop(count=3)
    rig.ack(second[0][1])
    rig.run_to(NOW + 7_000)
    if is_killed:
        rig.broker.documents = lambda: documents
    rig = rig.restarted(is_killed=is_killed)
    assert rig.pop() == []
    rig.run_to(NOW + 29_000)
    assert rig.pop() == []
    rig.run_to(NOW + 31_000)
    assert sorted(bodies(rig.pop())) == ["b", "c"]
    rig.run_to(NOW + 36_000)
    assert sorted(bodies(rig.pop())) == ["e", "f"]


def test_acks_of_an_earlier_run_count():
    rig = Rig()
    rig.send(*"abc")
    popped = rig.pop()
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    rig.run_to(NOW + 2_000)
    for _, handle in popped[:2]:
        assert rig.ack(handle).code == 0
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["c"]


def test_an_ack_just_before_the_time_counts():
    """While it stands in memory alone."""
    rig = Rig()
    rig.send(*"ab")
    (_, first), _ = rig.pop(invisible=10_000)
    rig.run_to(NOW + 9_900)
    assert rig.ack(first).code == 0
    rig.run_to(NOW + 10_700)
    assert bodies(rig.pop(invisible=10_000)) == ["b"]


def test_what_the_store_refuses_to_make_visible_comes_when_it_takes_it():
    rig = Rig()
    rig.send(*"ab")
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 9_800)
    rig.store.refusal = "the disk is full"
    rig.run_to(NOW + 12_000)
    rig.store.refusal = ""
    rig.run_to(NOW + 13_000)
    assert sorted(bodies(rig.pop())) == ["a", "b"]


def test_a_start_finds_the_pops_whose_time_is_nearly_over():
    """They have left the timers, and are in the revive topic."""
    rig = Rig()
    rig.send(*"ab")
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 9_700)
    rig = rig.restarted()
    rig.run_to(NOW + 11_000)
    assert sorted(bodies(rig.pop())) == ["a", "b"]


def test_an_ack_at_the_end_of_a_run_is_kept():
    rig = Rig()
    rig.send(*"ab")
    (_, first), _ = rig.pop(invisible=10_000)
    rig.run_to(NOW + 5_000)
    assert rig.ack(first).code == 0
    rig = rig.restarted()
    rig.run_to(NOW + 11_000)
    assert bodies(rig.pop()) == ["b"]


def test_a_group_that_was_set_back_stays_there_at_a_start():
    rig = Rig()
    rig.send(*"abcd")
    rig.pop(count=2, queue_id=0)
    rig.broker.documents()
    rig.run_to(NOW + 1_000)
    rig.broker.documents()
    rig.pop(count=2, queue_id=0)
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, rig.now_ms)
    rig = rig.restarted(is_killed=True)
    assert rig.broker.consumer_offsets.query("G", "T", 0) == 0


# --- receipts of earlier runs, and batches ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_another_time_by_a_receipt_of_an_earlier_run_brings_back_nothing_that_was_acknowledged(is_killed, count):
    """One, some or all of the pop: a record, one for several, or what took the checkpoint out."""
    rig = Rig()
    rig.send(*"abc")
    popped = rig.pop()
    for _, handle in popped[:count]:
        rig.ack(handle)
    rig.run_to(NOW + 2_000)
    rig = rig.restarted(is_killed=is_killed)
    rig.run_to(NOW + 5_000)
    for _, handle in popped[:count]:
        assert rig.change(handle, 60_000).code == ResponseCode.NO_MESSAGE
    for _, handle in popped[count:]:
        assert rig.change(handle, 10_000).code == 0
    rig.run_to(NOW + 16_000)
    assert bodies(rig.pop()) == list("abc")[count:]
    rig.run_to(NOW + 35_000)
    assert rig.pop() == []


def test_another_time_that_was_told_outlives_a_kill():
    rig = Rig()
    rig.send(*"ab")
    (_, first), _ = rig.pop(invisible=10_000)
    assert rig.change(first, 20_000).code == 0
    rig.now_ms += 1
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["b"]
    rig.run_to(NOW + 22_000)
    assert bodies(rig.pop()) == ["a"]


def test_another_time_by_a_receipt_of_an_earlier_run_counts_once():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    assert rig.change(handle, 60_000).code == 0
    assert rig.change(handle, 60_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 60_000)
    assert rig.pop() == []
    rig.run_to(NOW + 62_000)
    assert bodies(rig.pop()) == ["a"]


def test_another_time_by_a_receipt_that_claims_a_longer_one_is_none_of_what_is_about_to_come_again():
    """It would come by both."""
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(invisible=10_000)
    rig.run_to(NOW + 9_950)
    rig.now_ms = NOW + 10_000
    assert rig.change(handle._replace(invisible_time=3_600_000), 5_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]
    rig.run_to(NOW + 20_000)
    assert rig.pop() == []


@pytest.mark.parametrize("changed", [{"pop_time": NOW - 7}, {"invisible_time": 3_600_000}])
def test_another_time_by_a_forged_receipt_of_an_earlier_run_brings_nothing(changed):
    rig = Rig()
    rig.send(*"ab")
    (_, first), (_, second) = rig.pop()
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["a", "b"]
    rig = rig.restarted()
    rig.run_to(NOW + 33_000)
    for handle in (first, second):
        assert rig.change(handle._replace(**changed), 1_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 40_000)
    assert rig.pop() == []


def batch_ack(rig: Rig, *entries: dict[str, object]) -> RemotingCommand:
    own = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 1, "pt": NOW, "it": 30_000, "b": "AQ=="}
    body = json.dumps({"brokerName": "broker-a", "acks": [own | each for each in entries]}).encode()
    answer = rig.ask(Code.BATCH_ACK_MESSAGE, {}, body)
    assert answer is not None
    return answer


HOSTILE_BATCHES = [
    {"c": ""}, {"c": "a@b"}, {"c": "G\x02TAGS\x01ck"}, {"t": "U"}, {"t": "../x"}, {"so": -1}, {"so": 1 << 62},
    {"so": (1 << 63) - 1}, {"pt": -1}, {"it": -1}, {"it": (1 << 63) - 1}, {"b": "AQ"}, {"b": "/" * 1_000_000},
    {"rq": -1}, {"rq": 8}, {"q": -1}]


@pytest.mark.parametrize("hostile", HOSTILE_BATCHES, ids=lambda each: json.dumps(each)[:40])
def test_a_batch_acknowledges_what_it_can_beside_what_nobody_popped(hostile):
    rig = Rig(now_ms=NOW + 1)       # so that it asks for pops of an earlier run
    rig.now_ms = NOW
    rig.send("a", "b")
    rig.pop(queue_id=0, count=1)
    records = rig.store.commit_log_max_offset()
    assert batch_ack(rig, hostile, {}).code == 0
    assert len(rig.broker.pop_flights) == 0
    assert len(rig.shown(TIMER_TOPIC)) == 2
    assert rig.store.commit_log_max_offset() > records


@pytest.mark.parametrize("hostile", [{"so": float("inf")}, {"pt": float("inf")}, {"it": 1.5}, {"b": [7]}],
                         ids=lambda each: json.dumps(each)[:40])
def test_a_batch_that_is_none_is_refused(hostile):
    rig = Rig()
    assert batch_ack(rig, hostile).code != 0


def test_what_the_store_refuses_of_a_batch_keeps_no_other():
    rig = Rig()
    rig.send("a", "b")
    rig.pop(queue_id=0, count=2)
    old = {"pt": NOW - 1_000, "so": 1}       # of an earlier run, for which the store is asked
    rig.store.refusal = "the disk is full"
    answer = batch_ack(rig, old, {}, old, {"b": "Ag=="})
    assert (answer.code, "the disk is full" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    rig.store.refusal = ""
    rig.run_to(NOW + 32_000)
    assert rig.pop() == []


@pytest.mark.parametrize("group", ["a@b", "G\x02X\x01y", "", "g" * 121])
def test_a_group_that_cannot_be_is_refused(group):
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    handle = handle._replace(pop_time=NOW - 1)
    before = rig.store.commit_log_max_offset()
    for answer in (rig.ack(handle, group), rig.change(handle, 1_000, group)):
        assert answer.code == ResponseCode.INVALID_PARAMETER
    assert rig.store.commit_log_max_offset() == before


# --- the log of pops is the broker's own -----------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["DefaultCluster", "kitchen"])
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.SEND_BATCH_MESSAGE])
def test_no_client_writes_into_the_log_of_pops(cluster, code):
    rig = Rig(broker_cluster_name=cluster)
    header = SendMessageRequest(producer_group="P", topic=f"rmq_sys_REVIVE_LOG_{cluster}", default_topic="TBW102",
                                default_topic_queue_nums=8, queue_id=0, sys_flag=0, born_timestamp=NOW, flag=0,
                                properties={"TAGS": "ck"}, reconsume_times=0, unit_mode=False,
                                batch=code == Code.SEND_BATCH_MESSAGE)
    answer = rig.ask(code, header.ext(), b"{}")
    assert (answer.code, "forbidden" in answer.remark) == (ResponseCode.NO_PERMISSION, True)
    assert rig.store.commit_log_max_offset() == 0


def test_no_client_takes_a_pop_back():
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    topic = rig.broker.pop_flights.revive_topic
    (waiting,) = rig.shown(TIMER_TOPIC)
    properties = waiting.properties
    handle = RecallHandle(topic, "broker-a", int(properties["TIMER_OUT_MS"]) + 1, properties["UNIQ_KEY"])
    answer = rig.ask(Code.RECALL_MESSAGE, RecallMessageRequest(
        producer_group="P", topic=topic, recall_handle=recall_handle.encode(handle)).ext())
    assert answer.code == ResponseCode.NO_PERMISSION
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]


def test_no_client_says_what_of_the_pops_is_done():
    rig = Rig()
    topic = rig.broker.pop_flights.revive_topic
    rig.broker.subscription_groups.find(REVIVE_GROUP, NOW)
    answer = rig.ask(Code.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(
        consumer_group=REVIVE_GROUP, topic=topic, queue_id=0, commit_offset=7).ext())
    assert answer.code == ResponseCode.NO_PERMISSION
    rig.ask(Code.PULL_MESSAGE, PullMessageRequest(
        consumer_group=REVIVE_GROUP, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=5,
        commit_offset=7, suspend_timeout_millis=0, sub_version=0, subscription="*").ext())
    assert rig.broker.consumer_offsets.query(REVIVE_GROUP, topic, 0) == -1


# --- in order --------------------------------------------------------------------------------------------------------


def counts(rig: Rig, count: int = 32, attempt: str | None = None) -> dict[str, str]:
    """Pop one queue in order; the counts that the answer tells, empty for no answer."""
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=0, max_msg_nums=count, invisible_time=30_000,
                               poll_time=0, born_time=rig.now_ms, init_mode=0, order=True, attempt_id=attempt)
    answer = rig.ask(Code.POP_MESSAGE, header.ext())
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return {}
    rig.popped = rig.taken(answer)
    return dict(each.split(" ")[1:] for each in answer.ext["orderCountInfo"].split(";"))


def test_in_order_an_attempt_has_no_id_without_end():
    """It is kept for each queue, and goes into the document."""
    rig = Rig()
    rig.send("a")
    header = {"consumer_group": "G", "topic": "T", "queue_id": 0, "max_msg_nums": 1, "invisible_time": 30_000,
              "poll_time": 0, "born_time": NOW, "init_mode": 0, "order": True}
    answer = rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, attempt_id="x" * 256).ext())
    assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER,
                                            "the attempt id has 256 characters, more than 255")
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, attempt_id="x" * 255).ext()).code == 0


def test_in_order_a_queue_gives_nothing_until_all_is_acknowledged_or_visible():
    rig = Rig()
    rig.send(*"abcd")
    assert counts(rig, 2) == {"0": "0"}
    assert bodies(rig.popped) == ["a", "b"]
    first, second = [handle for _, handle in rig.popped]
    assert first.revive_queue_id == 999
    assert counts(rig, 2) == {}
    assert rig.ack(second).code == 0
    assert counts(rig, 2) == {}
    assert rig.ack(first).code == 0
    assert counts(rig, 2) == {"0": "0"}
    assert bodies(rig.popped) == ["c", "d"]


def test_in_order_the_same_message_comes_first_again_and_is_counted():
    rig = Rig()
    rig.send(*"abc")
    counts(rig, 2)
    assert rig.ack(rig.popped[1][1]).code == 0
    rig.run_to(NOW + 29_900)
    assert counts(rig, 3) == {}
    rig.run_to(NOW + 30_000)
    assert counts(rig, 3) == {"0": "0", "qo0%0": "1", "qo0%1": "1"}
    assert bodies(rig.popped) == ["a", "b", "c"]


def test_in_order_a_repeated_attempt_gives_the_same_and_is_not_counted():
    rig = Rig()
    rig.send(*"ab")
    counts(rig, 2, "attempt-1")
    assert counts(rig, 2, "attempt-2") == {}
    assert counts(rig, 2, "attempt-1") == {"0": "0"}
    assert bodies(rig.popped) == ["a", "b"]


def test_in_order_a_receipt_of_an_earlier_pop_is_worth_nothing():
    rig = Rig()
    rig.send("a")
    counts(rig)
    ((_, old),) = rig.popped
    rig.run_to(NOW + 31_000)
    counts(rig)
    assert rig.ack(old).code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.change(old, 60_000).code == ResponseCode.NO_MESSAGE
    assert rig.ack(rig.popped[0][1]).code == 0
    rig.run_to(NOW + 90_000)
    assert counts(rig) == {}


def test_in_order_another_time_keeps_the_queue_as_long():
    rig = Rig()
    rig.send("a")
    counts(rig)
    ((_, handle),) = rig.popped
    rig.run_to(NOW + 10_000)
    answer = rig.change(handle, 3_000)
    assert (answer.code, answer.ext["popTime"]) == (0, str(handle.pop_time))
    rig.run_to(NOW + 12_900)
    assert counts(rig) == {}
    rig.run_to(NOW + 13_000)
    assert counts(rig) == {"0": "1", "qo0%0": "1"}


def test_in_order_a_receipt_says_until_when_it_counts_however_often_its_time_is_changed():
    """Fronts refuse a receipt whose time is over by what it says."""
    rig = Rig()
    rig.send("a")
    counts(rig)
    ((_, handle),) = rig.popped
    for later_ms, added_ms, until_ms in ((20_000, 40_000, 60_000), (50_000, 12 * 3_600_000, 50_000 + 12 * 3_600_000),
                                         (60_000, 12 * 3_600_000, 60_000 + 12 * 3_600_000), (70_000, 5_000, 75_000)):
        rig.run_to(NOW + later_ms)
        answer = rig.change(handle, added_ms)
        assert (answer.code, answer.ext["popTime"], answer.ext["reviveQid"]) == (0, str(handle.pop_time), "999")
        assert int(answer.ext["popTime"]) + int(answer.ext["invisibleTime"]) == NOW + until_ms, later_ms
        handle = handle._replace(invisible_time=int(answer.ext["invisibleTime"]))
    assert rig.ack(handle).code == 0


def test_a_receipt_of_more_than_twelve_hours_is_none_but_in_order():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    long = handle._replace(invisible_time=12 * 3_600_000 + 1)
    assert (rig.ack(long).code, rig.change(long, 1_000).code) == (ResponseCode.MESSAGE_ILLEGAL,) * 2
    negative = handle._replace(invisible_time=-1)
    assert (rig.ack(negative).code, rig.change(negative, 1_000).code) == (ResponseCode.MESSAGE_ILLEGAL,) * 2
    assert rig.ack(handle).code == 0


def test_in_order_who_waits_is_answered_when_the_queue_is_free():
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send("a")
    counts(rig)
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=1, invisible_time=30_000,
                               poll_time=60_000, born_time=NOW, init_mode=0, order=True)
    assert rig.ask(Code.POP_MESSAGE, header.ext()) is None
    rig.run_to(NOW + 29_900)
    assert not rig.broker.notices
    rig.run_to(NOW + 30_100)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]


def test_in_order_who_waits_is_answered_by_a_message_alone_where_an_operator_says_so():
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.broker.set_config(replace(rig.broker.config, enable_notify_after_pop_order_lock_release=False))
    rig.send("a")
    counts(rig)
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=1, invisible_time=30_000,
                               poll_time=60_000, born_time=NOW, init_mode=0, order=True)
    assert rig.ask(Code.POP_MESSAGE, header.ext()) is None
    rig.run_to(NOW + 40_000)
    assert not rig.broker.notices
    rig.send("b")
    rig.broker.message_arrived([Arrival("T", 0, 1, 0, rig.now_ms)], rig.now_ms)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]


def test_in_order_a_start_knows_what_is_out():
    rig = Rig()
    rig.send(*"ab")
    counts(rig)
    rig.ack(rig.popped[0][1])
    handle = rig.popped[1][1]
    told_ms = int(rig.change(handle, 40_000).ext["invisibleTime"])
    rig = rig.restarted()
    assert counts(rig) == {}
    rig.run_to(NOW + 39_000)
    assert counts(rig) == {}
    assert rig.ack(handle).code == ResponseCode.MESSAGE_ILLEGAL     # another one was given for it
    assert rig.ack(handle, invisible_time=told_ms).code == 0
    rig.send("c")
    assert counts(rig) == {"0": "0"}
    assert bodies(rig.popped) == ["c"]


# --- without popping -------------------------------------------------------------------------------------------------


def test_what_is_looked_at_stays_where_it_is():
    rig = Rig()
    look = PeekMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=2).ext()
    assert rig.ask(Code.PEEK_MESSAGE, look).code == ResponseCode.PULL_NOT_FOUND
    rig.send(*"abc")
    answer = rig.ask(Code.PEEK_MESSAGE, look)
    assert [message.body for message in message_record.decode_all(answer.body)] == [b"a", b"b"]
    assert answer.ext["restNum"] == "1"
    assert bodies(rig.pop()) == ["a", "b", "c"]
    assert rig.ask(Code.PEEK_MESSAGE, look).code == ResponseCode.PULL_NOT_FOUND


def test_who_wants_to_know_is_told_when_there_is_a_message():
    rig = Rig()
    rig.broker.steady_ms = NOW
    wanted = NotificationRequest(consumer_group="G", topic="T", queue_id=-1, poll_time=5_000, born_time=NOW).ext()
    assert rig.ask(Code.NOTIFICATION, wanted) is None
    asked = PollingInfoRequest(consumer_group="G", topic="T", queue_id=-1).ext()
    assert rig.ask(Code.POLLING_INFO, asked).ext == {"pollingNum": "1"}
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a"}, 1, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.broker.message_arrived(rig.store.dispatch(100, rig.broker.held_requests.queues), NOW)
    (notice,) = rig.broker.notices
    assert notice.reply.answer.ext == {"hasMsg": "true", "pollingFull": "false"}
    assert bodies(rig.pop()) == ["a"]
    assert rig.ask(Code.NOTIFICATION, wanted) is None
    rig.run_to(NOW + 5_100)
    assert rig.broker.notices[1].reply.answer.ext == {"hasMsg": "false", "pollingFull": "false"}


def test_what_a_held_pop_looks_at_counts_for_its_step():
    rig = Rig(enable_property_filter=True)
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=0, max_msg_nums=1, invisible_time=30_000,
                               poll_time=10_000, born_time=rig.now_ms, init_mode=0, exp="UNIQ_KEY = 'b'",
                               exp_type="SQL92")
    assert rig.ask(Code.POP_MESSAGE, header.ext()) is None
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a"}, 0, 0, 0, rig.now_ms, HOST, HOST, 0), rig.now_ms)
    rig.broker.message_arrived(rig.store.dispatch(10), rig.now_ms)
    # Of the two parts of the condition.
    assert rig.broker.held_requests.looked == 2 * rig.store.queue_units("T", 0, 0, 1)[0].size
    assert len(rig.broker.held_requests) == 1


def test_a_pop_of_several_queues_looks_no_further_than_one_of_one_queue(monkeypatch):
    """The queues behind it are looked at when it is run again, and it goes on by itself."""
    monkeypatch.setattr("regulus.broker.handlers.pop_message.LOOKED_MAX", 1)
    rig = Rig(enable_property_filter=True)
    rig.broker.steady_ms = NOW
    rig.send("a", queue_id=0)
    rig.send("b", queue_id=1)
    read = []
    get_message = rig.store.get_message
    monkeypatch.setattr(rig.store, "get_message", lambda *asked: read.append(asked[1]) or get_message(*asked))
    held_pop(rig, exp="UNIQ_KEY = 'none'", exp_type="SQL92")
    assert len(set(read)) == 1
    rig.run_to(NOW + 50)
    assert set(read) == {0, 1}


def notified(rig: Rig, poll: int = 10_000) -> RemotingCommand | None:
    return rig.ask(Code.NOTIFICATION, NotificationRequest(
        consumer_group="G", topic="T", queue_id=-1, poll_time=poll, born_time=rig.now_ms).ext())


def test_who_wants_to_know_hears_of_what_a_pop_would_give():
    """Of retries of the second kind only where these are popped: or clients would ask without a pause."""
    rig = Rig(enable_retry_topic_v2=True)
    rig.broker.steady_ms = NOW
    rig.send("a")
    rig.pop(queue_id=0)
    assert notified(rig) is None
    assert rig.broker.held_requests.waiting("%RETRY%G+T", -1) == 1
    rig.run_to(NOW + 35_000)
    assert notified(rig).ext["hasMsg"] == "true"
    rig.broker.config = replace(rig.broker.config, enable_retry_topic_v2=False)
    assert rig.pop() == []
    assert notified(rig) is None


def test_no_more_pops_are_known_than_may_be_also_by_changed_times(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop.flights.FLIGHTS_MAX", 4)
    rig = Rig()
    handles = []
    for number in range(20):
        rig.send(f"{number}a", f"{number}b")
        (_, handle), _ = rig.pop(count=2, queue_id=0)
        handles.append(handle)
        rig.run_to(rig.now_ms + 10)
    rig = rig.restarted()
    for handle in handles:
        assert rig.change(handle, 60_000).code == 0
    rig.send("last")
    rig.pop(queue_id=0)
    assert len(rig.broker.pop_flights) <= 4


def test_the_answer_of_a_pop_that_waited_waits_for_the_log_as_one_at_once():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.broker.steady_ms = NOW
    held_pop(rig)
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a"}, 0, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.broker.message_arrived(rig.store.dispatch(100, rig.broker.held_requests.queues), NOW)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]
    assert notice.reply.durable_at == rig.store.commit_log_max_offset() > 0
    rig.broker.notices.clear()
    held_pop(rig, poll=100)
    rig.run_to(NOW + 300)
    assert [notice.reply.durable_at for notice in rig.broker.notices] == [0]


def test_what_is_acknowledged_of_a_pop_that_is_left_to_the_log_stays_away(monkeypatch):
    """Before it was left, and behind that."""
    monkeypatch.setattr("regulus.broker.pop.flights.FLIGHTS_MAX", 1)
    rig = Rig()
    rig.send(*"abcd")
    (_, first), (_, second) = rig.pop(count=2, queue_id=0)
    assert rig.ack(first).code == 0
    for _ in range(2):
        rig.run_to(rig.now_ms + 100)
        assert len(rig.pop(count=1, queue_id=0)) == 1
    assert rig.ack(second).code == 0
    rig.run_to(NOW + 40_000)
    assert sorted(bodies(rig.pop())) == ["c", "d"]


def test_in_order_what_is_done_or_over_takes_no_other_time():
    rig = Rig()
    rig.send("a", "b")
    counts(rig)
    (_, first), (_, second) = rig.popped
    assert rig.ack(first).code == 0
    assert rig.change(first, 60_000).code == ResponseCode.NO_MESSAGE
    rig.run_to(NOW + 31_000)
    assert rig.change(second, 60_000).code == ResponseCode.NO_MESSAGE


def test_in_order_what_was_acknowledged_may_be_so_once_more():
    """Its consumer did not hear of it."""
    rig = Rig()
    rig.send("a")
    counts(rig)
    ((_, handle),) = rig.popped
    assert [rig.ack(handle).code for _ in range(2)] == [0, 0]


def test_what_could_not_be_made_visible_at_once_is_so_once():
    """One of a pop was, and the store refused the next."""
    rig = Rig()
    rig.send(*"abc")
    rig.pop(invisible=10_000)
    storing, refusals = rig.broker.pop_revival._storing, [None, "the disk is full", None]

    def append(message, now_ms):
        rig.store.refusal = (refusals.pop(0) if refusals else None) or ""
        try:
            return storing.append(message, now_ms)
        finally:
            rig.store.refusal = ""

    rig.broker.pop_revival._storing = SimpleNamespace(append=append, facts=storing.facts)
    rig.run_to(NOW + 13_000)
    assert refusals == []
    assert sorted(bodies(rig.pop())) == ["a", "b", "c"]


def test_another_time_is_told_when_it_is_on_disk():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a")
    ((_, handle),) = rig.pop()
    header = ChangeMessageInvisibletimeRequest(
        consumer_group="G", topic="T", queue_id=0, extra_info=encode(handle), offset=0, invisible_time=60_000)
    request = RemotingCommand.request(int(Code.CHANGE_MESSAGE_INVISIBLETIME), header.ext())
    outcome = request_table.handle(request, PEER, rig.broker, NOW)
    assert isinstance(outcome, Reply)
    assert (outcome.answer.code, outcome.is_firm) == (0, True)
    assert outcome.durable_at == rig.store.commit_log_max_offset() > 0


def test_deleting_a_topic_leaves_the_retries_of_one_that_is_made_anew_meanwhile():
    rig = Rig()
    for number in range(3):
        rig.send("a")
        rig.pop(group=f"G{number}")
    rig.run_to(NOW + 31_500)
    assert all(rig.shown(f"%RETRY%G{number}_T") for number in range(3))
    outcome = request_table.handle(RemotingCommand.request(int(Code.DELETE_TOPIC_IN_BROKER), {"topic": "T"}), PEER,
                                   rig.broker, rig.now_ms)
    assert isinstance(outcome, Hold)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2), rig.now_ms)
    rig.send("new")
    popped = rig.pop(group="G2")
    assert "new" in bodies(popped)
    for message, handle in popped:
        if message.body == b"new":
            header = ChangeMessageInvisibletimeRequest(
                consumer_group="G2", topic="T", queue_id=handle.queue_id, extra_info=encode(handle),
                offset=handle.queue_offset, invisible_time=0, suspend=True)
            assert rig.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, header.ext()).code == 0
    rig.run_to(rig.now_ms + 1_000)
    rig.run_to(rig.now_ms + 60_000)
    assert "new" in bodies(rig.pop(group="G2"))


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize("damaged", ["a", "b", "ab"])
def test_a_damaged_message_of_a_retry_topic_keeps_no_other_from_being_popped(tmp_path, damaged, is_v2):
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20,
                                                mapped_file_size_consume_queue=20_000), BrokerConfig())
    store.open()
    rig = Rig(store, enable_retry_topic_v2=is_v2)
    retries = "%RETRY%G+T" if is_v2 else "%RETRY%G_T"
    rig.send("a", "b", "c")
    assert len(rig.pop(invisible=10_000)) == 3
    rig.run_to(NOW + 12_000)
    (file,) = (tmp_path / "commitlog").iterdir()
    for message in rig.shown(retries):
        if message.body.decode() in damaged:
            # The length of the properties, which is looked at only when they are read.
            start = file.read_bytes().index(retries.encode(), message.physical_offset) + len(retries)
            with file.open("r+b") as log:
                log.seek(start)
                log.write(b"\xff\xff")
    header = PopMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=32, invisible_time=30_000,
                               poll_time=0, born_time=rig.now_ms, init_mode=0)
    answer = rig.ask(Code.POP_MESSAGE, header.ext())
    assert answer.code == ResponseCode.SUCCESS
    assert [message.body.decode() for message in message_record.decode_all(answer.body)] == \
        [each for each in "abc" if each not in damaged]
    store.close()
