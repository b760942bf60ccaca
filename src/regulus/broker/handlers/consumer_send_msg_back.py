"""CONSUMER_SEND_MSG_BACK: a consumer returns a message that it could not process.

A copy waits at a delay level and then goes to the group's retry topic. It goes to the dead letters at once if the limit
is reached or the consumer wants no retry. Copies are as durable as a send.

Source: AbstractSendMessageProcessor.consumerSendMsgBack.
"""

from regulus.broker import statistics
from regulus.broker.dead_letter_notes import note_dead_letter
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.placement import dead_letter_copy, retry_copy
from regulus.broker.state import BrokerState
from regulus.broker.storing import refusal_of
from regulus.model import message_properties, permission
from regulus.model.delay_level import FIRST_RETRY_LEVEL
from regulus.model.failure_causes import Cause, add_cause, without_causes
from regulus.model.message import MessageExt
from regulus.model.peer import Peer
from regulus.model.store_result import PutStatus
from regulus.model.topics import NEVER_CONSUMED_TOPICS, SubscriptionGroupConfig, dlq_topic, is_dlq_topic, retry_topic
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import ConsumerSendMsgBackRequest, ConsumerSendMsgBackResponse
from regulus.wire.remoting_command import RemotingCommand

DLQ_QUEUE_NUMS = 1


def handle_consumer_send_msg_back(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = ConsumerSendMsgBackRequest.decode(request)
    group = broker.subscription_groups.find(header.group, now_ms)
    if group is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                      f"subscription group not exist, {header.group}")
    if not broker.send_facts.is_writable:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the broker[{broker.config.broker_name}] sending message is forbidden")
    if group.retry_queue_nums <= 0:
        # Success would lose the message, because the consumer drops its own.
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the group[{header.group}] has no retry queue: its retryQueueNums is {group.retry_queue_nums}")
    retry = broker.topics.create_if_absent(retry_topic(header.group), group.retry_queue_nums, now_ms)
    if not permission.is_writable(retry.perm):
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the topic[{retry.topic_name}] sending message is forbidden")
    failed = broker.store.look_message(header.offset)
    if failed is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    if failed.topic in NEVER_CONSUMED_TOPICS:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the message at {header.offset} is of {failed.topic}, which no group consumes")
    if broker.guard is not None and header.origin_topic and not _is_of(failed, header.origin_topic):
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the message at {header.offset} is not of {header.origin_topic}")
    message = _next_copy(header, group, failed, broker.send_facts.store_host or peer.local, broker, now_ms)
    _add_cause(message, header)
    appended = broker.storing.store(message, now_ms)
    if appended.status == PutStatus.MESSAGE_ILLEGAL and without_causes(message.properties):
        # The message counts, not why it failed. It has its place already.
        appended = broker.storing.append(message, now_ms)
    if appended.status != PutStatus.PUT_OK:
        # The code tells a consumer whether another attempt can help; RocketMQ answers SYSTEM_ERROR in any case.
        is_for_good = appended.status == PutStatus.MESSAGE_ILLEGAL
        return refuse(request, ResponseCode.MESSAGE_ILLEGAL if is_for_good else ResponseCode.SYSTEM_ERROR,
                      refusal_of(appended))
    original_topic = header.origin_topic or failed.topic
    is_dead = is_dlq_topic(message.topic)
    if is_dead:
        note_dead_letter(broker.dead_letters, message, header.group)
        origin = failed.properties.get(message_properties.RETRY_TOPIC, original_topic)
        broker.statistics.ends.note_dead_letter(header.group, origin)
    broker.statistics.add(statistics.SNDBCK_PUT_NUMS, f"{original_topic}@{header.group}", 1)
    ext = ConsumerSendMsgBackResponse(regulus_dead_letter=True).ext() if is_dead else None
    return Reply(request.response(ResponseCode.SUCCESS, ext=ext), broker.storing.durable_at())


def _add_cause(message: MessageExt, header: ConsumerSendMsgBackRequest) -> None:
    """Note in the copy, which counts this attempt, why the consumer could not use the message."""
    if header.regulus_cause:
        add_cause(message.properties, message.reconsume_times, Cause(header.regulus_cause, header.regulus_stack or ""))


def _is_of(failed: MessageExt, topic: str) -> bool:
    """Whether the message is of the topic. A retry message is of its retry topic, and of its first topic."""
    return topic in (failed.topic, failed.properties.get(message_properties.RETRY_TOPIC))


def _next_copy(header: ConsumerSendMsgBackRequest, group: SubscriptionGroupConfig, failed: MessageExt,
               store_host: bytes, broker: BrokerState, now_ms: int) -> MessageExt:
    limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
    if failed.reconsume_times >= limit or header.delay_level < 0:
        broker.topics.create_if_absent(dlq_topic(header.group), DLQ_QUEUE_NUMS, now_ms)
        return dead_letter_copy(failed, header.group, store_host)
    level = header.delay_level or FIRST_RETRY_LEVEL + failed.reconsume_times
    queue_id = broker.chance.below(group.retry_queue_nums)
    return retry_copy(failed, header.group, queue_id, level, store_host)
