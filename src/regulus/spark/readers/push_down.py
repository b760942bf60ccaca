"""What a query's WHERE spares a read: topics, queues, offsets, times and tags that cannot match are not read.

Spark applies every filter again to what is read, so that narrowing may be coarse but never wrong. It calls this only
where its own setting spark.sql.python.filterPushdown.enabled is on, and refuses the reader where it is off: hence an
option, `pushFilters`.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from regulus.spark.offsets import EARLIEST, LATEST
from regulus.spark.options import NoMatch, ReadOptions
from regulus.spark.read_plan import ReadRange
from regulus.spark.selection import TopicSelection

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_OFFSET_MAX = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What can match at most. None means all; ranges are [low, high), times in ms."""

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    offset_low: int = 0
    offset_high: int = _OFFSET_MAX
    time_low: int | None = None
    time_high: int | None = None


def narrowing(filters: Iterable[Filter]) -> Narrowing:
    """Of filters that must all hold; one that says nothing of these columns is passed over."""
    result = Narrowing()
    for each in filters:
        if isinstance(each, EqualTo | EqualNullSafe | In):
            values = list(each.value) if isinstance(each, In) else [each.value]
            result = _equal(result, each.attribute, values)
        elif isinstance(each, GreaterThan | GreaterThanOrEqual):
            result = _at_least(result, each.attribute, each.value, isinstance(each, GreaterThan))
        elif isinstance(each, LessThan | LessThanOrEqual):
            result = _below(result, each.attribute, each.value, isinstance(each, LessThanOrEqual))
    return result


def narrowed_options(options: ReadOptions, limits: Narrowing) -> ReadOptions:
    """The read that takes what `options` take and may match."""
    start, end = options.starting_timestamp, options.ending_timestamp
    # Where no match is to be an error, that is said of the time that the user gave, not of one in a WHERE.
    if limits.time_low is not None and options.starting_times is None and options.no_match is NoMatch.LATEST:
        # A time would take the place of offsets that the user gave, or a group has; those stand, and Spark filters.
        start = limits.time_low if start is None and options.starting_offsets == EARLIEST else \
            start if start is None else max(start, limits.time_low)
    if limits.time_high is not None and options.ending_times is None:
        end = limits.time_high if end is None and options.ending_offsets == LATEST else \
            end if end is None else min(end, limits.time_high)
    tags = options.tags
    if limits.tags is not None and not options.sql:
        tags = limits.tags if tags is None else tags & limits.tags
    return replace(options, starting_timestamp=start, ending_timestamp=end, tags=tags,
                   selection=_selection(options.selection, limits.topics))


def narrowed_range(part: ReadRange, limits: Narrowing) -> ReadRange:
    """What of a partition may match."""
    units = []
    for unit in part.units:
        start, end = max(unit.start, limits.offset_low), min(unit.end, limits.offset_high)
        if start < end and (limits.queue_ids is None or unit.queue_id in limits.queue_ids) \
                and (limits.topics is None or unit.topic in limits.topics):
            units.append(unit._replace(start=start, end=end))
    return replace(part, units=tuple(units))


class PushDownReader(DataSourceReader):
    """A reader of the table under its own names that reads less where the query's filters allow it."""

    def __init__(self, options: ReadOptions, make_inner: Callable[[ReadOptions], DataSourceReader]) -> None:
        self._options = options
        self._make_inner = make_inner
        self._limits = Narrowing()
        self._inner = make_inner(options)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """All are returned: Spark applies them once more."""
        self._limits = narrowing(filters)
        self._inner = self._make_inner(narrowed_options(self._options, self._limits))
        return filters

    def partitions(self) -> Any:
        parts: list[Any] = list(self._inner.partitions())
        for part in parts:
            if isinstance(part.part, ReadRange):    # files of an archive are chosen by the narrowed options alone
                part.part = narrowed_range(part.part, self._limits)
        # One stays, even when nothing can match, because Spark makes a partition None of none.
        return [part for part in parts if not isinstance(part.part, ReadRange) or part.part.units or part.part.gaps
                ] or parts[:1]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return iter(self._inner.read(partition))

    def __getstate__(self) -> dict[str, Any]:
        """For a task, which makes no readers."""
        return {"_inner": self._inner}


def _equal(result: Narrowing, attribute: tuple[str, ...], values: list[Any]) -> Narrowing:
    found = frozenset(value for value in values if value is not None)
    match attribute:
        case ("topic",):
            return replace(result, topics=_both(result.topics, found))
        case ("queue_id",):
            return replace(result, queue_ids=_both(result.queue_ids, found))
        case ("tags",) if found:
            return replace(result, tags=_both(result.tags, found))
        case ("queue_offset",) | ("store_time",) if found:
            result = _at_least(result, attribute, min(found), False)
            return _below(result, attribute, max(found), True)
    return result


def _at_least(result: Narrowing, attribute: tuple[str, ...], value: Any, is_above: bool) -> Narrowing:
    if attribute == ("queue_offset",):
        return replace(result, offset_low=max(result.offset_low, value + is_above))
    if attribute == ("store_time",):
        low = math.floor((value - _EPOCH).total_seconds() * 1000)
        return replace(result, time_low=low if result.time_low is None else max(low, result.time_low))
    return result


def _below(result: Narrowing, attribute: tuple[str, ...], value: Any, is_included: bool) -> Narrowing:
    if attribute == ("queue_offset",):
        return replace(result, offset_high=min(result.offset_high, value + is_included))
    if attribute == ("store_time",):
        high = math.floor((value - _EPOCH).total_seconds() * 1000) + 1
        return replace(result, time_high=high if result.time_high is None else min(high, result.time_high))
    return result


def _both(limit: frozenset[Any] | None, found: frozenset[Any]) -> frozenset[Any]:
    return found if limit is None else limit & found


def _selection(selection: TopicSelection, topics: frozenset[str] | None) -> TopicSelection:
    """Without the named topics that cannot match, as long as one is left; a pattern stays, and its partitions go."""
    if topics is None or selection.pattern is not None or selection.queues:
        return selection
    left = tuple(topic for topic in selection.topics if topic in topics)
    return TopicSelection(topics=left or selection.topics[:1])
