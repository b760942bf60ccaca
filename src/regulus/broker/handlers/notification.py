"""Asks for messages without popping them: NOTIFICATION, PEEK_MESSAGE, POLLING_INFO.

A NOTIFICATION with `initMode` also sets the first offset of a new group.

Source: NotificationProcessor, PeekMessageProcessor, PollingInfoProcessor.
"""

from collections.abc import Sequence

from regulus.broker.attributes import keeps_batches
from regulus.broker.groups.consumer_offsets import NOT_FOUND
from regulus.broker.handlers.pop_message import (
    ANSWER_SIZE_MAX,
    MESSAGES_MAX,
    begin_at_end,
    no_pops,
    no_pops_of,
    retry_topics,
)
from regulus.broker.held_requests import ANY_QUEUE, HOLD_MS_MAX, HeldPlace, HeldRequest
from regulus.broker.outcome import HOLD, Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.model import permission
from regulus.model.message_filter import EVERYTHING
from regulus.model.peer import Peer
from regulus.model.store_result import GetStatus
from regulus.model.topics import TopicConfig
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    NotificationRequest,
    NotificationResponse,
    PeekMessageRequest,
    PollingInfoRequest,
    PollingInfoResponse,
    PopMessageResponse,
)
from regulus.wire.headers.pop_message import INIT_MIN
from regulus.wire.remoting_command import RemotingCommand

PopRequest = NotificationRequest | PeekMessageRequest | PollingInfoRequest


def handle_notification(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Answered when there is a message for the group, or when the time is over."""
    header = NotificationRequest.decode(request)
    topic = _topic(request, header, broker, now_ms)
    if isinstance(topic, Reply):
        return topic
    if header.init_mode is not None:
        if not broker.config.timer_wheel_enable:
            return refuse(request, ResponseCode.SYSTEM_ERROR, no_pops(broker))
        if keeps_batches(topic.attributes):
            return refuse(request, ResponseCode.NO_PERMISSION, no_pops_of(topic))
        if header.init_mode != INIT_MIN:
            _begin(header, topic, broker, now_ms)

    def told(has_message: bool, *, is_full: bool = False) -> RemotingCommand:
        ext = NotificationResponse(has_msg=has_message, polling_full=is_full).ext()
        return request.response(ResponseCode.SUCCESS, ext=ext)

    left_ms = min(header.born_time + header.poll_time - now_ms, HOLD_MS_MAX)
    if left_ms <= 0 or _has_message(header, topic, broker, now_ms):
        return Reply(told(_has_message(header, topic, broker, now_ms)))
    if broker.held_requests.is_full:
        return Reply(told(False, is_full=True))
    places = (HeldPlace(header.topic, max(header.queue_id, ANY_QUEUE)),
              *(HeldPlace(retry, ANY_QUEUE) for retry in retry_topics(header.topic, header.consumer_group, broker)))
    broker.held_requests.hold(HeldRequest(
        request, peer, places, EVERYTHING, broker.steady_ms + left_ms,
        lambda later_ms: told(_has_message(header, topic, broker, later_ms)), since_ms=broker.steady_ms))
    return HOLD


def _queues(header: NotificationRequest | PeekMessageRequest, topic: TopicConfig) -> Sequence[int]:
    return range(topic.read_queue_nums) if header.queue_id < 0 else (header.queue_id,)


def _begin(header: NotificationRequest, topic: TopicConfig, broker: BrokerState, now_ms: int) -> None:
    """Set the offset that the group's first pop would set, if it has none, so that messages sent from now on are not
    skipped."""
    group = header.consumer_group
    for queue_id in _queues(header, topic):
        if broker.consumer_offsets.query(group, header.topic, queue_id) == NOT_FOUND:
            begin_at_end(group, header.topic, queue_id, broker, now_ms)


def _has_message(header: NotificationRequest, topic: TopicConfig, broker: BrokerState, now_ms: int) -> bool:
    group = header.consumer_group
    for queue_id in _queues(header, topic):
        is_blocked = header.order and broker.pop_orders.is_blocked(header.topic, group, queue_id, header.attempt_id,
                                                                   now_ms)
        if not is_blocked and _rest(header.topic, group, queue_id, broker):
            return True
    return not header.order and any(
        _rest(retry, group, queue_id, broker) for retry in retry_topics(header.topic, group, broker)
        if (config := broker.topics.get(retry)) is not None for queue_id in range(config.read_queue_nums))


def _rest(topic: str, group: str, queue_id: int, broker: BrokerState) -> int:
    """Number of messages of the queue that the group has not popped."""
    return max(0, broker.store.max_offset(topic, queue_id) - _offset(topic, group, queue_id, broker))


def _offset(topic: str, group: str, queue_id: int, broker: BrokerState) -> int:
    offset = broker.consumer_offsets.query(group, topic, queue_id)
    return broker.store.min_offset(topic, queue_id) if offset == NOT_FOUND else offset


def handle_peek_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = PeekMessageRequest.decode(request)
    topic = _topic(request, header, broker, now_ms)
    if isinstance(topic, Reply):
        return topic
    if not 0 < header.max_msg_nums <= MESSAGES_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"{header.max_msg_nums} messages cannot be looked at, 1 to {MESSAGES_MAX} can")
    buffers: list[bytes | memoryview] = []
    count = rest = 0
    room, size_left = header.max_msg_nums, ANSWER_SIZE_MAX
    for queue_id in _queues(header, topic):
        offset = _offset(header.topic, header.consumer_group, queue_id, broker)
        if room > 0:
            size_max = min(size_left, broker.config.max_transfer_bytes_on_message_in_memory)
            result = broker.store.get_message(header.topic, queue_id, offset, room, size_max, EVERYTHING)
            if count and result.size > size_left:       # the first message of a queue is returned whatever its size
                room = 0
            else:
                buffers += result.buffers
                count += result.message_count
                offset += result.message_count
                room -= result.message_count
                size_left -= result.size
        rest += max(0, broker.store.max_offset(header.topic, queue_id) - offset)
    if not count:
        return refuse(request, ResponseCode.PULL_NOT_FOUND, GetStatus.NO_MESSAGE_IN_QUEUE.name)
    ext = PopMessageResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest).ext()
    return Reply(request.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, ext, buffers))


def handle_polling_info(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Number of requests of all groups that wait for the queue or topic."""
    header = PollingInfoRequest.decode(request)
    topic = _topic(request, header, broker, now_ms)
    if isinstance(topic, Reply):
        return topic
    waiting = broker.held_requests.waiting(header.topic, max(header.queue_id, ANY_QUEUE))
    return Reply(request.response(ResponseCode.SUCCESS, ext=PollingInfoResponse(waiting).ext()))


def _topic(request: RemotingCommand, header: PopRequest, broker: BrokerState, now_ms: int) -> TopicConfig | Reply:
    """The topic, if the group may read it; otherwise a refusal."""
    topic = broker.topics.get(header.topic)
    if topic is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
    if not permission.is_readable(topic.perm) or not permission.is_readable(broker.config.broker_permission):
        return refuse(request, ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] peeking message is forbidden")
    if header.queue_id >= topic.read_queue_nums:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                      f"topicConfig.readQueueNums:[{topic.read_queue_nums}]")
    group = broker.subscription_groups.find(header.consumer_group, now_ms)
    if group is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                      f"subscription group [{header.consumer_group}] does not exist, see autoCreateSubscriptionGroup")
    if not group.consume_enable:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"subscription group no permission, {header.consumer_group}")
    return topic
