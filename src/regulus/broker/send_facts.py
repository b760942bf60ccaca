"""Facts about topic and broker that each send needs, computed once when a setting changes."""

from regulus.broker.attributes import keeps_batches
from regulus.broker.config import BrokerConfig
from regulus.broker.message_store import MessageStore
from regulus.broker.sink_marks import COPY_PROPERTIES
from regulus.model import message_properties as names
from regulus.model import permission, sys_flag, topics
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


class TopicFacts:
    """One topic. `put_nums` and `put_size` count messages and bytes stored in it.

    `refusal_code` is 0 when the topic accepts messages from clients; otherwise `refusal_remark` says why not. With
    `is_straight`, it accepts messages without further checks.
    """

    def __init__(self, config: TopicConfig, put_nums: int = 0, put_size: int = 0) -> None:
        name = config.topic_name
        self.topic = name
        self.write_queue_nums = config.write_queue_nums
        self.queue_nums_max = max(config.read_queue_nums, config.write_queue_nums)
        self.sys_flag = sys_flag.MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
        self.is_retry = topics.is_retry_topic(name)
        self.needs_keys = config.attributes.get("cleanup.policy") == "COMPACTION"
        self.put_nums = put_nums
        self.put_size = put_size
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

    def count(self, messages: int, appended: Appended) -> None:
        """Count stored messages and their bytes."""
        self.put_nums += messages
        self.put_size += appended.end - appended.start


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
