"""A message that a consumer received for an invisible time, and the receipt with which it is acknowledged."""

import asyncio
from enum import StrEnum

from regulus.errors import ReceiptInvalid
from regulus.model.message import MessageExt


class PoppedState(StrEnum):
    """The states of a received message: Ready -> Inflight -> Commit or dead letter. Source: RocketMQ 5."""

    READY = "READY"
    """It was received, and the listener was not called with it yet."""
    INFLIGHT = "INFLIGHT"
    COMMIT = "COMMIT"
    RETRY = "RETRY"
    """It failed, or took too long, and is Ready for any member again when its delay is over."""
    DEAD_LETTER = "DEAD_LETTER"


class ReceivedMessage(MessageExt):
    """A received message. `topic` is the subscribed topic, even if the message came from the group's retry topic.
    `unreadable`: why its body could not be unpacked; the body is the stored one then.

    `receipt_handle` is opaque, and changes with each change of the invisible time. `invisible_until_ms` is by the
    steady clock of this process; from then on the message may belong to another member.
    """

    def __init__(self, message: MessageExt, topic: str, broker_name: str, receipt_handle: str,
                 invisible_until_ms: int) -> None:
        super().__init__(
            topic, message.body, message.properties, message.queue_id, message.flag, message.sys_flag,
            message.born_timestamp, message.born_host, message.store_host, message.reconsume_times,
            message.prepared_transaction_offset, message.queue_offset, message.physical_offset,
            message.store_timestamp, message.store_size, message.body_crc)
        self.broker_name = broker_name
        self.receipt_handle = receipt_handle
        self.invisible_until_ms = invisible_until_ms
        self.telling = asyncio.Lock()
        """Held during a request about the message: one at a time, because each request may change the receipt."""
        self.is_acknowledged = False
        self.unreadable = ""

    @property
    def delivery_attempt(self) -> int:
        """The first delivery is number 1."""
        return self.reconsume_times + 1

    def check_ours(self, now_ms: int) -> None:
        """Raises ReceiptInvalid when the message is done, or its time is over."""
        if self.is_acknowledged:
            raise ReceiptInvalid(f"message {self.message_id} was acknowledged already")
        if now_ms >= self.invisible_until_ms:
            raise ReceiptInvalid(f"the invisible time of message {self.message_id} is over: it is delivered again; "
                                 "receive with a longer one, or prolong it in time")
