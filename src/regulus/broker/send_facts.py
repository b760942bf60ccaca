"""Facts about topic and broker that each send needs, computed once when a setting changes."""

from regulus.broker.attributes import keeps_batches
from regulus.broker.config import BrokerConfig
from regulus.broker.message_store import MessageStore
from regulus.broker.sink_marks import COPY_PROPERTIES
from regulus.model import message_properties as names
from regulus.model import message_type, permission, sys_flag, topics
from regulus.model.message_id import host_bytes
from regulus.model.store_result import Appended
from regulus.model.topics import TopicConfig
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.straight_send import BinaryStraightAnswers, StraightAnswers, StraightSendReader
from regulus.wire.straight_batch import StraightBatchReader

NEVER_IN_BATCH = names.TIMER_PROPERTIES | {
    names.DELAY_TIME_LEVEL, names.TRANSACTION_PREPARED, names.POP_CK, names.TIMER_OUT_MS, names.TIMER_DEL_UNIQUE_KEY,
    names.LITE_TOPIC}
UNUSUAL_PROPERTIES = NEVER_IN_BATCH | {names.SINK, names.PRIORITY, names.INNER_NUM}
"""Properties that change where a message goes, or whether it is accepted."""
UNUSUAL_IN_BATCH = frozenset(name.encode() for name in COPY_PROPERTIES | {
    names.SEQUENCE, names.SINK_DIGEST, names.REAL_TOPIC, names.REAL_QUEUE_ID})
"""In a run of a sink writer, these would change which message it is, or are not part of the digest."""


SIZE_EDGES = (1024, 4096, 524_288, 1_048_576, 2_097_152, 4_194_304)
"""Bytes; sizes of sent messages are counted between them. Source: BrokerMetricsManager, message size buckets."""

# Private names allow these to be typed constants in the compiled form.
_NORMAL = message_type.NORMAL
_FIFO = message_type.FIFO
_EDGE_1K = SIZE_EDGES[0]
_EDGE_4K = SIZE_EDGES[1]
_EDGE_512K = SIZE_EDGES[2]


class SentCounts:
    """The sends of one type of message that were stored in a topic.

    `nums` messages have `size` bytes in the log. A batch is one send: `batched` messages with `batched_size` bytes are
    not the first of theirs, each of the mean size of its batch. The others count sends by the edge that they exceed.
    """

    def __init__(self) -> None:
        self.nums = 0
        self.size = 0
        self.batched = 0
        self.batched_size = 0
        self.over_1k = self.over_4k = self.over_512k = self.over_1m = self.over_2m = self.over_4m = 0

    @property
    def larger(self) -> list[int]:
        """How many sends exceed each of SIZE_EDGES."""
        return [self.over_1k, self.over_4k, self.over_512k, self.over_1m, self.over_2m, self.over_4m]

    def count(self, messages: int, appended: Appended) -> None:
        size = appended.end - appended.start
        self.nums += messages
        self.size += size
        if messages != 1:
            self.batched += messages - 1
            self.batched_size += size - size // messages
            size //= messages
        if size > _EDGE_1K:
            self.over_1k += 1
            if size > _EDGE_4K:
                self.over_4k += 1
                if size > _EDGE_512K:
                    self._count_large(size)

    def _count_large(self, size: int) -> None:
        self.over_512k += 1
        self.over_1m += size > SIZE_EDGES[3]
        self.over_2m += size > SIZE_EDGES[4]
        self.over_4m += size > SIZE_EDGES[5]


class TopicFacts:
    """One topic. `put_nums` and `put_size` count messages and bytes stored in it. The sends among them are in `normal`,
    `fifo` and, by type, in `unusual`; the others, such as deliveries and retries, in `other_nums` and `other_size`.
    `before` is the same topic with other settings, whose counts continue.

    `refusal_code` is 0 when the topic accepts messages from clients; otherwise `refusal_remark` says why not. With
    `is_straight`, it accepts messages without further checks.
    """

    def __init__(self, config: TopicConfig, before: "TopicFacts | None" = None) -> None:
        name = config.topic_name
        self.topic = name
        self.write_queue_nums = config.write_queue_nums
        self.queue_nums_max = max(config.read_queue_nums, config.write_queue_nums)
        self.sys_flag = sys_flag.MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.is_retry = topics.is_retry_topic(name)
        self.needs_keys = config.attributes.get("cleanup.policy") == "COMPACTION"
        self.normal: SentCounts = SentCounts() if before is None else before.normal
        self.fifo: SentCounts = SentCounts() if before is None else before.fifo
        self.unusual: dict[str, SentCounts] = {} if before is None else before.unusual
        self.other_nums: int = 0 if before is None else before.other_nums
        self.other_size: int = 0 if before is None else before.other_size
        self.refusal_code = 0
        self.refusal_remark = ""
        if not topics.is_sendable(name):
            self.refusal_code = int(ResponseCode.NO_PERMISSION)
            self.refusal_remark = f"Sending message to topic[{name}] is forbidden."
        elif not permission.is_writable(config.perm):
            self.refusal_code = int(ResponseCode.NO_PERMISSION)
            self.refusal_remark = f"the topic[{name}] sending message is forbidden"
        self.keeps_batches = keeps_batches(config.attributes)
        self.is_straight = not (self.refusal_code or self.is_retry or self.needs_keys or self.keeps_batches)

    @property
    def put_nums(self) -> int:
        nums: int = self.other_nums + self.normal.nums + self.fifo.nums
        for counts in self.unusual.values():
            nums += counts.nums
        return nums

    @property
    def put_size(self) -> int:
        size: int = self.other_size + self.normal.size + self.fifo.size
        for counts in self.unusual.values():
            size += counts.size
        return size

    @property
    def sent(self) -> dict[str, SentCounts]:
        """The counts of sends by message type."""
        return {message_type.NORMAL: self.normal, message_type.FIFO: self.fifo, **self.unusual}

    def count(self, kind: str, messages: int, appended: Appended) -> None:
        """Count stored messages and their bytes. `kind`: their type if they were sent; empty for others."""
        if not kind:
            self.other_nums += messages
            self.other_size += appended.end - appended.start
        else:
            self.sent_counts(kind).count(messages, appended)

    def sent_counts(self, kind: str) -> SentCounts:
        if kind == _NORMAL:
            return self.normal
        if kind == _FIFO:
            return self.fifo
        counts = self.unusual.get(kind)
        if counts is None:
            counts = self.unusual[kind] = SentCounts()
        return counts


class SendFacts:
    """The broker's facts. `topics` is by name. `stamp` has the properties that the broker adds to each message.

    `store_host` is empty when each client gets the address at which it reached the broker. `host_texts` has these
    addresses as hexadecimal digits; there are only as many as this machine has. `straight_sends`, `straight_batches`
    and `straight_answers`, the latter also by address, are for sends without special properties.
    """

    def __init__(self, config: BrokerConfig, store: MessageStore, topic_facts: dict[str, TopicFacts]) -> None:
        self.store = store
        self.topics = topic_facts
        self.region_id = config.region_id
        self.trace_on = config.trace_on
        # In the order in which RocketMQ writes them, that of Java's map.
        self.stamp = {names.MSG_REGION: config.region_id, names.CLUSTER: config.broker_cluster_name,
                      names.TRACE_ON: "true" if config.trace_on else "false"}
        self.store_host = host_bytes(config.broker_ip1, config.listen_port) if config.broker_ip1 else b""
        self.host_texts: dict[bytes, str] = {}
        self.stamp_text = names.format(self.stamp).encode("utf-8", "replace")
        unusual = frozenset(name.encode() for name in UNUSUAL_PROPERTIES | set(self.stamp))
        self.straight_sends = StraightSendReader(unusual, self.stamp_text)
        self.straight_batches = StraightBatchReader(unusual | UNUSUAL_IN_BATCH)
        self.straight_answers: dict[bytes, StraightAnswers] = {}
        self.binary_straight_answers: dict[bytes, BinaryStraightAnswers] = {}
        self.max_message_size = config.max_message_size
        self.delay_level_max = len(config.delay_ladder_ms)
        self.timer_precision_ms = config.timer_precision_ms if config.timer_wheel_enable else 0
        self.timer_delay_ms_max = config.timer_max_delay_sec * 1000
        self.is_durability_awaited = config.is_durability_awaited
        self.rejects_transactions = config.reject_transaction_message
        self.is_writable = permission.is_writable(config.broker_permission)
        self.is_restricted = not self.is_writable or config.start_accept_send_request_time_stamp > 0

    def durable_at(self, end: int, waits: bool) -> int:
        """Physical offset up to which an answer waits for the log, or 0. `waits`: whether the client wants to wait."""
        return end if self.is_durability_awaited and waits else 0

    def answers(self, store_host: bytes) -> StraightAnswers:
        """Answers for sends that are stored under this address."""
        answers = self.straight_answers.get(store_host)
        if answers is None:
            answers = self.straight_answers[store_host] = StraightAnswers(store_host, self.region_id, self.trace_on)
        return answers

    def binary_answers(self, store_host: bytes) -> BinaryStraightAnswers:
        answers = self.binary_straight_answers.get(store_host)
        if answers is None:
            answers = BinaryStraightAnswers(store_host, self.region_id, self.trace_on)
            self.binary_straight_answers[store_host] = answers
        return answers

    def offset_message_id(self, store_host: bytes, physical_offset: int) -> str:
        """The id as model.message_id makes it, with the host's part cached: it is the same for almost all messages."""
        host = self.host_texts.get(store_host)
        if host is None:
            host = self.host_texts[store_host] = store_host.hex().upper()
        return f"{host}{physical_offset:016X}"
