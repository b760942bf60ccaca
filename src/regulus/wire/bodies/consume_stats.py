"""Progress of groups and size of topics: 202, 208, 317.

Source: ConsumeStats, OffsetWrapper, ConsumeStatsList, TopicStatsTable, TopicOffset.
"""

from dataclasses import dataclass, field

from regulus.model.message_queue import MessageQueue
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWrapper(JsonBody):
    """`last_timestamp`: store time in ms of the last consumed message, 0 when none."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int | None = None
    last_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats(JsonBody):
    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsList(JsonBody):
    """`consume_stats_list`: per group one map with a list of one ConsumeStats per topic."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffset(JsonBody):
    """`max_offset` is the next to be written; `last_update_timestamp` in ms, 0 for an empty queue."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatsTable(JsonBody):
    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None
