"""The running info of a push consumer, which operators request. Source: DefaultMQPushConsumerImpl.consumerRunningInfo.
"""

import platform
from collections.abc import Collection, Iterable, Mapping

from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import MIB, FlowLimits
from regulus.client.core.ordered_queue import OrderedQueue
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.received_message import PoppedState
from regulus.wire.bodies import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo, SubscriptionData

BLOCKED_QUEUES = "PROP_BLOCKED_QUEUES"
"""The number of blocked queues: the broker refuses to read the next message, or (in order) the first message has failed
several times."""

TASKS_RESTARTED = "PROP_TASKS_RESTARTED"
POPPED = "PROP_POPPED_"

PULL_THRESHOLD = "pullThresholdForQueue"
PULL_THRESHOLD_MIB = "pullThresholdSizeForQueue"
"""RocketMQ's names for the limits of a queue's cache."""


def running_info(*, name_servers: Iterable[str], started_ms: int, orderly: bool, thread_count: int,
                 subscriptions: Iterable[SubscriptionData], queues: Collection[OwnedQueue],
                 statistics: Mapping[str, TopicStatistics], restarts: int, now_ms: int, limits: FlowLimits,
                 popped: Mapping[PoppedState, int] | None = None) -> ConsumerRunningInfo:
    """The answer to GET_CONSUMER_RUNNING_INFO. `restarts`: how often background tasks failed and were started again.
    Regulus adds it, the number of blocked queues, and the popped messages by state as properties of its own. `limits`:
    those of a queue whose topic has no limits of its own."""
    properties = {
        "PROP_CLIENT_VERSION": f"V5_3_3 (Regulus, Python {platform.python_version()})",
        "PROP_CONSUMEORDERLY": "true" if orderly else "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY" if popped is None else "CONSUME_POP",
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in name_servers),
        "PROP_THREADPOOL_CORE_SIZE": str(thread_count),
        BLOCKED_QUEUES: str(sum(map(_is_blocked, queues))),
        TASKS_RESTARTED: str(restarts),
        PULL_THRESHOLD: str(limits.count_max),
        PULL_THRESHOLD_MIB: str(limits.size_max_mib),
        **{f"{POPPED}{state}": str(count) for state, count in (popped or {}).items()},
    }
    return ConsumerRunningInfo(
        properties=properties, subscription_set=list(subscriptions),
        mq_table={owned.queue: _queue_info(owned, now_ms) for owned in queues},
        status_table={topic: _consume_status(each, now_ms) for topic, each in statistics.items()})


def _is_blocked(owned: OwnedQueue) -> bool:
    return owned.is_refused or (isinstance(owned, OrderedQueue) and owned.is_blocked)


def _queue_info(owned: OwnedQueue, now_ms: int) -> ProcessQueueInfo:
    cache = owned.cache
    low, high = cache.offset_range()
    return ProcessQueueInfo(
        commit_offset=max(0, owned.commit_offset), cached_msg_count=cache.count, cached_msg_min_offset=low,
        cached_msg_max_offset=high, cached_msg_size_in_mib=cache.size // MIB, droped=owned.is_given_up,
        locked=isinstance(owned, OrderedQueue) and owned.is_locked(now_ms),
        last_pull_timestamp=owned.last_pull_ms, last_consume_timestamp=owned.last_consume_ms)


def _consume_status(statistics: TopicStatistics, now_ms: int) -> ConsumeStatus:
    rates = statistics.rates(now_ms)
    return ConsumeStatus(
        pull_rt=rates.pull_rt, pull_tps=rates.pull_tps, consume_rt=rates.consume_rt,
        consume_ok_tps=rates.consume_ok_tps, consume_failed_tps=rates.consume_failed_tps,
        consume_failed_msgs=rates.failed)
