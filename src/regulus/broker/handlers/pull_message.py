"""A consumer asks for messages: PULL_MESSAGE, LITE_PULL_MESSAGE.

The answer is slices of the log without decoding. If there is nothing yet and the client may wait, the request is held
and runs again when a message arrives or its time is over. While its filter accepts none of the new messages it is held
from the next offset on; otherwise it is answered, even with a refusal.

Source: PullMessageProcessor, DefaultPullMessageResultHandler.
"""

from regulus.broker.config import BrokerConfig
from regulus.broker.filters.message_filter import expression_filter, not_served, subscription_filter
from regulus.broker.held_requests import HOLD_MS_MAX, HeldPlace, HeldRequest
from regulus.broker.outcome import HOLD, Outcome, Reply, plain_reply
from regulus.broker.read_place import MASTER_ID, next_broker
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError, StoreDamaged, StoreNotWritable
from regulus.model import permission, sys_flag
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.model.store_result import GetResult, GetStatus
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record.pop_record import REVIVE_GROUP
from regulus.wire.bodies import SubscriptionData
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.pull_message import (
    PullMessageRequest,
    PullMessageResponse,
    decode_pull_message_request,
    pull_message_response,
)
from regulus.wire.remoting_command import RemotingCommand

# Values of `forbiddenType` in a refusal. Source: ForbiddenType.
BROKER_FORBIDDEN = 1
GROUP_FORBIDDEN = 2
TOPIC_FORBIDDEN = 3
BROADCASTING_FORBIDDEN = 4
SUBSCRIPTION_FORBIDDEN = 5

OFFSET_RESET = "OFFSET_RESET"
PARTED_HOLD_MS = 1000
"""Longest time in ms that a slave with a different log holds a pull. Clients that are sent to the master may not find
it at once."""

# With private names they can be typed constants in the compiled form.
_SUCCESS = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_NOTHING_YET = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_OVERFLOW_ONE)
_COMMIT_OFFSET = sys_flag.PULL_COMMIT_OFFSET
_SUSPEND = sys_flag.PULL_SUSPEND
_SUBSCRIPTION = sys_flag.PULL_SUBSCRIPTION
_LITE = sys_flag.PULL_LITE

_CODES = {
    GetStatus.FOUND: _SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    GetStatus.MESSAGE_WAS_REMOVING: int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    GetStatus.OFFSET_FOUND_NULL: _NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: int(ResponseCode.PULL_OFFSET_MOVED),
    GetStatus.OFFSET_OVERFLOW_ONE: _NOT_FOUND,
    GetStatus.OFFSET_TOO_SMALL: int(ResponseCode.PULL_OFFSET_MOVED),
}
"""The two statuses of an empty queue are missing here: their code depends on the offset in the request."""

# Looking up a member's name costs a Python call.
_REMARKS = {status: status.name for status in GetStatus}


def handle_pull_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = decode_pull_message_request(request)
    checked = _check(request, header, broker, now_ms, None)
    if isinstance(checked, RemotingCommand):
        return Reply(checked)
    if header.sys_flag & _COMMIT_OFFSET and not broker.parted and header.consumer_group != REVIVE_GROUP:
        _commit(header, broker, now_ms)
    response = _read(request, header, checked, broker)
    if response.code != _NOT_FOUND or not header.sys_flag & _SUSPEND:
        return plain_reply(response, 0)
    if broker.held_requests.is_full:
        return Reply(request.response(ResponseCode.SYSTEM_BUSY,
                                      "[REJECTREQUEST]too many pulls are held, start flow control for a while"))
    _hold(request, header, checked, peer, broker)
    return HOLD


def _commit(header: PullMessageRequest, broker: BrokerState, now_ms: int) -> None:
    """Commit the offset in the request, unless the group was reset since the pull was sent: the answer reports the
    reset."""
    offsets, group, topic, queue_id = broker.consumer_offsets, header.consumer_group, header.topic, header.queue_id
    if offsets.pending_reset(group, topic, queue_id) is None:
        offsets.commit(group, topic, queue_id, header.commit_offset, now_ms)


class _Checked:
    """What a pull needs once it is allowed. `subscription` is the source of its filter, None if the pull has its
    own."""

    __slots__ = ("group", "message_filter", "subscription", "topic")

    def __init__(self, group: SubscriptionGroupConfig, topic: TopicConfig, message_filter: Filter,
                 subscription: SubscriptionData | None) -> None:
        self.group = group
        self.topic = topic
        self.message_filter = message_filter
        self.subscription = subscription


def _hold(request: RemotingCommand, header: PullMessageRequest, checked: _Checked, peer: Peer,
          broker: BrokerState) -> None:
    config = broker.config
    hold_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
    if broker.parted:
        hold_ms = min(hold_ms, PARTED_HOLD_MS)

    deadline_ms = broker.steady_ms + max(0, min(hold_ms, HOLD_MS_MAX))
    broker.held_requests.hold(_waiting(request, header, checked, peer, broker, deadline_ms, broker.steady_ms))


def _waiting(request: RemotingCommand, header: PullMessageRequest, checked: _Checked, peer: Peer,
             broker: BrokerState, deadline_ms: int, since_ms: int) -> HeldRequest:
    def resume(later_ms: int) -> RemotingCommand | None:
        again = _check(request, header, broker, later_ms, checked)
        if isinstance(again, RemotingCommand):
            return again
        try:
            return _read_again(request, header, again, peer, broker, deadline_ms, since_ms)
        except (StoreDamaged, StoreNotWritable) as error:
            # The error must not reach the caller, which serves other requests too. The client pulls again, and the
            # server's log reports the damage.
            return request.response(ResponseCode.SYSTEM_ERROR, str(error))

    place = HeldPlace(header.topic, header.queue_id, header.queue_offset)
    return HeldRequest(request, peer, (place,), checked.message_filter, deadline_ms, resume, since_ms=since_ms)


def _read_again(request: RemotingCommand, header: PullMessageRequest, checked: _Checked, peer: Peer,
                broker: BrokerState, deadline_ms: int, since_ms: int) -> "RemotingCommand | None":
    """Run a held pull again. None when nothing matches and it is held from the next offset on."""
    unread = _answer_unread(request, header, checked, broker)
    if unread is not None:
        return unread
    result = _find(header, checked, broker)
    broker.held_requests.looked += result.looked
    if result.status not in _NOTHING_YET or broker.steady_ms >= deadline_ms:
        return _answer(request, header, checked, broker, result)
    header.queue_offset = result.next_begin_offset
    broker.consumer_offsets.pulls.note(header.consumer_group, header.topic, header.queue_id, header.queue_offset)
    broker.held_requests.hold(_waiting(request, header, checked, peer, broker, deadline_ms, since_ms),
                              is_ready=header.queue_offset < result.max_offset)
    return None


def _check(request: RemotingCommand, header: PullMessageRequest, broker: BrokerState, now_ms: int,
           known: "_Checked | None") -> "_Checked | RemotingCommand":
    """Whether the group may pull this queue now; a response is the refusal.

    `known` is an earlier result. Its filter is used again while its source is unchanged, because compiling a condition
    costs much more than applying it.
    """
    config = broker.config
    if not permission.is_readable(config.broker_permission):
        return _forbid(request, BROKER_FORBIDDEN, f"the broker[{config.broker_ip1 or config.broker_name}] pulling "
                                                  "message is forbidden")
    if header.sys_flag & _LITE and not config.lite_pull_message_enable:
        return _forbid(request, BROKER_FORBIDDEN, f"the broker[{config.broker_ip1 or config.broker_name}] for lite "
                                                  "pull consumer is forbidden")
    group = broker.subscription_groups.find(header.consumer_group, now_ms)
    if group is None:
        return request.response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                                f"subscription group [{header.consumer_group}] does not exist, "
                                "see autoCreateSubscriptionGroup")
    if not group.consume_enable:
        return _forbid(request, GROUP_FORBIDDEN, f"subscription group no permission, {header.consumer_group}")
    topic = broker.topics.get(header.topic)
    if topic is None:
        return request.response(ResponseCode.TOPIC_NOT_EXIST,
                                f"topic[{header.topic}] not exist, apply first please!")
    if not permission.is_readable(topic.perm):
        return _forbid(request, TOPIC_FORBIDDEN, f"the topic[{header.topic}] pulling message is forbidden")
    if not 0 <= header.queue_id < topic.read_queue_nums:
        return request.response(ResponseCode.INVALID_PARAMETER,
                                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                                f"topicConfig.readQueueNums:[{topic.read_queue_nums}]")
    if header.sys_flag & _SUBSCRIPTION:
        return _check_expression(request, header, config, group, topic, known)
    return _check_subscription(request, header, broker, group, topic, known)


def _check_expression(request: RemotingCommand, header: PullMessageRequest, config: BrokerConfig,
                      group: SubscriptionGroupConfig, topic: TopicConfig,
                      known: "_Checked | None") -> "_Checked | RemotingCommand":
    """Check a pull that has its own filter."""
    if refusal := not_served(header.expression_type, config):
        return request.response(ResponseCode.SYSTEM_ERROR, refusal)
    if known is not None and known.subscription is None:
        return _Checked(group, topic, known.message_filter, None)
    try:
        return _Checked(group, topic, expression_filter(header.subscription, header.expression_type), None)
    except HeaderError as error:
        return request.response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))


def _check_subscription(request: RemotingCommand, header: PullMessageRequest, broker: BrokerState,
                        group: SubscriptionGroupConfig, topic: TopicConfig,
                        known: "_Checked | None") -> "_Checked | RemotingCommand":
    """Check a pull whose filter comes from the group's heartbeats."""
    consumers = broker.clients.consumer_group(header.consumer_group)
    if consumers is None:
        return request.response(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    if consumers.is_broadcasting and not group.consume_broadcast_enable:
        return _forbid(request, BROADCASTING_FORBIDDEN,
                       f"the consumer group[{header.consumer_group}] can not consume by broadcast way")
    if not broker.subscription_groups.is_readable(header.consumer_group, header.topic):
        return _forbid(request, SUBSCRIPTION_FORBIDDEN,
                       f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]")
    subscription = consumers.subscriptions.get(header.topic)
    if subscription is None:
        return request.response(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if subscription.sub_version < header.sub_version:
        return request.response(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    if refusal := not_served(subscription.expression_type, broker.config):
        return request.response(ResponseCode.SYSTEM_ERROR, refusal)
    if known is not None and known.subscription is subscription:
        return _Checked(group, topic, known.message_filter, subscription)
    try:
        return _Checked(group, topic, subscription_filter(subscription), subscription)
    except HeaderError as error:
        return request.response(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))


def _read(request: RemotingCommand, header: PullMessageRequest, checked: _Checked,
          broker: BrokerState) -> RemotingCommand:
    unread = _answer_unread(request, header, checked, broker)
    if unread is not None:
        return unread
    return _answer(request, header, checked, broker, _find(header, checked, broker))


def _answer_unread(request: RemotingCommand, header: PullMessageRequest, checked: _Checked,
                   broker: BrokerState) -> "RemotingCommand | None":
    """An answer without reading the queue: the log may not be read, or the group's offset was reset."""
    if broker.parted:
        here = header.queue_offset
        return pull_message_response(request, _NOT_FOUND, broker.parted, here, here, here, MASTER_ID, ())
    reset = broker.consumer_offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
    if reset is None:
        return None
    store = broker.store
    return request.response(ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET, _ext(
        checked, MASTER_ID, reset, store.min_offset(header.topic, header.queue_id),
        store.max_offset(header.topic, header.queue_id)))


def _find(header: PullMessageRequest, checked: _Checked, broker: BrokerState) -> GetResult:
    config = broker.config
    count_max = max(1, min(header.max_msg_nums, config.max_transfer_count_on_message_in_memory))
    return broker.store.get_message(header.topic, header.queue_id, header.queue_offset, count_max,
                                    config.max_transfer_bytes_on_message_in_memory, checked.message_filter)


def _answer(request: RemotingCommand, header: PullMessageRequest, checked: _Checked, broker: BrokerState,
            result: GetResult) -> RemotingCommand:
    config = broker.config
    code = _code(result.status, header.queue_offset)
    if code == _SUCCESS:
        broker.statistics.note_get(header.consumer_group, header.topic, result.message_count, result.size)
    else:
        broker.statistics.note_miss()
    next_offset = result.next_begin_offset
    if code == _MOVED and config.is_slave:
        # The master may have what this log lacks, so the client waits for either.
        code, next_offset = _NOT_FOUND, header.queue_offset
    broker.consumer_offsets.pulls.note(header.consumer_group, header.topic, header.queue_id, next_offset)
    broker_id = MASTER_ID
    if config.slave_read_enable:
        broker_id = next_broker(config, broker.runtime_facts, broker.store, checked.group, header.topic,
                                header.queue_id, next_offset)
    remark = _REMARKS[result.status]
    if checked.topic.topic_sys_flag or checked.group.group_sys_flag:
        ext = _ext(checked, broker_id, next_offset, result.min_offset, result.max_offset)
        return request.response(code, remark, ext, result.buffers)
    return pull_message_response(request, code, remark, next_offset, result.min_offset, result.max_offset, broker_id,
                                 result.buffers)


def _code(status: GetStatus, queue_offset: int) -> int:
    code = _CODES.get(status)
    if code is not None:
        return code
    return int(ResponseCode.PULL_OFFSET_MOVED) if queue_offset else _NOT_FOUND


def _ext(checked: _Checked, broker_id: int, next_begin_offset: int, min_offset: int,
         max_offset: int) -> dict[str, str]:
    return PullMessageResponse(
        next_begin_offset=next_begin_offset, min_offset=min_offset, max_offset=max_offset,
        suggest_which_broker_id=broker_id, topic_sys_flag=checked.topic.topic_sys_flag,
        group_sys_flag=checked.group.group_sys_flag).ext()


def _forbid(request: RemotingCommand, forbidden_type: int, remark: str) -> RemotingCommand:
    ext = PullMessageResponse(next_begin_offset=0, min_offset=0, max_offset=0,
                              forbidden_type=forbidden_type).ext()
    return request.response(ResponseCode.NO_PERMISSION, remark, ext)
