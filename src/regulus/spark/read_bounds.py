"""Decides where the read of each queue starts and ends, from the options and from what the queues have. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.kafka_partitions import check_brokers
from regulus.spark.marks import Mark
from regulus.spark.offsets import EARLIEST, GROUP_OFFSET, LATEST, QueueOffsets, at_brokers, check_queues
from regulus.spark.options import NoMatch, OnDataLoss, ReadOptions
from regulus.spark.read_plan import Gap, Missing, UnitRange
from regulus.spark.selection import queue_text
from regulus.spark.task_parts import Part

Sizes: TypeAlias = Mapping[MessageQueue, int]
"""Bytes of a message by queue, on average."""

LOSSES_NAMED_MAX = 5
"""Losses that the text of an error names; of more, it has the number."""


class QueueState(NamedTuple):
    """A queue holds [low, high). `topic_epoch` distinguishes a topic from an earlier one of its name; 0 when unknown.

    A broker's epoch is a time in ms. An archive's is below 0 and is a place in the log. They cannot be compared.
    """

    low: int
    high: int
    topic_epoch: int
    missing: Missing | None = None
    """What is lost after `high`, if a store's files show it."""
    missing_before: "Missing | None" = None
    """What is lost before `low`, though retention had not removed it."""

    def gap_before(self, queue: MessageQueue) -> Gap | None:
        """The gap of what is lost before the beginning; None when nothing is."""
        lost = self.missing_before
        return None if lost is None else Gap(queue, lost.first, self.low, f"because {lost.cause}")

    def gap(self, queue: MessageQueue) -> Gap | None:
        """The gap of what is lost after the end; None when nothing is."""
        lost = self.missing
        return None if lost is None else Gap(queue, self.high, max(self.high + 1, lost.next), f"because {lost.cause}")


class Place(Protocol):
    """A place of queues: running brokers, the files of a store, or an archive."""

    def queues(self) -> list[MessageQueue]:
        """The queues that the options select, sorted. Raises OptionError for a topic or queue that is not there."""

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]: ...

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first message stored at or after a time in ms; the end of the queue if there is none."""

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The offset at which the options' consumer group continues; None in queues that it never read."""

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """The mark of the message at an offset of each queue; no entry if it cannot be read."""

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """Bytes of a message of each range, on average."""

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> Sequence[Part]:
        """What each task reads. With `sizes`, which a stream's batch has, the tasks and the order of their rows depend
        only on the ranges, the sizes and the options, even if the place has changed meanwhile."""

    def close(self) -> None: ...


class Bounds(NamedTuple):
    """The ranges to read, and the gaps that cannot be read."""

    ranges: list[UnitRange]
    gaps: list[Gap]


def batch_bounds(options: ReadOptions, place: Place) -> Bounds:
    """The bounds of a batch read. Raises OptionError, and DataLoss for lost messages, if the options say so."""
    queues = place.queues()
    states = place.states(queues)
    starts, gaps = starting_offsets(options, place, queues, states, is_stream=False)
    ends, beyond = _ending_offsets(options, place, queues, states)
    ranges = [UnitRange(queue.topic, queue.queue_id, starts[queue], ends[queue], queue.broker_name,
                        states[queue].topic_epoch) for queue in queues if starts[queue] < ends[queue]]
    return Bounds(ranges, [*gaps, *beyond])


def starting_offsets(options: ReadOptions, place: Place, queues: Sequence[MessageQueue],
                     states: Mapping[MessageQueue, QueueState], *, is_stream: bool) -> tuple[QueueOffsets, list[Gap]]:
    """The start of each queue, and gaps of what should be read before it. Raises OptionError, DataLoss."""
    if options.kafka_schema:
        check_brokers(queues)
    times = starting_times(options, queues)
    wanted = _of_each(options, options.starting_offsets, queues, "startingOffsets") if len(times) < len(queues) else {}
    asked_groups = [queue for queue, offset in wanted.items() if offset == GROUP_OFFSET]
    if asked_groups and not options.consumer_group:
        raise OptionError(f"startingOffsets is -3 (the group's offset) for {queue_text(asked_groups[0])}: option "
                          "'consumerGroup' must name the group, which running brokers know")
    groups = place.group_offsets(asked_groups) if asked_groups else {}
    found = place.offsets_at(times) if times else {}
    starts: QueueOffsets = {}
    gaps: list[Gap] = []
    for queue in queues:
        state = states[queue]
        if queue in found:
            starts[queue] = min(max(found[queue], state.low), state.high)
            check_match(options, queue, starts[queue], state)
            gaps += _lost_before(queue, starts[queue], state)
            continue
        offset = wanted[queue]
        if offset == GROUP_OFFSET:
            kept = groups[queue]
            offset = kept if kept is not None else LATEST if is_stream else EARLIEST
        elif offset == LATEST and not is_stream:
            raise OptionError("startingOffsets of a batch read cannot be -1 (latest), as it is for "
                              f"{queue_text(queue)}")
        starts[queue] = _start(offset, state)
        if offset >= 0:
            gaps += missing_before(queue, offset, state)
        elif offset == EARLIEST:
            gaps += _lost_before(queue, starts[queue], state)
    return starts, to_report(gaps, options.on_data_loss)


def missing_before(queue: MessageQueue, offset: int, state: QueueState) -> list[Gap]:
    """The gap from `offset` on, if messages are gone from the place that is to be read next."""
    if offset < state.low:
        return [Gap(queue, offset, state.low, f"no longer kept: the first message there is {state.low}")]
    if offset > state.high:
        return [Gap(queue, state.high, offset, f"the queue ends at {state.high}, before {offset}, which was to be "
                                               "read next: was the topic created again?")]
    return []


def _lost_before(queue: MessageQueue, start: int, state: QueueState) -> list[Gap]:
    """The gap before the first message, if a read begins with that message."""
    lost = state.gap_before(queue) if start == state.low else None
    return [] if lost is None else [lost]


def named(losses: Sequence[str]) -> str:
    """The first losses for an error's text, and the number of the others."""
    others = len(losses) - LOSSES_NAMED_MAX
    return "; ".join(losses[:LOSSES_NAMED_MAX]) + (f"; and {others} more" if others > 0 else "")


def data_loss(gaps: Sequence[Gap]) -> DataLoss:
    """The error for gaps, with the remedy."""
    return DataLoss(f"{named([str(gap) for gap in gaps])}; set failOnDataLoss to false (of a command: give "
                    "--accept-gaps) to continue without, or to report to have a row for it")


def to_report(gaps: Sequence[Gap], on_data_loss: OnDataLoss) -> list[Gap]:
    """The gaps that get a row. Raises DataLoss for all of them when the read is to fail."""
    if gaps and on_data_loss is OnDataLoss.FAIL:
        raise data_loss(gaps)
    return list(gaps) if on_data_loss is OnDataLoss.REPORT else []


def _start(offset: int, state: QueueState) -> int:
    if offset == LATEST:
        return state.high
    return min(max(offset, state.low), state.high)


def _ending_offsets(options: ReadOptions, place: Place, queues: Sequence[MessageQueue],
                    states: Mapping[MessageQueue, QueueState]) -> tuple[QueueOffsets, list[Gap]]:
    times = ending_times(options, queues)
    wanted = _of_each(options, options.ending_offsets, queues, "endingOffsets") if len(times) < len(queues) else {}
    found = place.offsets_at(times) if times else {}
    ends: QueueOffsets = {}
    gaps: list[Gap] = []
    for queue in queues:
        state = states[queue]
        offset = found.get(queue, wanted.get(queue, LATEST))
        if queue not in found and offset < LATEST:
            raise OptionError(f"endingOffsets cannot be {offset}, as it is for {queue_text(queue)}: write an offset or "
                              "-1, the latest")
        ends[queue] = state.high if offset == LATEST else min(max(offset, state.low), state.high)
        if offset > state.high:
            gaps.append(Gap(queue, state.high, offset, f"the queue ends at {state.high}, before {offset}, where the "
                                                       "read was to end"))
        elif ends[queue] == state.high and (lost := state.gap(queue)) is not None:
            gaps.append(lost)
    return ends, to_report(gaps, options.on_data_loss)


def check_match(options: ReadOptions, queue: MessageQueue, start: int, state: QueueState) -> None:
    """Raises OptionError when no message is as late as the starting time, and the options make that an error."""
    if start == state.high and options.no_match is NoMatch.ERROR:
        raise OptionError(f"{queue_text(queue)} has no message stored at or after its starting time; set "
                          "startingOffsetsByTimestampStrategy to latest to begin at its end")


def starting_times(options: ReadOptions, queues: Collection[MessageQueue]) -> QueueOffsets:
    """The time at which the read of each queue begins; empty if offsets decide. Raises OptionError."""
    return _times_of(options, options.starting_times, options.starting_timestamp, queues, "startingOffsetsByTimestamp")


def ending_times(options: ReadOptions, queues: Collection[MessageQueue]) -> QueueOffsets:
    """The time at which the read of each queue ends; empty if offsets decide. Raises OptionError."""
    return _times_of(options, options.ending_times, options.ending_timestamp, queues, "endingOffsetsByTimestamp")


def _times_of(options: ReadOptions, times: QueueOffsets | None, time: int | None, queues: Collection[MessageQueue],
              option: str) -> QueueOffsets:
    """The time of each queue. One time for all overrides those for each, as in Spark's Kafka source."""
    if time is not None:
        return dict.fromkeys(queues, time)
    return {} if times is None else _of_each(options, times, queues, option)


def _of_each(options: ReadOptions, offsets: QueueOffsets | int, queues: Collection[MessageQueue],
             option: str) -> QueueOffsets:
    if isinstance(offsets, int):
        return dict.fromkeys(queues, offsets)
    placed = at_brokers(offsets, queues, option, by_partition=options.kafka_schema)
    check_queues(placed, queues, option)
    return placed
