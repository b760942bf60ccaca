"""Inspection: 303, 315, 321, 345, 46.

Source: BrokerStatsData, BrokerStatsItem, QueryConsumeTimeSpanBody, QueueTimeSpan, QueryConsumeQueueResponseBody,
ConsumeQueueData, QuerySubscriptionResponseBody, CheckClientRequestBody.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies.subscription_data import SubscriptionData
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsItem(JsonBody):
    """`tps` per second, `avgpt` per call."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatsData(JsonBody):
    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimeSpan(JsonBody):
    """Store times in ms of a queue; `delay_time` is now minus the store time of the next message to consume."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpanBody(JsonBody):
    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueueData(JsonBody):
    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueResponseBody(JsonBody):
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionResponseBody(JsonBody):
    subscription_data: SubscriptionData | None = None
    group: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientConfigBody(JsonBody):
    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None
