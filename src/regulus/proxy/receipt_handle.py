"""Receipt handles: what a client gives back to acknowledge a message, or to have it stay invisible.

    <checkpoint offset> <pop time> <invisible time> <revive queue> <retry> <broker> <queue> <offset> [<physical offset>]

separated by blanks. Retry is 0 for the topic itself, 1 and 2 for the group's retry topic of either spelling. The first
eight are the broker's receipt; the last one is ours, for the way to the dead letters.

Source: ReceiptHandle, ExtraInfoUtil, KeyBuilder.
"""

import re
from dataclasses import dataclass

from regulus.errors import CallRefused
from regulus.wire import receipt_handle as wire_handle
from regulus.wire.grpc.codes import Code

HANDLE_SIZE_MAX = 512
_RAISED = "org.apache.rocketmq.proxy.common.ProxyException: "
"""Before these refusals RocketMQ's proxy has the name of its exception, and clients may compare the whole text."""
EXPIRED = f"{_RAISED}receipt handle is expired"
NO_PLACE = f"{_RAISED}commit log offset is empty"
_FORM = re.compile(r"(-?\d{1,19}) (\d{1,19}) (\d{1,19}) (\d{1,9}) ([012]) ([^ ]{1,255}) (\d{1,9}) (\d{1,19})"
                   r"(?: (-?\d{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptHandle:
    """`physical_offset` is -1 where the handle has none."""

    checkpoint_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    retry: str
    broker: str
    queue_id: int
    queue_offset: int
    physical_offset: int = -1

    def receipt(self) -> str:
        """What the broker knows it by."""
        return (f"{self.checkpoint_offset} {self.pop_time} {self.invisible_time} {self.revive_queue_id} {self.retry} "
                f"{self.broker} {self.queue_id} {self.queue_offset}")

    def text(self) -> str:
        return f"{self.receipt()} {self.physical_offset}"

    @property
    def visible_at_ms(self) -> int:
        return self.pop_time + self.invisible_time

    def real_topic(self, topic: str, group: str) -> str:
        """The topic in which the message lies."""
        return wire_handle.real_topic(topic, group, self.retry)


def parse(text: str) -> ReceiptHandle:
    """Raises CallRefused INVALID_RECEIPT_HANDLE."""
    match = _FORM.fullmatch(text) if len(text) <= HANDLE_SIZE_MAX else None
    if match is None:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, f"{text[:80]!r} is no receipt handle of this server")
    numbers = match.groups()
    return ReceiptHandle(
        checkpoint_offset=int(numbers[0]), pop_time=int(numbers[1]), invisible_time=int(numbers[2]),
        revive_queue_id=int(numbers[3]), retry=numbers[4], broker=numbers[5], queue_id=int(numbers[6]),
        queue_offset=int(numbers[7]), physical_offset=-1 if numbers[8] is None else int(numbers[8]))


def live(text: str, now_ms: int) -> ReceiptHandle:
    """As `parse`, and of a message that is not visible again yet."""
    handle = parse(text)
    if handle.visible_at_ms <= now_ms:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, EXPIRED)
    return handle


def with_place(receipt: wire_handle.ReceiptHandle, physical_offset: int) -> ReceiptHandle:
    """A broker's receipt, and where its message lies."""
    return ReceiptHandle(
        checkpoint_offset=receipt.start_offset, pop_time=receipt.pop_time, invisible_time=receipt.invisible_time,
        revive_queue_id=receipt.revive_queue_id, retry=receipt.retry, broker=receipt.broker_name,
        queue_id=receipt.queue_id, queue_offset=receipt.queue_offset, physical_offset=physical_offset)
