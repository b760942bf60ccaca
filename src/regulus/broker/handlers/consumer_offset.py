"""Offsets of a group: QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET."""

from regulus.broker.groups.consumer_offsets import NOT_FOUND, Ahead
from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.model.topics import QUEUE_NUMS_MAX
from regulus.record.pop_record import REVIVE_GROUP
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import QueryConsumerOffsetRequest, QueryConsumerOffsetResponse, UpdateConsumerOffsetRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_query_consumer_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """A group without an offset starts at 0 in a young queue, whatever its client would choose, because no message was
    deleted yet."""
    header = QueryConsumerOffsetRequest.decode(request)
    offsets = broker.consumer_offsets
    consumer_offset = offsets.pending_reset(header.consumer_group, header.topic, header.queue_id)
    if consumer_offset is None:
        consumer_offset = offsets.query(header.consumer_group, header.topic, header.queue_id)
    if consumer_offset == NOT_FOUND:
        if header.set_zero_if_not_found is False:
            return refuse(request, ResponseCode.QUERY_NOT_FOUND,
                          "Not found, do not set to zero, maybe this group boot first")
        if not _is_young(broker, header.topic, header.queue_id):
            return refuse(request, ResponseCode.QUERY_NOT_FOUND,
                          "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
        consumer_offset = 0
    return succeed(request, ext=QueryConsumerOffsetResponse(offset=consumer_offset).ext())


def _is_young(broker: BrokerState, topic: str, queue_id: int) -> bool:
    """Whether the queue still has its first message, or has none yet."""
    return broker.store.min_offset(topic, queue_id) <= 0


def handle_update_consumer_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = UpdateConsumerOffsetRequest.decode(request)
    ahead = Ahead(header.consumer_group, header.topic, header.queue_id, header.commit_offset, header.set_backs) \
        if header.set_backs is not None else None
    if header.consumer_group not in broker.subscription_groups and not _is_new(ahead, broker, now_ms):
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                      f"Group {header.consumer_group} not exist!")
    if header.topic not in broker.topics:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!")
    if not 0 <= header.queue_id < QUEUE_NUMS_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"queueId {header.queue_id} is illegal: it must be between 0 and {QUEUE_NUMS_MAX - 1}")
    if broker.consumer_offsets.pending_reset(header.consumer_group, header.topic, header.queue_id) is not None:
        return Reply(request.response(ResponseCode.SUCCESS, "Offset has been previously reset"))
    if header.consumer_group == REVIVE_GROUP:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"the offsets of {REVIVE_GROUP} are the broker's own: they say which pops are done")
    if ahead is not None:
        broker.consumer_offsets.catch_up(ahead, now_ms)
        return succeed(request)
    broker.consumer_offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset, now_ms)
    return succeed(request)


def _is_new(ahead: Ahead | None, broker: BrokerState, now_ms: int) -> bool:
    """Whether a slave reports a group that consumed for the first time while this master was down.

    If groups may be created automatically, it is created now, so that its members continue from there whenever they
    connect.
    """
    return ahead is not None and ahead.topic in broker.topics and broker.consumer_offsets.counts(ahead) \
        and broker.subscription_groups.find(ahead.group, now_ms) is not None
