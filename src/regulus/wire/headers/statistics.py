"""Inspection: 202, 203, 204, 208, 300, 303, 308, 314, 315, 317, 321, 343, 345.

Source: GetTopicStatsInfoRequestHeader, GetConsumerConnectionListRequestHeader, GetProducerConnectionListRequestHeader,
GetConsumeStatsRequestHeader, QueryTopicConsumeByWhoRequestHeader, QueryConsumeTimeSpanRequestHeader,
QueryCorrectionOffsetHeader, CloneGroupOffsetRequestHeader, ViewBrokerStatsDataRequestHeader,
GetConsumeStatsInBrokerHeader, QueryConsumeQueueRequestHeader, QueryTopicsByConsumerRequestHeader,
QuerySubscriptionByConsumerRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True)
class GetTopicStatsInfoRequest(Header):
    topic: str


@dataclass(frozen=True, slots=True)
class GetConsumerConnectionListRequest(Header):
    consumer_group: str


@dataclass(frozen=True, slots=True)
class GetProducerConnectionListRequest(Header):
    producer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsRequest(Header):
    """`topic_list` (5.x) separates topics by `;` and ends with one."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True)
class QueryTopicConsumeByWhoRequest(Header):
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpanRequest(Header):
    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCorrectionOffsetRequest(Header):
    """`filter_groups` is a comma list."""

    topic: str
    compare_group: str
    filter_groups: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffsetRequest(Header):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStatsDataRequest(Header):
    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True)
class GetBrokerConsumeStatsRequest(Header):
    is_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueRequest(Header):
    topic: str
    queue_id: int
    index: Long
    count: int
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class QueryTopicsByConsumerRequest(Header):
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionByConsumerRequest(Header):
    group: str
    topic: str
