"""Names of topics and groups, and the settings of a topic and of a subscription group.

Source: TopicValidator, MixAll, TopicConfig, SubscriptionGroupConfig.
"""

from dataclasses import dataclass, field

from regulus.model import permission

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LIGHT_PREFIX = "%LMQ%"
"""Prefix of light queues, which RocketMQ fills with messages of other topics; here they are kept unchanged."""
AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
TRANS_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""Used by RocketMQ 5.5 when it keeps open half messages in RocksDB; not used here."""
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REVIVE_TOPIC_PREFIX = SYSTEM_TOPIC_PREFIX + "REVIVE_LOG_"
"""Followed by the name of the cluster: the topic for records of pops."""
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"

TOPIC_SIZE_MAX = 127
RETRY_TOPIC_SIZE_MAX = 255
GROUP_SIZE_MAX = 120

NOT_SENDABLE_TOPICS = frozenset({SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC,
                                 SELF_TEST_TOPIC, OFFSET_MOVED_EVENT, TIMER_TOPIC})
NEVER_CONSUMED_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC})
"""Their messages wait for a time, or for a decision of their producer."""
SYSTEM_TOPICS = NOT_SENDABLE_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
SYSTEM_GROUPS = ("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
                 "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS")
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

NAME_SIZE_MAX = 255
"""Limit for any topic; the limit for its kind is the same or stricter."""
QUEUE_NUMS_MAX = 65_536
"""Limit for one topic. Each queue has files of its own, so a typing mistake must not create a million of them."""
QUEUE_ID_MAX = 0x7FFFFFFF
"""The largest queue id that a record can hold, in four bytes; no topic has that many queues."""

_NAME_CHARACTERS = frozenset("%|_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_STORED_CHARACTERS = _NAME_CHARACTERS | {"+"}       # between group and topic in a retry topic of pops


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dlq_topic(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_sendable(topic: str) -> bool:
    """Whether clients may send messages to the topic, or recall messages that wait there: not if brokers keep their own
    records in it. RocketMQ lets clients write to the log of pops."""
    return topic not in NOT_SENDABLE_TOPICS and not topic.startswith(REVIVE_TOPIC_PREFIX)


def is_internal(topic: str) -> bool:
    """Whether the topic is used by groups or brokers themselves: for retries, dead letters or RocketMQ's own
    purposes."""
    return (topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)) or topic in SYSTEM_TOPICS
            or topic.endswith(REPLY_TOPIC_SUFFIX))


def name_fault(name: str, noun: str = "topic") -> str | None:
    """What is wrong with a topic or group name; None when it may be used."""
    if not name or name.isspace():
        return f"The specified {noun} is blank."
    if noun == "group":
        size_max = GROUP_SIZE_MAX
    else:
        size_max = RETRY_TOPIC_SIZE_MAX if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else TOPIC_SIZE_MAX
    if len(name) > size_max:
        return f"The specified {noun} is longer than {noun} max length {size_max}."
    if not _NAME_CHARACTERS.issuperset(name):
        return f"The specified {noun}[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def is_storable(topic: str, queue_id: int) -> bool:
    """Whether a topic and queue id may be stored: each of them becomes the name of a folder."""
    return 0 < len(topic) <= NAME_SIZE_MAX and _STORED_CHARACTERS.issuperset(topic) and 0 <= queue_id <= QUEUE_ID_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion:
    """The version of a table; it grows with each change."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> "DataVersion":
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    topic_name: str
    read_queue_nums: int = 4
    write_queue_nums: int = 4
    perm: int = permission.READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupConfig:
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_timeout_minute: int = 15
    group_sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
