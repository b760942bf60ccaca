"""Receipt handles: what a client gives back to acknowledge a message, or to have it stay invisible.

A handle is the broker's receipt and behind it the physical offset, which is ours: for the way to the dead letters.

Source: ReceiptHandle.
"""

from typing import NamedTuple

from regulus.errors import CallRefused, HeaderError
from regulus.model import receipt_handle
from regulus.model.receipt_handle import UNKNOWN, ReceiptHandle
from regulus.wire.grpc.codes import Code

_RAISED = "org.apache.rocketmq.proxy.common.ProxyException: "
"""Before these refusals RocketMQ's proxy has the name of its exception, and clients may compare the whole text."""
EXPIRED = f"{_RAISED}receipt handle is expired"
NO_PLACE = f"{_RAISED}commit log offset is empty"


class PlacedReceipt(NamedTuple):
    """`physical_offset` is UNKNOWN where the handle has none."""

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
        """The topic in which the message lies."""
        return receipt_handle.real_topic(topic, group, self.receipt.retry)


def parse(text: str) -> PlacedReceipt:
    """Raises CallRefused INVALID_RECEIPT_HANDLE."""
    try:
        placed = PlacedReceipt(*receipt_handle.decode_placed(text))
    except HeaderError:
        placed = None
    if placed is None or placed.receipt.queue_offset == UNKNOWN:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, f"{text[:80]!r} is no receipt handle of this server")
    return placed


def live(text: str, now_ms: int) -> PlacedReceipt:
    """As `parse`, and of a message that is not visible again yet."""
    handle = parse(text)
    if handle.visible_at_ms <= now_ms:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, EXPIRED)
    return handle
