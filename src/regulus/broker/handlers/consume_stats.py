"""How far consumer groups are.

GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS, QUERY_CONSUME_TIME_SPAN, QUERY_TOPIC_CONSUME_BY_WHO,
QUERY_TOPICS_BY_CONSUMER, QUERY_SUBSCRIPTION_BY_CONSUMER.
"""

from collections.abc import Iterable

from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.broker_address import broker_address
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
from regulus.wire.remoting_command import RemotingCommand


def handle_get_consume_stats(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Topics named by the asker, else all of which the group committed offsets; only those it still subscribes to."""
    header = GetConsumeStatsRequest.decode(request)
    group = header.consumer_group
    listed = [topic for topic in (header.topic_list or "").split(";") if topic]
    topics = listed or ([header.topic] if header.topic else broker.consumer_offsets.topics_of(group))
    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    tps = 0.0
    for topic in topics:
        config = broker.topics.get(topic)
        if config is not None and (listed or _is_subscribed(broker, group, topic)):
            offset_table.update(_offsets(broker, group, topic, config.read_queue_nums))
            tps += _consume_tps(broker, group, topic)
    return succeed(request, ConsumeStats(offset_table=offset_table, consume_tps=tps).encode())


def handle_get_broker_consume_stats(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                    now_ms: int) -> Outcome:
    """All groups; those without offsets have an empty list."""
    only_ordered = GetBrokerConsumeStatsRequest.decode(request).is_order
    groups = {group: _stats_by_topic(broker, group, only_ordered) for group in broker.subscription_groups.names()}
    wrappers = [wrapper for stats in groups.values() for entry in stats for wrapper in entry.offset_table.values()]
    body = ConsumeStatsList(
        consume_stats_list=[{group: stats} for group, stats in groups.items()],
        broker_addr=broker_address(broker, peer),
        total_diff=sum(wrapper.broker_offset - wrapper.consumer_offset for wrapper in wrappers),
        total_inflight_diff=sum((wrapper.pull_offset or 0) - wrapper.consumer_offset for wrapper in wrappers))
    return succeed(request, body.encode())


def handle_query_consume_time_span(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = QueryConsumeTimeSpanRequest.decode(request)
    config = broker.topics.get(header.topic)
    if config is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    spans = [_time_span(broker, header.group, header.topic, queue_id, now_ms)
             for queue_id in range(config.write_queue_nums)]
    return succeed(request, QueryConsumeTimeSpanBody(consume_time_span_set=spans).encode())


def handle_query_topic_consume_by_who(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    """Groups that subscribe to the topic now, and those that committed offsets of it."""
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
    """Also true while nobody of the group is connected: then nothing says that it gave the topic up."""
    consumers = broker.clients.consumer_group(group)
    return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions


def _stats_by_topic(broker: BrokerState, group: str, only_ordered: bool) -> list[ConsumeStats]:
    stats = []
    for topic in broker.consumer_offsets.topics_of(group):
        config = broker.topics.get(topic)
        if config is None or (only_ordered and not config.order) or not _is_subscribed(broker, group, topic):
            continue
        stats.append(ConsumeStats(offset_table=dict(_offsets(broker, group, topic, config.write_queue_nums)),
                                  consume_tps=_consume_tps(broker, group, topic)))
    return stats


def _offsets(broker: BrokerState, group: str, topic: str,
             queue_nums: int) -> Iterable[tuple[MessageQueue, OffsetWrapper]]:
    for queue_id in range(queue_nums):
        consumer_offset = max(0, broker.consumer_offsets.query(group, topic, queue_id))
        pull_offset = broker.consumer_offsets.pull_offset(group, topic, queue_id)
        last = broker.store.store_timestamp(topic, queue_id, consumer_offset - 1) if consumer_offset else 0
        yield MessageQueue(topic, broker.config.broker_name, queue_id), OffsetWrapper(
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
        message_queue=MessageQueue(topic, broker.config.broker_name, queue_id), min_time_stamp=oldest,
        max_time_stamp=store.store_timestamp(topic, queue_id, max_offset - 1), consume_time_stamp=consumed,
        delay_time=now_ms - waiting if waiting >= 0 else 0)
