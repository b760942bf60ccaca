"""The result of a send. Source: SendResult, SendStatus."""

from enum import StrEnum
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import ResponseCode


class SendStatus(StrEnum):
    """All four mean that the message is stored. The last three mean that it may not survive the loss of the master."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_OF_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(NamedTuple):
    """`message_id` is the client's unique key, `offset_message_id` the broker's id of this copy.

    For a batch both have the ids of all messages in order, joined by commas, and `queue_offset` is that of the first.
    """

    send_status: SendStatus
    message_id: str
    message_queue: MessageQueue
    queue_offset: int
    offset_message_id: str = ""
    transaction_id: str = ""
    recall_handle: str = ""
