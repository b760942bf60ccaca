"""Progress of consumer groups.

GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS, QUERY_CONSUME_TIME_SPAN, QUERY_TOPIC_CONSUME_BY_WHO,
QUERY_TOPICS_BY_CONSUMER, QUERY_SUBSCRIPTION_BY_CONSUMER.
"""

from collections.abc import Iterator

from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.broker_address import broker_address
from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.broker.statistics import GROUP_GET_NUMS
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.wire.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    GroupList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QuerySubscriptionResponseBody,
    QueueTimeSpan,
    TopicList,
)
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)
from regulus.wire.json_fields import encode, encode_entry, splice
from regulus.wire.remoting_command import RemotingCommand


def handle_get_consume_stats(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Progress in the topics of the request, otherwise in all for which the group committed offsets and which it still
    subscribes to."""
    header = GetConsumeStatsRequest.decode(request)
    group = header.consumer_group
    listed = [topic for topic in (header.topic_list or "").split(";") if topic]
    topics = listed or ([header.topic] if header.topic else broker.consumer_offsets.topics_of(group))
    answer = _progress(request, group, list(dict.fromkeys(topics)), bool(listed), broker)
    return broker.long_answers.begin(request, peer, answer)


def _progress(request: RemotingCommand, group: str, topics: list[str], is_listed: bool, broker: BrokerState) -> Steps:
    told: list[str] = []

    def entries() -> Iterator[bytes]:
        for topic in topics:
            config = broker.topics.get(topic)
            if config is not None and (is_listed or _is_subscribed(broker, group, topic)):
                told.append(topic)
                for queue_id in range(config.read_queue_nums):
                    yield encode_entry(_queue(broker, topic, queue_id), _offsets(broker, group, topic, queue_id))

    parts = yield from joined_in_steps(entries())
    stats = ConsumeStats(consume_tps=sum(_consume_tps(broker, group, topic) for topic in told))
    return request.response(ResponseCode.SUCCESS, body=splice(stats, "offset_table", parts))


def handle_get_broker_consume_stats(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                    now_ms: int) -> Outcome:
    """Progress of all groups; a group without offsets has an empty list."""
    only_ordered = GetBrokerConsumeStatsRequest.decode(request).is_order
    return broker.long_answers.begin(request, peer, _progress_of_all(request, only_ordered, peer, broker))


def _progress_of_all(request: RemotingCommand, only_ordered: bool, peer: Peer, broker: BrokerState) -> Steps:
    total = _Total()
    parts = yield from joined_in_steps(_group_texts(broker, only_ordered, total), b"")
    body = ConsumeStatsList(broker_addr=broker_address(broker, peer), total_diff=total.behind,
                            total_inflight_diff=total.in_flight)
    return request.response(ResponseCode.SUCCESS, body=splice(body, "consume_stats_list", parts))


class _Total:
    """Messages that groups have not consumed yet, and how many of those they have pulled."""

    def __init__(self) -> None:
        self.behind = 0
        self.in_flight = 0

    def add(self, offsets: OffsetWrapper) -> OffsetWrapper:
        self.behind += offsets.broker_offset - offsets.consumer_offset
        self.in_flight += (offsets.pull_offset or 0) - offsets.consumer_offset
        return offsets


def _group_texts(broker: BrokerState, only_ordered: bool, total: _Total) -> Iterator[bytes]:
    """JSON of a list with a map for each group, in pieces."""
    for number, group in enumerate(broker.subscription_groups.names()):
        before, behind = _halves(encode({group: []}), 2)
        yield b"," + before if number else before
        for topic_number, topic in enumerate(_shown_topics(broker, group, only_ordered)):
            stats = ConsumeStats(consume_tps=_consume_tps(broker, group, topic))
            opening, closing = splice(stats, "offset_table", ())
            yield b"," + opening if topic_number else opening
            config = broker.topics.get(topic)
            for queue_id in range(config.write_queue_nums if config is not None else 0):
                offsets = total.add(_offsets(broker, group, topic, queue_id))
                entry = encode_entry(_queue(broker, topic, queue_id), offsets)
                yield b"," + entry if queue_id else entry
            yield closing
        yield behind


def _halves(text: bytes, behind: int) -> tuple[bytes, bytes]:
    return text[:-behind], text[-behind:]


def handle_query_consume_time_span(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = QueryConsumeTimeSpanRequest.decode(request)
    config = broker.topics.get(header.topic)
    if config is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    answer = _time_spans(request, header, config.write_queue_nums, broker, now_ms)
    return broker.long_answers.begin(request, peer, answer)


def _time_spans(request: RemotingCommand, header: QueryConsumeTimeSpanRequest, queue_nums: int, broker: BrokerState,
                now_ms: int) -> Steps:
    parts = yield from joined_in_steps(
        _time_span(broker, header.group, header.topic, queue_id, now_ms).encode() for queue_id in range(queue_nums))
    body = splice(QueryConsumeTimeSpanBody(), "consume_time_span_set", parts)
    return request.response(ResponseCode.SUCCESS, body=body)


def handle_query_topic_consume_by_who(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    """Groups that subscribe to the topic now, and groups that committed offsets for it."""
    topic = QueryTopicConsumeByWhoRequest.decode(request).topic
    groups = {*broker.clients.groups_subscribing(topic), *broker.consumer_offsets.groups_of(topic)}
    return succeed(request, GroupList(group_list=sorted(groups)).encode())


def handle_query_topics_by_consumer(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                    now_ms: int) -> Outcome:
    group = QueryTopicsByConsumerRequest.decode(request).group
    topics = broker.consumer_offsets.topics_of(group)
    return succeed(request, TopicList(topic_list=topics, broker_addr=broker_address(broker, peer)).encode())


def handle_query_subscription_by_consumer(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                          now_ms: int) -> Outcome:
    header = QuerySubscriptionByConsumerRequest.decode(request)
    consumers = broker.clients.consumer_group(header.group)
    subscription = consumers.subscriptions.get(header.topic) if consumers else None
    body = QuerySubscriptionResponseBody(group=header.group, topic=header.topic, subscription_data=subscription)
    return succeed(request, body.encode())


def _is_subscribed(broker: BrokerState, group: str, topic: str) -> bool:
    """Also true while no member is connected, because the group may still want the topic."""
    consumers = broker.clients.consumer_group(group)
    return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions


def _shown_topics(broker: BrokerState, group: str, only_ordered: bool) -> list[str]:
    shown = []
    for topic in broker.consumer_offsets.topics_of(group):
        config = broker.topics.get(topic)
        if config is not None and (config.order or not only_ordered) and _is_subscribed(broker, group, topic):
            shown.append(topic)
    return shown


def _queue(broker: BrokerState, topic: str, queue_id: int) -> MessageQueue:
    return MessageQueue(topic, broker.config.broker_name, queue_id)


def _offsets(broker: BrokerState, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    consumer_offset = max(0, broker.consumer_offsets.query(group, topic, queue_id))
    pull_offset = broker.consumer_offsets.pulls.of(group, topic, queue_id)
    last = broker.store.store_timestamp(topic, queue_id, consumer_offset - 1) if consumer_offset else 0
    return OffsetWrapper(
        broker_offset=broker.store.max_offset(topic, queue_id), consumer_offset=consumer_offset,
        pull_offset=max(consumer_offset, pull_offset), last_timestamp=max(0, last))


def _consume_tps(broker: BrokerState, group: str, topic: str) -> float:
    item = broker.statistics.item(GROUP_GET_NUMS, f"{topic}@{group}")
    return item.minute().tps if item else 0.0


def _time_span(broker: BrokerState, group: str, topic: str, queue_id: int, now_ms: int) -> QueueTimeSpan:
    store = broker.store
    min_offset, max_offset = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    consumer_offset = max(0, broker.consumer_offsets.query(group, topic, queue_id))
    oldest = store.store_timestamp(topic, queue_id, min_offset)
    consumed = store.store_timestamp(topic, queue_id, consumer_offset - 1) if consumer_offset else oldest
    waiting = store.store_timestamp(topic, queue_id, consumer_offset) if consumer_offset < max_offset else -1
    return QueueTimeSpan(
        message_queue=_queue(broker, topic, queue_id), min_time_stamp=oldest,
        max_time_stamp=store.store_timestamp(topic, queue_id, max_offset - 1), consume_time_stamp=consumed,
        delay_time=now_ms - waiting if waiting >= 0 else 0)
