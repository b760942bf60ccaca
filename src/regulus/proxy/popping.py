"""The requests to brokers about popped messages: pop, acknowledge, change the invisible time, send to dead letters."""

from typing import NamedTuple

from regulus.errors import CallRefused, HeaderError, RecordError
from regulus.model import message_properties as names
from regulus.model import receipt_handle, sys_flag
from regulus.model.message import MessageExt
from regulus.model.peer import Origin
from regulus.proxy.brokers import Brokers
from regulus.proxy.receipt_handle import NO_PLACE, PlacedReceipt
from regulus.proxy.status import checked
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc.codes import Code
from regulus.wire.headers import (
    AckMessageRequest,
    ChangeMessageInvisibletimeRequest,
    ChangeMessageInvisibletimeResponse,
    ConsumerSendMsgBackRequest,
    PopMessageRequest,
    PopMessageResponse,
    ViewMessageByIdRequest,
)
from regulus.wire.popped_offsets import PoppedOffsets
from regulus.wire.remoting_command import RemotingCommand

TIMEOUT_MS = 3_000
"""How long a broker may take to answer any request here except a pop."""
POP_MARGIN_MS = 2_000
"""How much longer than the poll time a broker may take to answer a pop."""
LATE_MS_MAX = 30_000
"""How long after that an answer is still accepted, to give its messages back."""
_WORTH_NOTHING = (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)
"""Answers that mean that the receipt is invalid. Clients give up an invalid receipt, and repeat a call that failed for
another reason each second, forever."""
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.NO_MESSAGE)
"""Answers to a pop that found no message."""


class PoppedMessage(NamedTuple):
    """A message and the receipt handle that was made for it."""

    message: MessageExt
    handle: PlacedReceipt


class Poll:
    """One pop request, which the broker may hold until a message comes."""

    def __init__(self, brokers: Brokers, broker: str, request: PopMessageRequest, origin: Origin | None) -> None:
        self.broker = broker
        self.request = request
        self._brokers = brokers
        self._origin = origin
        self._command = RemotingCommand.request(RequestCode.POP_MESSAGE, request.ext())

    async def popped(self) -> list[PoppedMessage]:
        """Send the request and return the popped messages, even if they come up to LATE_MS_MAX late.

        Raises CallRefused, with TOO_MANY_REQUESTS if the broker holds too many polls."""
        answer = await self._brokers.ask(self.broker, self._command,
                                         self.request.poll_time + POP_MARGIN_MS + LATE_MS_MAX, self._origin)
        if answer.code in _NOTHING:
            return []
        if answer.code == ResponseCode.POLLING_FULL:
            raise CallRefused(Code.TOO_MANY_REQUESTS, "the broker holds as many polls as it can")
        return _popped(checked(answer), self.broker, self.request)

    def withdraw(self) -> None:
        """Ask the broker to end the poll, if it can. Messages that `popped` returns afterwards must be given back."""
        self._brokers.withdraw(self.broker, self._command)


def _popped(answer: RemotingCommand, broker: str, request: PopMessageRequest) -> list[PoppedMessage]:
    try:
        messages = message_record.decode_all(answer.body)
        offsets = PoppedOffsets(PopMessageResponse.decode(answer), broker)
        handles = offsets.handles(messages, [message.properties.get(names.POP_CK) for message in messages])
    except (RecordError, HeaderError) as error:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR,
                          f"the answer of broker {broker} to a pop cannot be read: {error}") from error
    if any(message.sys_flag & sys_flag.NEED_UNWRAP for message in messages):
        # RocketMQ's own proxy hands such a record on as one message, as it has one receipt for all in it.
        raise CallRefused(Code.NOT_IMPLEMENTED, f"broker {broker} popped whole batches: {request.topic} has "
                                                "queue.type=BatchCQ, and is consumed by remoting clients, which pull")
    if request.order:
        for message in messages:
            message.reconsume_times = max(message.reconsume_times, offsets.order_count(message))
    return [PoppedMessage(message, PlacedReceipt(handle, message.physical_offset))
            for message, handle in zip(messages, handles, strict=True)]


async def ack(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt) -> None:
    """Acknowledge a message; it may have been acknowledged before. Raises CallRefused, with INVALID_RECEIPT_HANDLE if
    its queue has no such message."""
    receipt = handle.receipt
    header = AckMessageRequest(consumer_group=group, topic=handle.real_topic(topic, group), queue_id=receipt.queue_id,
                               extra_info=receipt_handle.encode(receipt), offset=receipt.queue_offset,
                               broker_name=handle.broker)
    answer = await brokers.ask(handle.broker, RemotingCommand.request(RequestCode.ACK_MESSAGE, header.ext()),
                               TIMEOUT_MS)
    if answer.code in _WORTH_NOTHING:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, answer.remark or "no such message is in its queue")
    checked(answer)


async def change_invisible(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt, invisible_ms: int, *,
                           suspend: bool = False) -> PlacedReceipt:
    """Change when the message becomes visible again, and return its new handle.

    `suspend`: the broker does not count the delivery, if it knows this field. Raises CallRefused, with
    INVALID_RECEIPT_HANDLE if there is nothing to change."""
    answer = await _ask_to_change(brokers, group, topic, handle, invisible_ms, suspend=suspend or None)
    if answer.code in _WORTH_NOTHING:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, answer.remark or "no such message is in its queue")
    try:
        told = ChangeMessageInvisibletimeResponse.decode(checked(answer))
    except HeaderError as error:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"broker {handle.broker}: {error}") from error
    receipt = handle.receipt
    return handle._replace(receipt=receipt._replace(
        start_offset=receipt.queue_offset, pop_time=told.pop_time, invisible_time=told.invisible_time,
        revive_queue_id=told.revive_qid))


async def give_back(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt) -> None:
    """Make a message that reached no client visible at once, without counting a delivery if the broker can do that.
    Raises CallRefused."""
    checked(await _ask_to_change(brokers, group, topic, handle, 0, suspend=True))


async def _ask_to_change(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt, invisible_ms: int, *,
                         suspend: bool | None) -> RemotingCommand:
    receipt = handle.receipt
    header = ChangeMessageInvisibletimeRequest(
        consumer_group=group, topic=handle.real_topic(topic, group), queue_id=receipt.queue_id,
        extra_info=receipt_handle.encode(receipt), offset=receipt.queue_offset, invisible_time=invisible_ms,
        broker_name=handle.broker, suspend=suspend)
    command = RemotingCommand.request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header.ext())
    return await brokers.ask(handle.broker, command, TIMEOUT_MS)


async def to_dead_letters(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt, message_id: str,
                          origin: Origin | None) -> None:
    """Copy a message to the group's dead letters, then acknowledge it. The other order could lose it. Raises
    CallRefused."""
    if handle.physical_offset < 0:
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, NO_PLACE)
    await _check_place(brokers, group, topic, handle)
    header = ConsumerSendMsgBackRequest(
        offset=handle.physical_offset, group=group, delay_level=-1, origin_msg_id=message_id,
        origin_topic=handle.real_topic(topic, group), max_reconsume_times=0)
    answer = await brokers.ask(
        handle.broker, RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext()), TIMEOUT_MS, origin)
    checked(answer)
    await ack(brokers, group, topic, handle)


async def _check_place(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt) -> None:
    """Check with the broker that the physical offset of the handle is that of its message. Raises CallRefused.

    A client may have made up the handle, and the broker copies whatever record is at the offset."""
    header = ViewMessageByIdRequest(offset=handle.physical_offset)
    answer = checked(await brokers.ask(
        handle.broker, RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, header.ext()), TIMEOUT_MS))
    try:
        found = message_record.decode(answer.body, read_body=False)
    except RecordError as error:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"broker {handle.broker}: {error}") from error
    if (found.topic, found.queue_id, found.queue_offset) != (handle.real_topic(topic, group), handle.receipt.queue_id,
                                                             handle.receipt.queue_offset):
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle points to another message")
