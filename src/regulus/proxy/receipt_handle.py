"""Receipt handles: what a client gives back to acknowledge a message, or to have it stay invisible.

    <checkpoint offset> <pop time> <invisible time> <revive queue> <retry> <broker> <queue> <offset> [<physical offset>]

separated by blanks. Retry is 0 for the topic itself, 1 and 2 for the group's retry topic of either spelling. The first
eight are the broker's receipt; the last one is ours, for the way to the dead letters.

Source: ReceiptHandle, ExtraInfoUtil, KeyBuilder.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regulus.errors import CallRefused
from regulus.model.message import MessageExt
from regulus.model.topics import RETRY_PREFIX
from regulus.wire.grpc.codes import Code
from regulus.wire.headers import PopMessageResponse

HANDLE_SIZE_MAX = 512
TOPIC, RETRY_V1, RETRY_V2 = "0", "1", "2"
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
        if self.retry == TOPIC:
            return topic
        return f"{RETRY_PREFIX}{group}{'_' if self.retry == RETRY_V1 else '+'}{topic}"


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
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE,
                          "the receipt handle has expired: the message has become visible again")
    return handle


class PoppedOffsets:
    """What the answer to a pop says of where its messages lie. Raises CallRefused for what cannot be read."""

    def __init__(self, response: PopMessageResponse, broker: str, topic: str) -> None:
        self._response = response
        self._broker = broker
        self._topic = topic
        try:
            self._starts = {key: int(value) for key, value in _entries(response.start_offset_info)}
            self._counts = {key: int(value) for key, value in _entries(response.order_count_info)}
            self._offsets = {key: [int(offset) for offset in value.split(",")]
                             for key, value in _entries(response.msg_offset_info)}
        except ValueError as error:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"the broker's answer to a pop: {error}") from error

    def handles(self, messages: Sequence[MessageExt], receipts: Sequence[str | None]) -> list[ReceiptHandle]:
        """One for each message, in order; a message from a retry topic may bring the broker's receipt along."""
        by_queue: dict[str, list[int]] = {}
        for message, receipt in zip(messages, receipts, strict=True):
            if receipt is None:
                by_queue.setdefault(self._key(message), []).append(message.queue_offset)
        for offsets in by_queue.values():
            offsets.sort()
        return [self._made(message, by_queue) if receipt is None else self._carried(message, receipt)
                for message, receipt in zip(messages, receipts, strict=True)]

    def order_count(self, message: MessageExt) -> int:
        """How often a message of a queue that is consumed in order was delivered before."""
        mark = _retry_mark(message.topic)
        exact = self._counts.get(f"{mark} qo{message.queue_id}%{message.queue_offset}")
        return self._counts.get(f"{mark} {message.queue_id}", 0) if exact is None else exact

    def _key(self, message: MessageExt) -> str:
        return f"{_retry_mark(message.topic)} {message.queue_id}"

    def _carried(self, message: MessageExt, receipt: str) -> ReceiptHandle:
        handle = parse(receipt)
        return parse(f"{handle.receipt()} {message.physical_offset}")

    def _made(self, message: MessageExt, by_queue: dict[str, list[int]]) -> ReceiptHandle:
        key = self._key(message)
        offset = message.queue_offset
        told = self._offsets.get(key)
        if told:
            place = by_queue[key].index(offset)
            offset = told[place] if place < len(told) else offset
        return ReceiptHandle(
            checkpoint_offset=self._starts.get(key, offset), pop_time=self._response.pop_time,
            invisible_time=self._response.invisible_time, revive_queue_id=self._response.revive_qid,
            retry=_retry_mark(message.topic), broker=self._broker, queue_id=message.queue_id, queue_offset=offset,
            physical_offset=message.physical_offset)


def _retry_mark(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return TOPIC
    return RETRY_V2 if "+" in topic else RETRY_V1


def _entries(text: str | None) -> list[tuple[str, str]]:
    """`<retry> <queue> <value>;...` -> (`<retry> <queue>`, value). Raises ValueError."""
    entries = []
    for entry in (text or "").split(";"):
        if entry:
            key, blank, value = entry.rpartition(" ")
            if not blank:
                raise ValueError(f"{entry[:40]!r} is no entry of offsets")
            entries.append((key, value))
    return entries
