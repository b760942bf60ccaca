"""Receipt handles, which a client sends to acknowledge a message or to change its invisible time.

A handle is the receipt of the broker, followed by the message's physical offset. The offset is an addition of this
proxy, and needed to copy the message to the dead letters.

Source: ReceiptHandle.
"""

from typing import NamedTuple

from regulus.errors import CallRefused, HeaderError
from regulus.model import receipt_handle
from regulus.model.receipt_handle import UNKNOWN, ReceiptHandle
from regulus.wire.grpc.codes import Code

_RAISED = "org.apache.rocketmq.proxy.common.ProxyException: "
"""RocketMQ's proxy begins these refusals with the name of its exception, and clients may compare the whole text."""
EXPIRED = f"{_RAISED}receipt handle is expired"
NO_PLACE = f"{_RAISED}commit log offset is empty"


class PlacedReceipt(NamedTuple):
    """A receipt and the physical offset of its message, which is UNKNOWN if the handle has none."""

    receipt: ReceiptHandle
    physical_offset: int = UNKNOWN

    def text(self) -> str:
        return f"{receipt_handle.encode(self.receipt)} {self.physical_offset}"

    @property
    def broker(self) -> str:
        return self.receipt.broker_name

    @property
    def visible_at_ms(self) -> int:
        return self.receipt.pop_time + self.receipt.invisible_time

    def real_topic(self, topic: str, group: str) -> str:
        """The topic in which the message is stored: the one that the client consumes, or a retry topic of the group."""
        return receipt_handle.real_topic(topic, group, self.receipt.retry)


def parse(text: str) -> PlacedReceipt:
    """Read a handle that a client sent. Raises CallRefused INVALID_RECEIPT_HANDLE."""
    try:
        placed = PlacedReceipt(*receipt_handle.decode_placed(text))
    except HeaderError:
        placed = None
    if placed is None or placed.receipt.queue_offset == UNKNOWN:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, f"{text[:80]!r} is not a receipt handle of this server")
    return placed


def live(text: str, now_ms: int) -> PlacedReceipt:
    """Read a handle like `parse`, and refuse it if its message has become visible again."""
    handle = parse(text)
    if handle.visible_at_ms <= now_ms:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, EXPIRED)
    return handle
