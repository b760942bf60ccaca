"""Deeds on messages that were popped: take, acknowledge, keep invisible for longer, put among the dead letters."""

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
POP_MARGIN_MS = 2_000
"""How much longer than its poll a broker may take to answer."""
LATE_MS_MAX = 30_000
"""And how long after that an answer is still taken, whose messages are given back then."""
_WORTH_NOTHING = (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)
"""To a receipt. Clients give one up that is invalid, and tell others again each second for ever."""
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.NO_MESSAGE)


class PoppedMessage(NamedTuple):
    message: MessageExt
    handle: PlacedReceipt


class Poll:
    """One pop, which the broker may hold."""

    def __init__(self, brokers: Brokers, broker: str, request: PopMessageRequest, origin: Origin | None) -> None:
        self.broker = broker
        self.request = request
        self._brokers = brokers
        self._origin = origin
        self._command = RemotingCommand.request(RequestCode.POP_MESSAGE, request.ext())

    async def popped(self) -> list[PoppedMessage]:
        """Also when it comes late. Raises CallRefused; with TOO_MANY_REQUESTS when the broker holds too many polls."""
        answer = await self._brokers.ask(self.broker, self._command,
                                         self.request.poll_time + POP_MARGIN_MS + LATE_MS_MAX, self._origin)
        if answer.code in _NOTHING:
            return []
        if answer.code == ResponseCode.POLLING_FULL:
            raise CallRefused(Code.TOO_MANY_REQUESTS, "the broker holds as many polls as it can")
        return _popped(checked(answer), self.broker, self.request)

    def withdraw(self) -> None:
        """Nobody waits for it any more: end it where that can be; what comes all the same is to be given back."""
        self._brokers.withdraw(self.broker, self._command)


def _popped(answer: RemotingCommand, broker: str, request: PopMessageRequest) -> list[PoppedMessage]:
    try:
        messages = message_record.decode_all(answer.body)
        offsets = PoppedOffsets(PopMessageResponse.decode(answer), broker)
        handles = offsets.handles(messages, [message.properties.get(names.POP_CK) for message in messages])
    except (RecordError, HeaderError) as error:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"what broker {broker} popped cannot be read: {error}") from error
    if any(message.sys_flag & sys_flag.NEED_UNWRAP for message in messages):
        # RocketMQ's own proxy hands them on so. There is one receipt for all of the messages in such a record.
        raise CallRefused(Code.NOT_IMPLEMENTED, f"broker {broker} popped whole batches: {request.topic} has "
                                                "queue.type=BatchCQ, and is consumed by remoting clients, which pull")
    if request.order:
        for message in messages:
            message.reconsume_times = max(message.reconsume_times, offsets.order_count(message))
    return [PoppedMessage(message, PlacedReceipt(handle, message.physical_offset))
            for message, handle in zip(messages, handles, strict=True)]


async def ack(brokers: Brokers, group: str, topic: str, handle: PlacedReceipt) -> None:
    """Raises CallRefused. What was acknowledged before may be so again."""
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
    """The new handle. `suspend`: the delivery is not to be counted, where the broker knows how. Raises CallRefused,
    with INVALID_RECEIPT_HANDLE where there is nothing to change."""
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
    """A message reached nobody: others get it at once, and a broker that knows how counts no delivery. Raises
    CallRefused."""
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
    """Copied to the group's dead letters, then acknowledged: in this order, as only so it is never nowhere. Raises
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
    """A broker copies whatever lies at the offset that it is told. So it is asked first whether that is the message of
    the handle, for a handle is what a client says."""
    header = ViewMessageByIdRequest(offset=handle.physical_offset)
    answer = checked(await brokers.ask(
        handle.broker, RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, header.ext()), TIMEOUT_MS))
    try:
        found = message_record.decode(answer.body, read_body=False)
    except RecordError as error:
        raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"broker {handle.broker}: {error}") from error
    if (found.topic, found.queue_id, found.queue_offset) != (handle.real_topic(topic, group), handle.receipt.queue_id,
                                                             handle.receipt.queue_offset):
        raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle names the place of another message")
