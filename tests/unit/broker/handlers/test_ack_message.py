"""What acknowledges and what does not, by one receipt and by a batch of them, and what the answers wait for."""

import json

import pytest

from regulus.broker import request_table
from regulus.broker.outcome import Reply
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.store_result import Appended, PutStatus
from regulus.model.store_rules import FlushDiskType
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import AckMessageRequest, ChangeMessageInvisibletimeRequest, PopMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import NOW, PEER, Rig, bodies


def durable_at(rig: Rig, code: Code, ext: dict[str, str], body: bytes = b"") -> int:
    """Of a yes, which is firm where it waits."""
    outcome = request_table.handle(RemotingCommand.request(int(code), ext, body), PEER, rig.broker, rig.now_ms)
    assert isinstance(outcome, Reply)
    assert outcome.answer.code == 0
    assert outcome.is_firm or not outcome.durable_at
    return outcome.durable_at


def ack_of(handle: ReceiptHandle) -> dict[str, str]:
    return AckMessageRequest(consumer_group="G", topic="T", queue_id=handle.queue_id, extra_info=encode(handle),
                             offset=handle.queue_offset).ext()


def batch_of(*entries: dict[str, object]) -> bytes:
    own = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 1, "pt": NOW, "it": 30_000, "b": "AQ=="}
    return json.dumps({"brokerName": "broker-a", "acks": [own | each for each in entries]}).encode()


def batch_ack(rig: Rig, *entries: dict[str, object]) -> RemotingCommand:
    answer = rig.ask(Code.BATCH_ACK_MESSAGE, {}, batch_of(*entries))
    assert answer is not None
    return answer


def in_order(rig: Rig, count: int = 32) -> list[tuple[MessageExt, ReceiptHandle]]:
    answer = rig.ask(Code.POP_MESSAGE, PopMessageRequest(
        consumer_group="G", topic="T", queue_id=0, max_msg_nums=count, invisible_time=30_000, poll_time=0,
        born_time=rig.now_ms, init_mode=0, order=True).ext())
    assert answer is not None
    return rig.taken(answer)


class Failing(MemoryStore):
    """Takes none of the next so many records."""

    failures = 0

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if self.failures:
            self.failures -= 1
            return Appended(PutStatus.SERVICE_NOT_AVAILABLE, remark="the disk is full")
        return super().append(message, now_ms)


# --- what answers wait for -------------------------------------------------------------------------------------------


def test_an_ack_that_is_in_the_log_is_answered_when_it_is_on_disk():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop()
    before = rig.store.commit_log_max_offset()
    assert durable_at(rig, Code.ACK_MESSAGE, ack_of(first)) == 0       # it stands in memory alone
    assert durable_at(rig, Code.ACK_MESSAGE, ack_of(second)) == rig.store.commit_log_max_offset() > before


def test_a_batch_is_answered_when_what_it_wrote_is_on_disk():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a", "b")
    rig.pop(queue_id=0)
    before = rig.store.commit_log_max_offset()
    # The second one of the same pop needs no record.
    written = durable_at(rig, Code.BATCH_ACK_MESSAGE, {}, batch_of({"b": "Aw=="}, {"b": "Aw=="}))
    assert written == rig.store.commit_log_max_offset() > before


def test_another_time_is_told_when_it_is_on_disk():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a")
    ((_, handle),) = rig.pop()
    before = rig.store.commit_log_max_offset()
    ext = ChangeMessageInvisibletimeRequest(consumer_group="G", topic="T", queue_id=0, extra_info=encode(handle),
                                            offset=0, invisible_time=60_000).ext()
    assert durable_at(rig, Code.CHANGE_MESSAGE_INVISIBLETIME, ext) == rig.store.commit_log_max_offset() > before


def test_another_time_that_the_store_refuses_leaves_the_old_one():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(invisible=10_000)
    rig.store.refusal = "the disk is full"
    answer = rig.change(handle, 60_000)
    assert (answer.code, "the disk is full" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    rig.store.refusal = ""
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]


# --- receipts that are none of this broker ---------------------------------------------------------------------------


@pytest.mark.parametrize(("changed", "code"), [
    ({"queue_offset": 1}, ResponseCode.NO_MESSAGE), ({"queue_offset": -1}, ResponseCode.NO_MESSAGE),
    ({"queue_id": 2}, ResponseCode.MESSAGE_ILLEGAL), ({"queue_id": -1}, ResponseCode.MESSAGE_ILLEGAL),
    ({"revive_queue_id": 8}, ResponseCode.MESSAGE_ILLEGAL), ({"revive_queue_id": -1}, ResponseCode.MESSAGE_ILLEGAL),
    ({"invisible_time": 12 * 3_600_000 + 1}, ResponseCode.MESSAGE_ILLEGAL),
    ({"invisible_time": -1}, ResponseCode.MESSAGE_ILLEGAL), ({"pop_time": -1}, ResponseCode.MESSAGE_ILLEGAL),
    ({"pop_time": 1 << 63}, ResponseCode.MESSAGE_ILLEGAL)])
def test_a_receipt_that_this_broker_never_gave_is_refused(changed, code):
    """Of an earlier run, for all that the broker knows: it would be a record that nobody reads."""
    rig = Rig()
    rig.send("a")
    rig.pop()
    rig = rig.restarted()
    before = rig.store.commit_log_max_offset()
    handle = ReceiptHandle(0, NOW - 1, 30_000, 1, "0", "broker-a", 0, 0)
    for answer in (rig.ack(handle, **changed), rig.change(handle._replace(**changed), 1_000)):
        assert answer.code == code
    assert rig.store.commit_log_max_offset() == before


@pytest.mark.parametrize("invisible", [-1, 12 * 3_600_000 + 1])
def test_a_time_that_no_message_may_have_is_refused(invisible):
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    assert rig.change(handle, invisible).code == ResponseCode.INVALID_PARAMETER
    rig.run_to(NOW + 31_000)
    assert bodies(rig.pop()) == ["a"]


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_of_which_the_store_refused_one_is_no_success():
    rig = Rig(Failing())
    rig.send("a")
    rig.send("b", queue_id=1)
    rig.pop(queue_id=0)
    rig.pop(queue_id=1)
    rig.store.failures = 1
    answer = batch_ack(rig, {"q": 0, "rq": 1}, {"q": 1, "rq": 2})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the disk is full")
    rig.run_to(NOW + 32_000)
    assert rig.pop() == []      # the one is known in memory, and the other one is written


def test_a_batch_of_an_earlier_run_acknowledges_each_message_that_it_names():
    """Bits beyond a byte, and more of them than a pop can have."""
    rig = Rig()
    rig.send(*[f"m{number:02}" for number in range(32)])
    rig.pop(queue_id=0)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    assert batch_ack(rig, {"b": "/wD//wE="}).code == 0      # 0 to 7, 16 to 32
    rig.run_to(NOW + 32_000)
    assert bodies(rig.pop()) == [f"m{number:02}" for number in range(8, 16)]


def test_a_batch_of_an_earlier_run_that_names_more_than_a_pop_has_counts():
    rig = Rig()
    rig.send(*[f"m{number:02}" for number in range(32)])
    rig.pop(queue_id=0)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    assert batch_ack(rig, {"b": "//////8="}).code == 0      # 40 of them
    rig.run_to(NOW + 32_000)
    assert rig.pop() == []


def test_a_batch_that_names_no_message_writes_nothing():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0)
    rig.run_to(NOW + 1_000)
    rig = rig.restarted()
    before = rig.store.commit_log_max_offset()
    assert batch_ack(rig, {"b": ""}).code == 0
    assert rig.store.commit_log_max_offset() == before


def test_a_batch_acknowledges_retries():
    rig = Rig()
    rig.send("a", "b")
    rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 12_000)
    (_, handle), _ = rig.pop()
    assert handle.retry == "1"
    assert batch_ack(rig, {"r": "1", "so": handle.start_offset, "rq": handle.revive_queue_id,
                           "pt": handle.pop_time}).code == 0
    rig.run_to(NOW + 44_000)
    assert bodies(rig.pop()) == ["b"]


def test_a_batch_acknowledges_in_order():
    rig = Rig()
    rig.send("a", "b", "c")
    in_order(rig, 2)
    assert batch_ack(rig, {"rq": 999, "b": "Aw=="}).code == 0
    assert bodies(in_order(rig)) == ["c"]


def test_a_batch_of_more_pops_than_may_be_is_refused():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0)
    assert batch_ack(rig, *[{}] * 1025).code == ResponseCode.INVALID_PARAMETER
    assert len(rig.broker.pop_flights) == 1
    assert batch_ack(rig, *[{}] * 1024).code == 0
    assert len(rig.broker.pop_flights) == 0


def test_in_order_what_was_acknowledged_before_is_so_also_by_an_old_receipt():
    """The answer to the first one may be lost."""
    rig = Rig()
    rig.send("a", "b")
    ((_, handle),) = in_order(rig, 1)
    assert rig.ack(handle).code == 0
    rig.run_to(NOW + 1_000)
    assert bodies(in_order(rig, 1)) == ["b"]
    assert rig.ack(handle).code == 0
    assert rig.broker.consumer_offsets.query("G", "T", 0) == 1
