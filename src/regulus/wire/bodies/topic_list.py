"""Lists and tables: 28, 38, 206, 219, 224, 300, 304, 305, 311 to 313, 343.

Source: TopicList, KVTable, GroupList, GetConsumerListByGroupResponseBody.
"""

from dataclasses import dataclass, field

from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList(JsonBody):
    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTable(JsonBody):
    table: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList(JsonBody):
    group_list: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerListByGroupResponseBody(JsonBody):
    consumer_id_list: list[str] = field(default_factory=list)
