"""A broker's record of SQL92 subscriptions: consumerFilter.json, and the `filterData` of QUERY_CONSUME_QUEUE.

Source: ConsumerFilterManager, ConsumerFilterData, BloomFilterData.
"""

from dataclasses import dataclass, field

from regulus.wire import fastjson
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFilterData(JsonBody):
    """The bits of a group in the bit maps that messages may be stored with."""

    bit_num: int = 0
    bit_pos: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFilterData(JsonBody):
    """One SQL92 subscription of a group.

    Times in ms. `born_time`: since when the group has this expression; `dead_time`: when its last consumer left, and
    before `born_time` while there is a consumer. `client_version` is the version of the subscription.
    """

    consumer_group: str
    topic: str
    expression: str
    expression_type: str
    born_time: int
    dead_time: int = 0
    client_version: int = 0
    bloom_filter_data: BloomFilterData | None = None

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time

    def text(self, depth: int = 0) -> str:
        """The JSON text as RocketMQ writes it, `depth` levels within a document."""
        members = [f'"bornTime":{self.born_time}', f'"clientVersion":{self.client_version}',
                   f'"consumerGroup":{fastjson.quote(self.consumer_group)}', f'"dead":{str(self.is_dead).lower()}',
                   f'"deadTime":{self.dead_time}', f'"expression":{fastjson.quote(self.expression)}',
                   f'"expressionType":{fastjson.quote(self.expression_type)}', f'"topic":{fastjson.quote(self.topic)}']
        if (bloom := self.bloom_filter_data) is not None:
            # A list of numbers is written on one line.
            positions = ",".join(map(str, bloom.bit_pos))
            within = _object([f'"bitNum":{bloom.bit_num}', f'"bitPos":[{positions}]'], depth + 1)
            members.insert(0, f'"bloomFilterData":{within}')
        return _object(members, depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilters(JsonBody):
    """The subscriptions of one topic, by consumer group."""

    topic: str = ""
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)

    def text(self, depth: int) -> str:
        groups = [f"{fastjson.quote(group)}:{data.text(depth + 2)}"
                  for group, data in sorted(self.group_filter_data.items())]
        return _object([f'"groupFilterData":{_object(groups, depth + 1)}', f'"topic":{fastjson.quote(self.topic)}'],
                       depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFilterWrapper(JsonBody):
    filter_data_by_topic: dict[str, TopicFilters] = field(default_factory=dict)


def _object(members: list[str], depth: int) -> str:
    line = "\n" + "\t" * (depth + 1)
    return f"{{{line}{f',{line}'.join(members)}{line[:-1]}}}" if members else "{}"
