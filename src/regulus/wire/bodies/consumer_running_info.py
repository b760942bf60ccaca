"""State that clients report and brokers relay: 220 to 223, 307, 309.

Source: ResetOffsetBody, ResetOffsetBodyForC, GetConsumerStatusBody, ConsumerRunningInfo, ProcessQueueInfo,
PopProcessQueueInfo, ConsumeStatus, ConsumeMessageDirectlyResult.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies.subscription_data import SubscriptionData
from regulus.wire.json_fields import JsonBody, named


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBody(JsonBody):
    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQueueForC(JsonBody):
    topic: str
    broker_name: str
    queue_id: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBodyForC(JsonBody):
    """The form for clients written in C++, whose reader does not support object keys."""

    offset_table: list[MessageQueueForC] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusBody(JsonBody):
    """A client fills `message_queue_table`; the broker's answer has `consumer_table`: client id -> its table."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessQueueInfo(JsonBody):
    """Times in ms; `droped` is Java's spelling."""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = named("cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PopProcessQueueInfo(JsonBody):
    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatus(JsonBody):
    pull_rt: float = named("pullRT", default=0.0)
    pull_tps: float = named("pullTPS", default=0.0)
    consume_rt: float = named("consumeRT", default=0.0)
    consume_ok_tps: float = named("consumeOKTPS", default=0.0)
    consume_failed_tps: float = named("consumeFailedTPS", default=0.0)
    consume_failed_msgs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRunningInfo(JsonBody):
    """The state of a consumer. A broker relays it byte for byte; only admin tools decode it."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] | None = None
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] | None = None
    jstack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyResult(JsonBody):
    """`consume_result`: CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION, CR_RETURN_NULL."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0
