"""The positions of popped messages in the answer to a pop, and the receipts made from them.

`startOffsetInfo`, `msgOffsetInfo` and `orderCountInfo` are entries `<retry> <queue> <value>` with semicolons between
them.

Source: ExtraInfoUtil, PopCallback of MQClientAPIImpl.
"""

from collections.abc import Sequence

from regulus.errors import HeaderError
from regulus.model import receipt_handle
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import NORMAL, RETRY_V1, RETRY_V2, ReceiptHandle
from regulus.model.topics import RETRY_PREFIX
from regulus.wire.headers import PopMessageResponse


class PoppedOffsets:
    """The position fields of one answer. Raises HeaderError for malformed ones."""

    def __init__(self, response: PopMessageResponse, broker_name: str) -> None:
        self._response = response
        self._broker_name = broker_name
        try:
            self._starts = {key: int(value) for key, value in _entries(response.start_offset_info)}
            self._counts = {key: int(value) for key, value in _entries(response.order_count_info)}
            self._offsets = {key: [int(offset) for offset in value.split(",")]
                             for key, value in _entries(response.msg_offset_info)}
        except ValueError as error:
            raise HeaderError(f"the broker's answer to a pop: {error}") from error

    def handles(self, messages: Sequence[MessageExt], receipts: Sequence[str | None]) -> list[ReceiptHandle]:
        """One handle for each message, in order; a message may carry the broker's receipt itself. Raises
        HeaderError."""
        by_queue: dict[str, list[int]] = {}
        for message, receipt in zip(messages, receipts, strict=True):
            if receipt is None:
                by_queue.setdefault(_key(message), []).append(message.queue_offset)
        for offsets in by_queue.values():
            offsets.sort()
        return [self._made(message, by_queue) if receipt is None else receipt_handle.decode(receipt)
                for message, receipt in zip(messages, receipts, strict=True)]

    def order_count(self, message: MessageExt) -> int:
        """How often a message of a queue consumed in order was delivered before."""
        mark = _retry_mark(message.topic)
        exact = self._counts.get(f"{mark} qo{message.queue_id}%{message.queue_offset}")
        return self._counts.get(f"{mark} {message.queue_id}", 0) if exact is None else exact

    def _made(self, message: MessageExt, by_queue: dict[str, list[int]]) -> ReceiptHandle:
        key = _key(message)
        offset = message.queue_offset
        told = self._offsets.get(key)
        if told:
            place = by_queue[key].index(offset)
            offset = told[place] if place < len(told) else offset
        return ReceiptHandle(
            self._starts.get(key, offset), self._response.pop_time, self._response.invisible_time,
            self._response.revive_qid, _retry_mark(message.topic), self._broker_name, message.queue_id, offset)


def _key(message: MessageExt) -> str:
    return f"{_retry_mark(message.topic)} {message.queue_id}"


def _retry_mark(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def _entries(text: str | None) -> list[tuple[str, str]]:
    """`<retry> <queue> <value>;...` -> (`<retry> <queue>`, value). Raises ValueError."""
    entries = []
    for entry in (text or "").split(";"):
        if entry:
            key, blank, value = entry.rpartition(" ")
            if not blank:
                raise ValueError(f"{entry[:40]!r} is not an entry of offsets")
            entries.append((key, value))
    return entries
