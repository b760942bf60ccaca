"""Families of the whole broker: its tables, its log, its requests. Each has few series, whatever there is of topics."""

from collections.abc import Iterator

from regulus.broker.metrics.names import CONSUME_MODES, DISK, OTHER, is_system, language_name, version_name
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.request_latencies import code_name
from regulus.broker.state import BrokerState
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.metrics_text import HISTOGRAM

PROCESSORS = ("ack", "admin", "async_put", "client_manager", "consumer_manager", "heartbeat", "lite_pull", "pull",
              "query_message", "reply", "send", "transaction")
"""RocketMQ's thread pools. This broker has none: a request is done when it is read, and nothing waits in a queue."""
CLIENTS_A_STEP = 1_000
KINDS_A_STEP = 16
"""Kinds of answers, each with a histogram."""

_GROUP_CODES = (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)


def tables(broker: BrokerState, sheet: Sheet) -> None:
    sheet.gauge("rocketmq_broker_permission", "brokerPermission: 6 reads and sends, 4 reads, 2 sends.").add(
        broker.config.broker_permission)
    sheet.gauge("rocketmq_topic_number", "Topics, those of groups and of the broker itself included.").add(
        len(broker.topics.table))
    sheet.gauge("rocketmq_consumer_group_number", "Consumer groups, connected or not.").add(
        len(broker.subscription_groups.table))
    waiting = sheet.gauge("rocketmq_processor_watermark", "Requests in the queue of a thread pool: always 0, because "
                          "there are no thread pools here.").rows("processor")
    for processor in PROCESSORS:
        waiting.add(0, processor)


def storage(broker: BrokerState, sheet: Sheet, now_ms: int) -> None:
    store, facts = broker.store, broker.runtime_facts
    labels, values = tuple(DISK), tuple(DISK.values())

    def gauge(name: str, text: str, value: float) -> None:
        sheet.gauge(f"rocketmq_storage_{name}", text).rows(*labels).add(value, *values)
    gauge("size_bytes", "Used bytes of the file system that holds the log, whoever uses them.",
          facts.disk_size - facts.disk_free)
    gauge("flush_behind_bytes", "Bytes of the log that are not on disk.",
          max(0, store.commit_log_max_offset() - store.flushed_offset))
    gauge("dispatch_behind_bytes", "Bytes of the log that are not in the queues.", store.dispatch_behind_bytes())
    earliest_ms = store.earliest_store_timestamp()
    if earliest_ms > 0:
        gauge("message_reserve_time_milliseconds", "Age of the oldest message of the log.", now_ms - earliest_ms)


def requests(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    latencies = broker.latencies
    if latencies is None:
        return
    rows = sheet.rocketmq("rocketmq_rpc_latency_milliseconds", HISTOGRAM, "Time of a request until its answer was "
                          "written, the wait of a long poll included.").rows(
        "is_long_polling", "protocol_type", "request_code", "response_code", "result")
    for number, (kind, histogram) in enumerate(latencies.all(), 1):
        rows.add_histogram(histogram, _true(kind.is_long_polling), "remoting",
                           code_name(kind.request_code, RequestCode), code_name(kind.response_code, ResponseCode),
                           kind.result)
        if number % KINDS_A_STEP == 0:
            yield
    topics = sheet.rocketmq("rocketmq_topic_create_execution_time_milliseconds", HISTOGRAM,
                            "Time to create or change a topic by request, its save included.").rows(
        "invocation_status", "is_system")
    groups = sheet.rocketmq("rocketmq_consumer_group_create_execution_time_milliseconds", HISTOGRAM,
                            "Time to create or change a group by request, its save included.").rows(
        "invocation_status")
    for is_success in (True, False):
        status = "success" if is_success else "failure"
        of_topics = latencies.created(
            (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST), is_success)
        if of_topics is not None:
            topics.add_histogram(of_topics, status, "false")
        of_groups = latencies.created(_GROUP_CODES, is_success)
        if of_groups is not None:
            groups.add_histogram(of_groups, status)


def connections(broker: BrokerState, sheet: Sheet) -> Iterator[None]:
    """Yields after each step."""
    count = 0
    producers: dict[tuple[str, str], int] = {}
    for clients in broker.clients.producer_groups().values():
        for client in clients:
            key = (language_name(client.language), version_name(client.version))
            producers[key] = producers.get(key, 0) + 1
            count += 1
            if count % CLIENTS_A_STEP == 0:
                yield
    rows = sheet.gauge("rocketmq_producer_connections", "Pairs of a producer group and a connection. A consumer of "
                       "the Java client is a producer as well.").rows("language", "protocol_type", "version")
    for (language, version), number in producers.items():
        rows.add(number, language, "remoting", version)
    rows = sheet.gauge("rocketmq_consumer_connections", "Connected consumers.").rows(
        "consume_mode", "consumer_group", "is_system", "language", "protocol_type", "version")
    for group in broker.clients.consumer_groups():
        consumers: dict[tuple[str, str], int] = {}
        for client in list(group.clients.values()):
            key = (language_name(client.language), version_name(client.version))
            consumers[key] = consumers.get(key, 0) + 1
            count += 1
            if count % CLIENTS_A_STEP == 0:
                yield
        mode = CONSUME_MODES.get(group.consume_type, OTHER)
        for (language, version), number in consumers.items():
            rows.add(number, mode, group.group, is_system("", group.group), language, "remoting", version)
    yield


def _true(is_so: bool) -> str:
    return "true" if is_so else "false"


