"""Acks that stand in memory come into the log in time, once, and those of pops that are known no more count, too."""

import pytest

from regulus.broker import request_table
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.store_result import QueryResult
from regulus.model.topics import TIMER_TOPIC
from regulus.record import pop_record
from regulus.record.pop_record import Acks, CheckpointKey
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import ChangeMessageInvisibletimeRequest, PopMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import HOST, NOW, PEER, Rig, bodies


def records(rig: Rig) -> list[MessageExt]:
    """All that pops and acks have left in the log."""
    return rig.shown(TIMER_TOPIC)


def popped_one_by_one(rig: Rig, *sent: str, size: int = 1) -> list[ReceiptHandle]:
    """The receipts of all, by pops of so many messages, each 10 ms after the other."""
    rig.send(*sent)
    handles: list[ReceiptHandle] = []
    for _ in range(0, len(sent), size):
        handles += [handle for _, handle in rig.pop(count=size, queue_id=0)]
        rig.run_to(rig.now_ms + 10, step=10)
    return handles


# --- what is written, and when ---------------------------------------------------------------------------------------


def test_an_ack_stands_in_memory_for_a_second_counted_from_the_first_of_its_pop():
    rig = Rig()
    rig.send(*"abc")
    handles = [handle for _, handle in rig.pop(queue_id=0)]
    rig.ack(handles[0])
    rig.run_to(NOW + 900)
    rig.ack(handles[1])
    assert len(records(rig)) == 1
    rig.run_to(NOW + 1_050)
    assert [record.tags for record in records(rig)] == ["ck", "bAck"]
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["c"]


def test_an_ack_that_is_said_again_is_not_written_again():
    rig = Rig()
    rig.send(*"abc")
    first, second, third = [handle for _, handle in rig.pop(queue_id=0)]
    rig.ack(first)
    rig.run_to(NOW + 1_100)
    assert rig.ack(first).code == 0
    rig.run_to(NOW + 2_300)
    assert len(records(rig)) == 2
    rig.ack(second)
    rig.ack(third)
    assert len(records(rig)) == 3
    for handle in (first, second, third):
        assert rig.ack(handle).code == 0
    assert len(records(rig)) == 3


def test_an_ack_of_an_earlier_run_that_comes_late_is_not_written():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    rig.run_to(NOW + 10_000)
    before = rig.store.commit_log_max_offset()
    assert rig.ack(handle).code == 0
    assert rig.store.commit_log_max_offset() == before


@pytest.mark.parametrize("acked_ms", [7_900, 8_000, 8_500, 8_999, 9_000, 9_500, 9_999])
@pytest.mark.parametrize("is_killed", [False, True])
def test_an_ack_of_a_whole_pop_counts_whenever_it_comes(acked_ms, is_killed):
    """Before its checkpoint leaves the timers, while it leaves, and when it is in the revive topic."""
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + acked_ms)
    assert rig.ack(handle).code == 0
    if is_killed:
        rig.now_ms += 1
        rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 14_000)
    assert rig.pop() == []


def test_an_ack_that_was_not_written_before_its_pop_was_over_is_written_with_what_came_again():
    rig = Rig()
    rig.send("a", "b")
    (_, handle), _ = rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 9_900)
    rig.ack(handle)
    rig.run_to(NOW + 14_000)
    revived = [message for queue_id in range(8) for message in rig.shown(rig.broker.pop_flights.revive_topic, queue_id)]
    assert [record.tags for record in records(rig) + revived] == ["ck", "ck", "bAck"]
    assert pop_record.decode_acks(revived[-1].body).offsets == (0, 1)
    assert bodies(rig.pop()) == ["b"]


def test_one_tick_writes_no_more_than_the_limit():
    rig = Rig()
    rig.send(*[f"m{number}" for number in range(260)])
    for _ in range(130):
        (_, handle), _ = rig.pop(count=2, queue_id=0)
        rig.ack(handle)
    flights = rig.broker.pop_flights
    later = NOW + 1_000
    assert [flights.tick(HOST, later - 1), flights.tick(HOST, later), flights.tick(HOST, later)] == [1, 0, None]


# --- a store that refuses --------------------------------------------------------------------------------------------


def test_an_ack_that_the_store_refused_is_written_when_it_takes_it():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(queue_id=0)
    rig.store.refusal = "the disk is full"
    assert rig.ack(handle).code == ResponseCode.SYSTEM_ERROR
    rig.run_to(NOW + 2_000)
    rig.store.refusal = ""
    rig.run_to(NOW + 4_000)
    assert len(rig.broker.pop_flights) == 0
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 32_000)
    assert rig.pop() == []


def test_an_ack_whose_second_was_over_while_the_store_refused_is_written_when_it_takes_it():
    rig = Rig()
    rig.send("a", "b")
    (_, handle), _ = rig.pop(queue_id=0)
    assert rig.ack(handle).code == 0
    rig.store.refusal = "the disk is full"
    rig.run_to(NOW + 3_000)
    rig.store.refusal = ""
    rig.run_to(NOW + 5_000)
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["b"]


def test_a_store_that_refuses_is_asked_again_after_a_second():
    rig = Rig()
    rig.send("a", "b")
    (_, handle), _ = rig.pop(queue_id=0)
    rig.ack(handle)
    rig.store.refusal = "the disk is full"
    assert rig.broker.pop_flights.tick(HOST, NOW + 1_000) == 1_000


def test_a_pop_that_the_store_refused_takes_no_other_time():
    """Nobody has its messages."""
    rig = Rig()
    rig.send("a")
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, NOW)
    rig.store.refusal = "the disk is full"
    answer = rig.ask(Code.POP_MESSAGE, PopMessageRequest(
        consumer_group="G", topic="T", queue_id=0, max_msg_nums=1, invisible_time=30_000, poll_time=0, born_time=NOW,
        init_mode=0).ext())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(rig.broker.pop_flights) == 0


# --- pops that are known no more -------------------------------------------------------------------------------------


def test_an_ack_of_a_pop_that_is_left_to_the_log_counts(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop.flights.FLIGHTS_MAX", 2)
    rig = Rig()
    handles = popped_one_by_one(rig, *"abcd")
    assert len(rig.broker.pop_flights) == 2
    for handle in (handles[0], handles[3]):
        assert rig.ack(handle).code == 0
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop())) == ["b", "c"]


def test_an_ack_that_stands_in_memory_is_left_to_the_log_with_its_pop(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop.flights.FLIGHTS_MAX", 1)
    rig = Rig()
    rig.send(*"abcd")
    (_, first), _ = rig.pop(count=2, queue_id=0)
    assert rig.ack(first).code == 0
    rig.run_to(NOW + 10, step=10)
    rig.pop(count=2, queue_id=0)
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop())) == ["b", "c", "d"]


# --- receipts of an earlier run --------------------------------------------------------------------------------------


def test_another_time_for_a_pop_whose_checkpoint_never_waited():
    """Its time was so short that it went to the revive topic at once."""
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(queue_id=0, invisible=900)
    rig.now_ms += 1
    rig = rig.restarted()
    assert rig.change(handle, 20_000).code == 0
    rig.run_to(NOW + 19_000)
    assert rig.pop() == []
    rig.run_to(NOW + 22_000)
    assert bodies(rig.pop()) == ["a"]


def test_acks_of_a_pop_that_was_looked_up_go_where_its_checkpoint_is():
    rig = Rig()
    rig.send(*"abc")
    first, second, _ = [handle for _, handle in rig.pop(queue_id=0)]
    assert first.revive_queue_id == 1
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    assert rig.change(first, 60_000).code == 0
    assert rig.ack(second).code == 0
    rig.run_to(NOW + 3_000)
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == ["c"]


class Colliding(MemoryStore):
    """All keys of a topic have the same hash; whoever asks compares them."""

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int,
                      before: int = LONG_MAX) -> QueryResult:
        found = [buffer for (of, _), places in self._keys.items() if of == topic for buffer in
                 [self.record_bytes(place) for place in places] if buffer is not None]
        return QueryResult(found[-count_max:], 0, 0)


def test_what_others_popped_and_acknowledged_keeps_nobody_from_another_time():
    rig = Rig(Colliding())
    rig.send("a", "b")
    handles = {group: [handle for _, handle in rig.pop(queue_id=0, group=group)] for group in ("G", "H", "K")}
    rig.ack(handles["H"][0], "H")
    for handle in handles["K"]:
        rig.ack(handle, "K")
    rig.run_to(NOW + 2_000)
    rig = rig.restarted()
    assert rig.change(handles["G"][0], 60_000).code == 0
    assert rig.change(handles["G"][0], 60_000).code == ResponseCode.NO_MESSAGE
    assert rig.change(handles["H"][0], 60_000, "H").code == ResponseCode.NO_MESSAGE
    assert rig.change(handles["H"][1], 60_000, "H").code == 0
    assert rig.change(handles["K"][0], 60_000, "K").code == ResponseCode.NO_MESSAGE


def test_a_timed_message_of_a_client_says_nothing_of_what_was_popped():
    """One that has the key of a pop, and the body of an ack."""
    rig = Rig()
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop(queue_id=0)
    key = CheckpointKey("T", "G", 0, 0, NOW)
    forged = {"TAGS": "ack", "KEYS": key.unique_key("broker-a"), "TIMER_DELIVER_MS": str(NOW + 600_000)}
    rig.broker.storing.store(MessageExt("T", Acks(key, "broker-a", (0,)).encode(), forged, 0, 0, 0, NOW, HOST, HOST, 0),
                             NOW)
    rig.settle()
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    for handle in (first, second):
        assert rig.change(handle, 60_000).code == 0


def test_another_time_of_a_pop_that_was_looked_up_is_given_once():
    """Also before the index knows of the first one."""
    rig = Rig()
    rig.send("a", "b")
    (_, handle), _ = rig.pop(queue_id=0)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    ext = ChangeMessageInvisibletimeRequest(consumer_group="G", topic="T", queue_id=0, extra_info=encode(handle),
                                            offset=0, invisible_time=60_000).ext()
    request = RemotingCommand.request(int(Code.CHANGE_MESSAGE_INVISIBLETIME), ext)
    codes = [request_table.handle(request, PEER, rig.broker, rig.now_ms).answer.code for _ in range(2)]
    assert codes == [0, ResponseCode.NO_MESSAGE]
