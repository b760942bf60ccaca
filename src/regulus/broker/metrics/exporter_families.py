"""The names of apache/rocketmq-exporter, which dashboards for RocketMQ 4 use, as gauges of this broker.

The exporter asks brokers once a minute, by administrative requests; here the same numbers are at hand. Series that it
gathers from clients, and names that it declares and never fills, are not served.

Source: apache/rocketmq-exporter, RMQMetricsCollector.
"""

from collections.abc import Generator, Iterator, Mapping

from regulus.broker import statistics as names
from regulus.broker.groups.consumer_offsets import NOT_FOUND
from regulus.broker.handlers.broker_runtime_info import runtime_table
from regulus.broker.metrics.lag import StoreTimes, earlier
from regulus.broker.state import BrokerState
from regulus.broker.statistics import StatisticsSnapshot
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, is_dlq_topic, is_retry_topic
from regulus.wire.metrics_text import GAUGE, MetricFamily, MetricsPage, Rows

PAIRS_A_STEP = 64
QUEUES_A_STEP = 512
"""A topic may have thousands. One topic or group counts as several, for its series."""
_A_STEP = QUEUES_A_STEP // PAIRS_A_STEP
ADDRESSES_SIZE_MAX = 1_024
"""Characters of the addresses of a group's members in one label; the rest is left out."""

_PREFIX = "rocketmq_brokeruntime_"
_PUT_TIMES = ("pmdt_0ms", "pmdt_0to10ms", "pmdt_10to50ms", "pmdt_50to100ms", "pmdt_100to200ms", "pmdt_200to500ms",
              "pmdt_500to1s", "pmdt_1to2s", "pmdt_2to3s", "pmdt_3to4s", "pmdt_4to5s", "pmdt_5to10s", "pmdt_10stomore")
_RATES = {"getfound": "getFoundTps", "gettotal": "getTotalTps", "gettransfered": "getTransferedTps",
          "getmiss": "getMissTps", "put": "putTps"}
_NUMBERS = {
    "msg_put_total_today_now": "msgPutTotalTodayNow", "msg_gettotal_today_now": "msgGetTotalTodayNow",
    "msg_puttotal_todaymorning": "msgPutTotalTodayMorning", "msg_gettotal_todaymorning": "msgGetTotalTodayMorning",
    "msg_puttotal_yesterdaymorning": "msgPutTotalYesterdayMorning",
    "msg_gettotal_yesterdaymorning": "msgGetTotalYesterdayMorning", "commitlog_disk_ratio": "commitLogDiskRatio",
    "consumequeue_disk_ratio": "consumeQueueDiskRatio", "commitlog_maxoffset": "commitLogMaxOffset",
    "commitlog_minoffset": "commitLogMinOffset", "dispatch_behind_bytes": "dispatchBehindBytes",
    "dispatch_maxbuffer": "dispatchMaxBuffer", "earliest_message_timestamp": "earliestMessageTimeStamp",
    "start_accept_sendrequest_time": "startAcceptSendRequestTimeStamp",
    "pagecache_lock_time_mills": "pageCacheLockTimeMills",
    "remain_transientstore_buffer_numbs": "remainTransientStoreBufferNumbs",
    "put_message_size_total": "putMessageSizeTotal", "put_message_average_size": "putMessageAverageSize",
    "putmessage_times_total": "putMessageTimesTotal", "putmessage_entire_time_max": "putMessageEntireTimeMax",
    "getmessage_entire_time_max": "getMessageEntireTimeMax", "put_latency_99": "putLatency99",
    "put_latency_999": "putLatency999", "send_threadpool_queue_size": "sendThreadPoolQueueSize",
    "send_threadpoolqueue_capacity": "sendThreadPoolQueueCapacity",
    "send_threadpoolqueue_headwait_timemills": "sendThreadPoolQueueHeadWaitTimeMills",
    "pull_threadpoolqueue_size": "pullThreadPoolQueueSize",
    "pull_threadpoolqueue_capacity": "pullThreadPoolQueueCapacity",
    "pull_threadpoolqueue_headwait_timemills": "pullThreadPoolQueueHeadWaitTimeMills",
    "query_threadpoolqueue_size": "queryThreadPoolQueueSize",
    "query_threadpool_queue_capacity": "queryThreadPoolQueueCapacity",
    "query_threadpoolqueue_headwait_timemills": "queryThreadPoolQueueHeadWaitTimeMills"}
"""By the name behind `rocketmq_brokeruntime_`: the key of GET_BROKER_RUNTIME_INFO."""


class ExporterFamilies:
    """`labels` are those of the configuration. Keeps from page to page when messages were stored."""

    def __init__(self, broker: BrokerState, labels: Mapping[str, str]) -> None:
        self._broker = broker
        self._labels = dict(labels)
        self._times = StoreTimes(broker.store, broker.topics.epochs)
        self._looked = 0
        """Queues that this step looked at."""

    def add(self, page: MetricsPage, now_ms: int) -> Iterator[None]:
        """Yields after each step."""
        self._times.turn()
        yield from self._runtime(page, now_ms)
        self._rates(page)
        yield from self._topics(page)
        yield from self._groups(page, now_ms)

    def _family(self, page: MetricsPage, name: str, text: str) -> MetricFamily:
        return page.family(f"rocketmq_{name}", GAUGE, text, self._labels)

    def _own(self) -> tuple[str, str]:
        """Cluster and broker."""
        return self._broker.config.broker_cluster_name, self._broker.config.broker_name

    def _address(self) -> str:
        config = self._broker.config
        return f"{config.broker_ip1 or config.broker_name}:{config.listen_port}"

    # --- the broker --------------------------------------------------------------------------------------------------

    def _runtime(self, page: MetricsPage, now_ms: int) -> Generator[None, None, None]:
        table = yield from runtime_table(self._broker, now_ms)
        labels = ("boottime", "brokerHost", "brokerIP", "broker_version", "cluster", "des")
        cluster, broker = self._own()
        values = (table["bootTimestamp"], broker, self._address(), table["brokerVersionDesc"], cluster, "")

        def gauge(name: str, value: float) -> None:
            page.family(_PREFIX + name, GAUGE, f"{name} of the broker, as rocketmq-exporter has it.", self._labels
                        ).rows(*labels).add(value, *values)
        for name in _PUT_TIMES:
            gauge(name, 0)      # the time of a put is not measured by itself
        for name, key in _RATES.items():
            for seconds, rate in zip((10, 60, 600), table[key].split(" "), strict=True):
                gauge(f"{name}_tps{seconds}", float(rate))
        for name, key in _NUMBERS.items():
            gauge(name, float(table[key]))
        facts, store = self._broker.runtime_facts, self._broker.store
        gauge("commitlogdir_capacity_total", facts.disk_size)
        gauge("commitlogdir_capacity_free", facts.disk_free)
        gauge("remain_howmanydata_toflush", max(0, store.commit_log_max_offset() - store.flushed_offset))
        yield

    def _rates(self, page: MetricsPage) -> None:
        cluster, broker = self._own()
        for name, key in (("broker_tps", names.BROKER_PUT_NUMS), ("broker_qps", names.BROKER_GET_NUMS)):
            self._family(page, name, "Messages a second in the last minute.").rows("cluster", "brokerIP", "broker").add(
                self._minute(key, cluster).tps, cluster, self._address(), broker)
        behind = self._family(page, "broker_commitlog_diff", "How far the log of a slave is behind.").rows(
            "cluster", "brokerIP", "broker")
        for slave in self._broker.ha_status(0).ha_connection_info:
            behind.add(slave.diff, cluster, slave.addr, broker)

    def _minute(self, name: str, key: str) -> StatisticsSnapshot:
        item = self._broker.statistics.item(name, key)
        return item.minute() if item is not None else StatisticsSnapshot()

    # --- topics ------------------------------------------------------------------------------------------------------

    def _topics(self, page: MetricsPage) -> Generator[None, None, None]:
        labels = ("cluster", "broker", "topic")
        tps, size, offset, retries = (self._family(page, name, text).rows(*labels) for name, text in (
            ("producer_tps", "Messages a second in the last minute."),
            ("producer_message_size", "Bytes a second in the last minute."),
            ("producer_offset", "Sum of the ends of the topic's queues."),
            ("topic_retry_offset", "The same of a retry topic.")))
        dead = self._family(page, "topic_dlq_offset", "The same of dead letters.").rows("cluster", "broker", "group")
        own = self._own()
        for topic in list(self._broker.topics.table):
            end = sum([self._broker.store.known_max_offset(topic, queue_id) for queue_id in self._queues(topic)])
            if is_dlq_topic(topic):
                dead.add(end, *own, topic.removeprefix(DLQ_PREFIX))
            elif is_retry_topic(topic):
                retries.add(end, *own, topic)
            else:
                offset.add(end, *own, topic)
                tps.add(self._minute(names.TOPIC_PUT_NUMS, topic).tps, *own, topic)
                size.add(self._minute(names.TOPIC_PUT_SIZE, topic).tps, *own, topic)
            if self._is_step_over():
                yield
        producers = self._family(page, "producer_count", "Connected producers.").rows("cluster", "broker", "group")
        for number, (group, clients) in enumerate(self._broker.clients.producer_groups().items(), 1):
            producers.add(len(clients), *own, group)
            if number % PAIRS_A_STEP == 0:
                yield
        yield

    def _queues(self, topic: str) -> range:
        config = self._broker.topics.get(topic)
        queues = range(max(config.read_queue_nums, config.write_queue_nums) if config is not None else 0)
        self._looked += len(queues)
        return queues

    def _is_step_over(self) -> bool:
        """Counts one topic, group or pair of them; true after enough of these and their queues."""
        self._looked += _A_STEP
        if self._looked < QUEUES_A_STEP:
            return False
        self._looked = 0
        return True

    # --- groups ------------------------------------------------------------------------------------------------------

    def _groups(self, page: MetricsPage, now_ms: int) -> Generator[None, None, None]:
        own, pair = self._own(), ("cluster", "broker", "topic", "group")
        of_pair = {name: self._family(page, name, text).rows(*pair) for name, text in (
            ("consumer_offset", "Sum of the offsets that the group committed."),
            ("group_get_latency_by_storetime", "Age of the first message that is not committed, in ms."),
            ("consumer_tps", "Messages a second in the last minute."),
            ("consumer_message_size", "Bytes a second in the last minute."),
            ("send_back_nums", "Messages that were sent back in the last minute."))}
        of_group = ("countOfOnlineConsumers", "group", "msgModel", "topic")
        diff = self._family(page, "group_diff", "Messages that are not committed.").rows(*of_group)
        retry_diff = self._family(page, "group_retrydiff", "The same in the retry topic.").rows(*of_group)
        count = self._family(page, "group_count", "Connected consumers.").rows("caddr", "group", "localaddr")
        for group in self._broker.subscription_groups.names():
            consumers = self._broker.clients.consumer_group(group)
            clients = list(consumers.clients.values()) if consumers is not None else []
            if clients:
                addresses = ",".join([client.remote_text for client in clients])[:ADDRESSES_SIZE_MAX]
                count.add(len(clients), addresses, group, addresses)
            model = "0" if consumers is not None and consumers.is_broadcasting else "1"
            if self._is_step_over():
                yield
            for topic in self._broker.consumer_offsets.topics_of(group):
                if self._is_step_over():
                    yield
                if not page.is_full:
                    behind = self._pair(of_pair, own, topic, group, now_ms)
                    rows = retry_diff if topic.startswith(RETRY_PREFIX) else diff
                    rows.add(behind, str(len(clients)), group, model, topic)
        yield

    def _pair(self, rows: Mapping[str, Rows], own: tuple[str, str], topic: str, group: str, now_ms: int) -> int:
        """How many messages are not committed."""
        committed = behind = oldest_ms = 0
        for queue_id in self._queues(topic):
            offset = self._broker.consumer_offsets.query(group, topic, queue_id)
            end = self._broker.store.known_max_offset(topic, queue_id)
            if offset == NOT_FOUND:
                continue
            committed += offset
            behind += max(0, end - offset)
            if offset < end:
                oldest_ms = earlier(oldest_ms, self._times.of(topic, queue_id, offset))
        labels, key = (*own, topic, group), f"{topic}@{group}"
        rows["consumer_offset"].add(committed, *labels)
        rows["group_get_latency_by_storetime"].add(max(0, now_ms - oldest_ms) if oldest_ms else 0, *labels)
        rows["consumer_tps"].add(self._minute(names.GROUP_GET_NUMS, key).tps, *labels)
        rows["consumer_message_size"].add(self._minute(names.GROUP_GET_SIZE, key).tps, *labels)
        rows["send_back_nums"].add(self._minute(names.SNDBCK_PUT_NUMS, key).sum, *labels)
        return behind
