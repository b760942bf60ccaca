"""What a push consumer says of itself when an operator asks. Source: DefaultMQPushConsumerImpl.consumerRunningInfo."""

import platform
from collections.abc import Iterable, Mapping

from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import MIB
from regulus.client.core.offset_table import OffsetTable
from regulus.client.core.process_queue import ProcessQueue
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo, SubscriptionData


def running_info(*, name_servers: Iterable[str], started_ms: int, orderly: bool, thread_count: int,
                 subscriptions: Iterable[SubscriptionData], queues: Mapping[MessageQueue, ProcessQueue],
                 offsets: OffsetTable, statistics: Mapping[str, TopicStatistics], now_ms: int) -> ConsumerRunningInfo:
    properties = {
        "PROP_CLIENT_VERSION": f"V5_3_3 (Regulus, Python {platform.python_version()})",
        "PROP_CONSUMEORDERLY": "true" if orderly else "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in name_servers),
        "PROP_THREADPOOL_CORE_SIZE": str(thread_count),
    }
    return ConsumerRunningInfo(
        properties=properties, subscription_set=list(subscriptions),
        mq_table={queue: _queue_info(offsets.get(queue) or 0, each) for queue, each in queues.items()},
        status_table={topic: _consume_status(each, now_ms) for topic, each in statistics.items()})


def _queue_info(commit_offset: int, process_queue: ProcessQueue) -> ProcessQueueInfo:
    low, high = process_queue.offset_range()
    return ProcessQueueInfo(
        commit_offset=commit_offset, cached_msg_count=process_queue.count, cached_msg_min_offset=low,
        cached_msg_max_offset=high, cached_msg_size_in_mib=process_queue.size // MIB, droped=process_queue.dropped,
        locked=process_queue.locked_until_ms > 0,
        last_pull_timestamp=process_queue.last_pull_ms, last_consume_timestamp=process_queue.last_consume_ms)


def _consume_status(statistics: TopicStatistics, now_ms: int) -> ConsumeStatus:
    rates = statistics.rates(now_ms)
    return ConsumeStatus(
        pull_rt=rates.pull_rt, pull_tps=rates.pull_tps, consume_rt=rates.consume_rt,
        consume_ok_tps=rates.consume_ok_tps, consume_failed_tps=rates.consume_failed_tps,
        consume_failed_msgs=rates.failed)
