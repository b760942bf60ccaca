"""Ends or changes the invisible time of popped messages: ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME.

A receipt is issued by a pop and is checked as a whole. If it names another broker, queue, message or retry topic than
the request, the request is refused. If the pop is unknown, or has another time or revive queue, the request is answered
like a late one, and acknowledges nothing.

Source: AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from base64 import b64decode
from binascii import Error as Base64Error

from regulus.broker.handlers.named_body import decode_named
from regulus.broker.handlers.pop_message import INVISIBLE_MS_MAX
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.broker.storing import refusal_of
from regulus.broker.topics import REVIVE_QUEUE_NUMS
from regulus.errors import HeaderError
from regulus.model import receipt_handle
from regulus.model.peer import Peer
from regulus.model.receipt_handle import ORDER_REVIVE_QUEUE_ID, ReceiptHandle
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import name_fault
from regulus.record.pop_record import MESSAGES_MAX, NO_EPOCH, Acks, CheckpointKey, PopCheckpoint
from regulus.wire import bodies
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    AckMessageRequest,
    ChangeMessageInvisibletimeRequest,
    ChangeMessageInvisibletimeResponse,
)
from regulus.wire.remoting_command import RemotingCommand

_WORTH_NOTHING = "the message was acknowledged, or is visible again: its receipt is no longer valid"
_AT_ITS_TIME = "too many messages wait to be given back: this one becomes visible when its time is over"
_NOT_OURS = "the receipt is of another broker or another message"
BATCHES_MAX = 1024
"""Pops that one batch acknowledges, at most."""
BIT_SET_SIZE_MAX = 8192
"""Characters of the bit set of one pop; a pop with a filter skips fewer messages than that has bits."""


def handle_ack_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = AckMessageRequest.decode(request)
    receipt = _receipt(request, header, broker)
    if isinstance(receipt, Reply):
        return receipt
    if receipt.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
        if not _ack_in_order(header.topic, header.consumer_group, header.queue_id, header.offset, receipt.pop_time,
                             receipt.invisible_time, broker, now_ms):
            return refuse(request, ResponseCode.MESSAGE_ILLEGAL, "the message is not out by this receipt")
        return Reply(request.response(ResponseCode.SUCCESS))
    key = CheckpointKey(header.topic, header.consumer_group, header.queue_id, receipt.start_offset, receipt.pop_time)
    appended = broker.pop_flights.ack(Acks(key, broker.config.broker_name, (header.offset,)), receipt.revive_queue_id,
                                      receipt.invisible_time, _host(broker, peer), now_ms)
    return _answered(request, appended, broker)


def handle_batch_ack_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Entries that cannot be acknowledged are skipped, like RocketMQ does, because each is of another pop."""
    body = decode_named(bodies.BatchAckMessageRequestBody, request)
    batches = body.acks
    if not batches:
        return refuse(request, ResponseCode.NO_MESSAGE, "the batch acknowledges nothing")
    if body.broker_name and body.broker_name != broker.config.broker_name:
        return refuse(request, ResponseCode.MESSAGE_ILLEGAL, _NOT_OURS)
    if len(batches) > BATCHES_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"the batch acknowledges {len(batches)} pops, more than {BATCHES_MAX}")
    last: Appended | None = None
    failed: Appended | None = None
    for batch in batches:
        topic = receipt_handle.real_topic(batch.topic, batch.consumer_group, batch.retry)
        if not _can_be_ours(batch, topic, broker):
            continue
        offsets = _offsets_of(batch)
        if batch.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            for offset in offsets:
                _ack_in_order(topic, batch.consumer_group, batch.queue_id, offset, batch.pop_time, batch.invisible_time,
                              broker, now_ms)
            continue
        if not offsets or not _is_revive_queue(batch.revive_queue_id):
            continue
        key = CheckpointKey(topic, batch.consumer_group, batch.queue_id, batch.start_offset, batch.pop_time)
        appended = broker.pop_flights.ack(Acks(key, broker.config.broker_name, offsets), batch.revive_queue_id,
                                          batch.invisible_time, _host(broker, peer), now_ms)
        last = appended or last
        if appended is not None and appended.status is not PutStatus.PUT_OK:
            failed = failed or appended
    return _answered(request, failed or last, broker)


def _can_be_ours(batch: bodies.BatchAck, topic: str, broker: BrokerState) -> bool:
    config = broker.topics.get(topic)
    return (config is not None and name_fault(batch.consumer_group, "group") is None
            and 0 <= batch.queue_id < config.read_queue_nums and len(batch.bit_set) <= BIT_SET_SIZE_MAX
            and 0 <= batch.start_offset < broker.store.known_max_offset(topic, batch.queue_id)
            and batch.invisible_time >= 0 and batch.pop_time >= 0
            and (batch.revive_queue_id == ORDER_REVIVE_QUEUE_ID or batch.invisible_time <= INVISIBLE_MS_MAX)
            and batch.retry == receipt_handle.retry_flag(topic, batch.consumer_group))


def handle_change_message_invisibletime(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    header = ChangeMessageInvisibletimeRequest.decode(request)
    receipt = _receipt(request, header, broker)
    if isinstance(receipt, Reply):
        return receipt
    if not 0 <= header.invisible_time <= INVISIBLE_MS_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"the invisible time {header.invisible_time} ms is not 0 to {INVISIBLE_MS_MAX}")
    key = CheckpointKey(header.topic, header.consumer_group, header.queue_id, receipt.start_offset, receipt.pop_time)
    if header.suspend and not header.invisible_time and receipt.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
        return _given_back(request, key, header, receipt, broker, now_ms)
    if receipt.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
        return _change_in_order(request, header, receipt, broker, now_ms)
    flights = broker.pop_flights
    flight = flights.recall(key, now_ms) if now_ms < receipt.pop_time + receipt.invisible_time else None
    epoch = broker.topics.epochs.of(header.topic)
    if flight is None or not flight.is_out(header.offset) \
            or not flight.is_told_by(receipt.revive_queue_id, receipt.invisible_time) \
            or flight.checkpoint.topic_epoch not in (NO_EPOCH, epoch) \
            or broker.pop_revival.is_of_deleted_group(flight.checkpoint):   # of another topic or group of the name
        return refuse(request, ResponseCode.NO_MESSAGE, _WORTH_NOTHING)
    if header.suspend and not header.invisible_time:
        return _given_back(request, key, header, receipt, broker, now_ms)
    new_key = key._replace(start_offset=header.offset, pop_time=max(now_ms, receipt.pop_time + 1))
    again = PopCheckpoint(key=new_key, broker_name=broker.config.broker_name, invisible_time=header.invisible_time,
                          offsets=(header.offset,), topic_epoch=flight.checkpoint.topic_epoch,
                          group_removed=flight.checkpoint.group_removed)
    host, revive_queue_id = _host(broker, peer), broker.next_revive_queue()
    appended = flights.begin(again, revive_queue_id, host, now_ms)
    if appended.status is not PutStatus.PUT_OK:
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal_of(appended))
    flights.end_receipt(flight, header.offset, host, now_ms)
    ext = ChangeMessageInvisibletimeResponse(pop_time=new_key.pop_time, invisible_time=header.invisible_time,
                                             revive_qid=revive_queue_id).ext()
    return Reply(request.response(ResponseCode.SUCCESS, ext=ext), broker.storing.durable_at(), is_firm=True)


def _given_back(request: RemotingCommand, key: CheckpointKey, header: ChangeMessageInvisibletimeRequest,
                receipt: ReceiptHandle, broker: BrokerState, now_ms: int) -> Outcome:
    """Give back a message that no consumer has seen: others get it soon, without counting a delivery. The answer
    has no receipt."""
    is_in_order = receipt.revive_queue_id == ORDER_REVIVE_QUEUE_ID
    if not broker.give_back(key, (header.offset,), receipt.revive_queue_id, receipt.invisible_time, now_ms):
        return refuse(request, ResponseCode.NO_MESSAGE, _WORTH_NOTHING) if is_in_order else \
            refuse(request, ResponseCode.SYSTEM_BUSY, _AT_ITS_TIME)
    return Reply(request.response(ResponseCode.SUCCESS, ext=ChangeMessageInvisibletimeResponse(
        pop_time=now_ms, invisible_time=0, revive_qid=receipt.revive_queue_id).ext()))


def _ack_in_order(topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_time: int,
                  broker: BrokerState, now_ms: int) -> bool:
    """Whether the message was out by this receipt. One before the group's offset was acknowledged earlier."""
    done = broker.consumer_offsets.query(group, topic, queue_id)
    if offset < done:
        return True
    next_offset = broker.pop_orders.ack(topic, group, queue_id, offset, pop_time, pop_time + invisible_time, done)
    if next_offset is None:
        return False
    broker.consumer_offsets.commit(group, topic, queue_id, next_offset, now_ms)
    if not broker.pop_orders.is_blocked(topic, group, queue_id, None, now_ms):
        broker.queue_changed(topic, queue_id)
    return True


def _change_in_order(request: RemotingCommand, header: ChangeMessageInvisibletimeRequest, receipt: ReceiptHandle,
                     broker: BrokerState, now_ms: int) -> Outcome:
    """Change the time of a message that was popped in order.

    The receipt still has the time of the pop, and the new invisible time counts from there: the two of them say until
    when the receipt is valid.
    """
    visible_ms = now_ms + header.invisible_time
    if not broker.pop_orders.change(header.topic, header.consumer_group, header.queue_id, header.offset,
                                    receipt.pop_time, receipt.pop_time + receipt.invisible_time, visible_ms, now_ms):
        return refuse(request, ResponseCode.NO_MESSAGE, _WORTH_NOTHING)
    return Reply(request.response(ResponseCode.SUCCESS, ext=ChangeMessageInvisibletimeResponse(
        pop_time=receipt.pop_time, invisible_time=visible_ms - receipt.pop_time,
        revive_qid=ORDER_REVIVE_QUEUE_ID).ext()))


def _receipt(request: RemotingCommand, header: AckMessageRequest | ChangeMessageInvisibletimeRequest,
             broker: BrokerState) -> ReceiptHandle | Reply:
    """The receipt of the request; a refusal if this broker cannot have issued it."""
    fault = name_fault(header.consumer_group, "group")
    if fault is not None:
        return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
    topic = broker.topics.get(header.topic)
    if topic is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"the topic[{header.topic}] not exist")
    if not 0 <= header.queue_id < topic.read_queue_nums:
        return refuse(request, ResponseCode.MESSAGE_ILLEGAL,
                      f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                      f"topicConfig.readQueueNums:[{topic.read_queue_nums}]")
    low = broker.store.min_offset(header.topic, header.queue_id)
    high = broker.store.max_offset(header.topic, header.queue_id)
    if not low <= header.offset < high:
        return refuse(request, ResponseCode.NO_MESSAGE,
                      f"offset is illegal, topic:[{header.topic}] offset:[{header.offset}] min:[{low}] max:[{high}]")
    try:
        receipt = receipt_handle.decode(header.extra_info)
    except HeaderError as error:
        return refuse(request, ResponseCode.MESSAGE_ILLEGAL, str(error))
    is_in_order = receipt.revive_queue_id == ORDER_REVIVE_QUEUE_ID
    # In order, the invisible time counts from the pop and can exceed the limit after changes.
    is_ours = is_in_order or (_is_revive_queue(receipt.revive_queue_id)
                              and receipt.invisible_time <= INVISIBLE_MS_MAX)
    if not is_ours or receipt.invisible_time < 0 or receipt.pop_time < 0 or not _is_of(receipt, header, broker):
        return refuse(request, ResponseCode.MESSAGE_ILLEGAL, _NOT_OURS)
    return receipt


def _is_of(receipt: ReceiptHandle, header: AckMessageRequest | ChangeMessageInvisibletimeRequest,
           broker: BrokerState) -> bool:
    """Whether the receipt is of the message in the request. Older clients leave out the message's offset."""
    return (receipt.broker_name == broker.config.broker_name and receipt.queue_id == header.queue_id
            and receipt.queue_offset in (header.offset, -1) and 0 <= receipt.start_offset <= header.offset
            and receipt.retry == receipt_handle.retry_flag(header.topic, header.consumer_group))


def _is_revive_queue(queue_id: int) -> bool:
    return 0 <= queue_id < REVIVE_QUEUE_NUMS


def _offsets_of(batch: bodies.BatchAck) -> tuple[int, ...]:
    """Offsets that are acknowledged for one pop: bit i means the offset `start_offset + i`. At most MESSAGES_MAX of
    them."""
    try:
        bits = int.from_bytes(b64decode(batch.bit_set, validate=True), "little")
    except (Base64Error, ValueError):
        return ()
    count = bits.bit_count()
    if bits.bit_length() == count <= MESSAGES_MAX:      # the usual case: all messages of the pop
        return tuple(range(batch.start_offset, batch.start_offset + count))
    offsets: list[int] = []
    while bits and len(offsets) < MESSAGES_MAX:
        low = bits & -bits
        offsets.append(batch.start_offset + low.bit_length() - 1)
        bits ^= low
    return tuple(offsets)


def _host(broker: BrokerState, peer: Peer) -> bytes:
    return broker.send_facts.store_host or peer.local


def _answered(request: RemotingCommand, appended: Appended | None, broker: BrokerState) -> Outcome:
    if appended is None:
        return Reply(request.response(ResponseCode.SUCCESS))
    if appended.status is not PutStatus.PUT_OK:
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal_of(appended))
    return Reply(request.response(ResponseCode.SUCCESS), broker.storing.durable_at(), is_firm=True)
