"""Acks that stand in memory come into the log in time, once, and those of pops that are known no more count, too."""

import pytest

from regulus.model.message import MessageExt
from regulus.model.topics import TIMER_TOPIC
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import PopMessageRequest
from regulus.wire.receipt_handle import ReceiptHandle
from tests.unit.broker.pop_rig import NOW, Rig, bodies


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
    before = len(records(rig))
    assert rig.ack(handle).code == 0
    assert len(records(rig)) == before


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
    monkeypatch.setattr("regulus.broker.pop_flights.FLIGHTS_MAX", 2)
    rig = Rig()
    handles = popped_one_by_one(rig, *"abcd")
    assert len(rig.broker.pop_flights) == 2
    for handle in (handles[0], handles[3]):
        assert rig.ack(handle).code == 0
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop())) == ["b", "c"]


def test_an_ack_that_stands_in_memory_is_left_to_the_log_with_its_pop(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop_flights.FLIGHTS_MAX", 1)
    rig = Rig()
    rig.send(*"abcd")
    (_, first), _ = rig.pop(count=2, queue_id=0)
    assert rig.ack(first).code == 0
    rig.run_to(NOW + 10, step=10)
    rig.pop(count=2, queue_id=0)
    rig.run_to(NOW + 32_000)
    assert sorted(bodies(rig.pop())) == ["b", "c", "d"]
