"""Rebuilds consume queues and index files from a commit log alone, as the broker would have built them.

    units      tasks over ranges of the log write each unit at queue offset * 20 (`task`); in the files that
               recovery checks, they sum bodies and find where the log ends
    again      queues of a topic that was deleted and created again are written once more, from the last restart on;
               and queues in which a record states a number that the records around it refute, without that record
    fillers    places of messages that are gone
    index      a task for each file, or for a part of one if there are fewer files than cores

The result is in a separate directory, byte for byte what a broker would have that ran from the log's first record on.
Moved to the place of `consumequeue` and `index` of a stopped store, it is used at the next start.
"""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from regulus.errors import ArchiveFailed, ConfigError, HeaderError, OptionError, StoreDamaged
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.local_path import address_fault
from regulus.pipeline import log_ranges
from regulus.pipeline.archive.task import disk_errors
from regulus.pipeline.index.task import (
    IndexTask,
    Piece,
    Stretch,
    UnitsFacts,
    UnitsTask,
    build_index_part,
    queue_directory,
    rebuild_units,
    staged_entries,
    write_fillers,
)
from regulus.pipeline.log_ranges import LogEnd
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.range_tasks import LocalTasks, Tasks, check_shared
from regulus.record import index_entry
from regulus.record.consume_queue_unit import UNIT_SIZE
from regulus.record.layout import FIXED_SIZE_V1
from regulus.spark.archive.manifest import TopicQueue
from regulus.spark.store import log_walk
from regulus.spark.store.files import CommitLogFiles, is_in_use
from regulus.wire import fastjson

Cut: TypeAlias = tuple[int, int]

ENTRIES_HERE_MAX = 4_000_000
"""Index entries up to which they are written in this process, because it takes less time than starting tasks."""

HOLE_MAX = 65_536
"""Messages that a queue may lack between two others, besides those that fit into bytes that are not records. A record
that is further ahead is rejected, because the hole would be filled with units."""

LOOK_STRETCHES = 64
"""Stretches among which the one is sought with which a queue continues after rotten numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildConfig:
    """The settings of a rebuild. File sizes are those of the broker, under its names."""

    store_path: str
    """Directory of the store, which is only read."""
    output: str
    """New or empty directory for the result."""
    message_delay_level: str = DEFAULT_LADDER
    """Delay levels of the broker."""
    mapped_file_size_consume_queue: int = 6_000_000
    """[bytes] Size of a file of a queue, which must be that of the broker."""
    max_hash_slot_num: int = 5_000_000
    """[slots] Hash slots of an index file."""
    max_index_num: int = 20_000_000
    """[entries] Entries of an index file."""
    message_index_enable: bool = True
    """Whether the index is rebuilt besides the queues."""
    range_size: int = 512 << 20
    """[bytes] Part of the log for each task, at most; less if otherwise some cores would have no task."""
    with_deleted_topics: bool = False
    """Whether queues of deleted topics are rebuilt as well."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for path in (self.store_path, self.output):
            if fault := address_fault(path):
                raise ConfigError(fault)
        if self.mapped_file_size_consume_queue <= 0 or self.mapped_file_size_consume_queue % UNIT_SIZE:
            raise ConfigError(f"mappedFileSizeConsumeQueue is {self.mapped_file_size_consume_queue}: it must be a "
                              f"multiple of {UNIT_SIZE}")
        if self.max_hash_slot_num < 1 or self.max_index_num < 2:
            raise ConfigError("maxHashSlotNum must be 1 or more, and maxIndexNum 2 or more")
        parse_ladder(self.message_delay_level)


@dataclass(slots=True, kw_only=True)
class RebuildReport:
    start: int
    end: int
    stop_reason: str = ""
    records: int = 0
    units: int = 0
    queues: int = 0
    skipped: int = 0
    rejected: int = 0
    """Records without a unit, because their queue offset or queue id rotted."""
    made_anew: int = 0
    """Queues of topics that were deleted and created again."""
    index_files: int = 0
    index_entries: int = 0
    deleted_topics: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        text = (f"log {self.start} to {self.end}: {self.records} records, {self.units} units in {self.queues} queues, "
                f"{self.index_entries} entries in {self.index_files} index files")
        if self.deleted_topics:
            text += f"; left out, as topics.json no longer has them: {', '.join(sorted(self.deleted_topics))}"
        if self.skipped:
            text += f"; {self.skipped} bytes were not records"
        if self.rejected:
            text += f"; {self.rejected} records rejected, as their queues do not have the numbers that they state"
        if self.made_anew:
            text += (f"; {self.made_anew} queues begin at a later place of the log, where their numbers begin again, "
                     "as their topics were deleted and created again")
        return text + (f"; the log ends there: {self.stop_reason}" if self.stop_reason else "")


def rebuild_index(tasks: Tasks, config: RebuildConfig, say: Say = say_nothing) -> RebuildReport:
    """Rebuild the index. After an error it removes what it has written.

    Raises OptionError for a running store or an output that is not empty, ArchiveFailed, StoreDamaged.
    """
    output = Path(config.output)
    if output.exists() and any(output.iterdir()):
        raise OptionError(f"{output} is not empty: give a new directory, whose content moves into the store afterwards")
    if is_in_use(config.store_path):
        raise OptionError(f"a broker is running on {config.store_path}: stop it first, or rebuild from a copy")
    log = log_ranges.open_log(config.store_path)
    with ExitStack() as undoing:
        undoing.callback(shutil.rmtree, output, ignore_errors=True)
        with disk_errors(output):
            check_shared(tasks, output)
        report = _rebuilt(tasks, config, log, say)
        undoing.pop_all()
    return report


def _rebuilt(tasks: Tasks, config: RebuildConfig, log: CommitLogFiles, say: Say) -> RebuildReport:
    say(f"writing the queues of {(log_walk.filled_end(log) - log.start) >> 20:,} MiB of log")
    cuts, facts, end = _units(tasks, config, log)
    log_ranges.refuse_newer(log, end.offset)
    report = RebuildReport(start=log.start, end=end.offset, stop_reason=end.reason)
    for part in facts:
        report.records += part.records
        report.units += part.units
        report.skipped += part.skipped
        report.rejected += part.rejected
        report.deleted_topics |= part.dropped_topics
    say(f"settling the queues of {report.records:,} records")
    _settle_queues(tasks, config, cuts, facts, report)
    if config.message_index_enable:
        say(f"building the index of {sum(part.entries for part in facts):,} keys")
        _build_index(tasks, config, facts, report)
    shutil.rmtree(Path(config.output) / "_entries", ignore_errors=True)
    return report


def _units(tasks: Tasks, config: RebuildConfig, log: CommitLogFiles) -> tuple[list[Cut], list[UnitsFacts], LogEnd]:
    """The ranges up to the log's end, the facts of each, and the end, which the tasks find.

    If a cut went through a record, its two ranges become one and everything is done again. This also happens if records
    were found after the end.
    """
    first_checked = log_ranges.recovery_start(config.store_path, log)
    check_from = log.pieces[first_checked].start if log.pieces else 0
    cuts = _cuts(config, log, tasks.parallelism)
    end = LogEnd(cuts[-1][1] if cuts else log.start, "")
    while True:
        facts = tasks.run(rebuild_units, [_task(config, part, part[0] >= check_from) for part in cuts])
        wrong = next((number for number, part in enumerate(facts) if part.reached > cuts[number][1]), len(cuts))
        ended = next((number for number, part in enumerate(facts) if part.log_end is not None), len(cuts))
        if wrong < ended:
            if wrong + 1 == len(cuts):
                raise ArchiveFailed(f"the record before {cuts[wrong][1]} reaches beyond the end of the log; no index "
                                    "was built")
            cuts[wrong:wrong + 2] = [(cuts[wrong][0], cuts[wrong + 1][1])]
        else:
            end = next((part.log_end for part in facts if part.log_end is not None), end)
            cuts = [(start, min(upto, end.offset)) for start, upto in cuts[:ended + 1]]
            if not any(part.records for part in facts[ended + 1:]):
                return cuts, facts[:ended + 1], end
        shutil.rmtree(config.output)


def _cuts(config: RebuildConfig, log: CommitLogFiles, parallelism: int) -> list[Cut]:
    """The ranges. The last one goes up to the end of its file; its task finds out where the records end."""
    end = log_walk.filled_end(log)
    cuts = log_ranges.cut(log, log.start, end, min(config.range_size, -(-(end - log.start) // parallelism) or 1))
    if cuts:
        start = cuts[-1][0]
        piece = log.piece_at(start)
        cuts[-1] = start, piece.start + piece.size
    return cuts


def _task(config: RebuildConfig, part: Cut, seeks_end: bool) -> UnitsTask:
    return UnitsTask(
        store_path=config.store_path, output=config.output, start=part[0], end=part[1],
        delays_ms=parse_ladder(config.message_delay_level), queue_file_size=config.mapped_file_size_consume_queue,
        with_index=config.message_index_enable, seeks_end=seeks_end,
        known_topics=None if config.with_deleted_topics else known_topics(config.store_path))


def known_topics(store_path: str) -> frozenset[str] | None:
    """The topics of config/topics.json; None when there is no such file. Raises StoreDamaged."""
    path = Path(store_path) / "config" / "topics.json"
    try:
        return frozenset(fastjson.loads(path.read_text(encoding="utf-8")).get("topicConfigTable") or ())
    except FileNotFoundError:
        return None
    except (ValueError, HeaderError, AttributeError) as error:
        raise StoreDamaged(f"{path} is not JSON: {error}") from error


# --- queues ----------------------------------------------------------------------------------------------------------


def _settle_queues(tasks: Tasks, config: RebuildConfig, cuts: Sequence[tuple[int, int]], facts: Sequence[UnitsFacts],
                   report: RebuildReport) -> None:
    """Write queues that began again, or with rotten numbers, once more, and all fillers."""
    queues = _joined(facts)
    lost_max = report.skipped // FIXED_SIZE_V1
    floors: dict[TopicQueue, int] = {}
    refused: dict[TopicQueue, tuple[tuple[int, int], ...]] = {}
    for key, stretches in queues.items():
        bad = rotten(stretches, holes_max=lost_max + HOLE_MAX, restart_max=lost_max)
        refuted = set(bad)
        restart = last_restart([stretch for stretch in stretches if stretch not in refuted])
        if bad:
            refused[key] = tuple((stretch.physical_offset, stretch.last_place) for stretch in bad)
            report.rejected += sum(stretch.messages for stretch in bad)
        if bad or restart is not None:
            floors[key] = restart or 0
        report.made_anew += restart is not None
    if floors:
        for key in floors:
            shutil.rmtree(queue_directory(config.output, *key))
        again = [replace(_task(config, part, False), floors=floors, refused=refused, with_index=False)
                 for part in cuts]
        written = _joined(tasks.run(rebuild_units, again))
        queues = {key: written[key] if key in floors else stretches for key, stretches in queues.items()}
    for key, stretches in queues.items():
        write_fillers(config.output, config.mapped_file_size_consume_queue, key, stretches)
    report.queues = len(queues)


def rotten(stretches: Sequence[Stretch], *, holes_max: int, restart_max: int) -> list[Stretch]:
    """The stretches of a queue, in the order of the log, whose numbers the others refute. No checksum covers a record's
    queue offset, and a single wrong one would look like a topic that was created again.

    A queue continues with the next number, or further ahead by no more messages than fit into the log there and than
    `holes_max`. A topic that was created again begins at `restart_max` or below. If two stretches contradict each
    other, the one with fewer messages is wrong.
    """
    bad: list[Stretch] = []
    kept: list[Stretch] = []
    number = 0
    while number < len(stretches):
        stretch = stretches[number]
        if not kept:
            kept.append(stretch)
        elif stretch.first != kept[-1].next and (wrong := _before_it_goes_on(kept[-1], stretches[number:])):
            bad += stretches[number:number + wrong]
            number += wrong
            continue
        elif _goes_on(kept[-1], stretch, holes_max):
            kept.append(stretch)
        elif stretch.first <= restart_max and stretch.first < kept[-1].next:
            kept = [stretch]
        else:
            wrong = next((count for count in range(1, len(kept)) if _goes_on(kept[-1 - count], stretch, holes_max)),
                         len(kept))
            if sum(each.messages for each in kept[-wrong:]) < stretch.messages:
                bad += kept[-wrong:]
                del kept[-wrong:]
                continue
            bad.append(stretch)
        number += 1
    return bad


def _before_it_goes_on(last: Stretch, following: Sequence[Stretch]) -> int:
    """How many stretches with wrong numbers there are before the queue continues as if they had the right ones; 0 when
    it does not."""
    passed = 0
    for number, stretch in enumerate(following[:LOOK_STRETCHES]):
        if number and stretch.first == last.next + passed:
            return number
        passed += stretch.messages
    return 0


def _goes_on(last: Stretch, stretch: Stretch, holes_max: int) -> bool:
    """Whether a queue may continue with that stretch."""
    room = (stretch.physical_offset - last.last_place) // FIXED_SIZE_V1
    return 0 <= stretch.first - last.next <= min(room, holes_max)


def _joined(facts: Sequence[UnitsFacts]) -> dict[TopicQueue, list[Stretch]]:
    """The stretches of each queue in the order of the log."""
    queues: dict[TopicQueue, list[Stretch]] = {}
    for part in facts:
        for key, stretches in part.stretches.items():
            queues.setdefault(key, []).extend(stretches)
    return queues


def last_restart(stretches: Sequence[Stretch]) -> int | None:
    """The place of the record with which the queue began again for the last time; None when it never did."""
    restart = None
    end = stretches[0].first
    for stretch in stretches:
        if stretch.first < end:
            restart = stretch.physical_offset
        end = stretch.next
    return restart


# --- index -----------------------------------------------------------------------------------------------------------


def _build_index(tasks: Tasks, config: RebuildConfig, facts: Sequence[UnitsFacts], report: RebuildReport) -> None:
    if sum(part.entries for part in facts) <= ENTRIES_HERE_MAX:
        tasks = LocalTasks()
    staged = [Piece(str(staged_entries(config.output, part.start)), 0, part.entries) for part in facts]
    files = index_pieces(staged, config.max_index_num - 1)
    wanted = []
    name, end_timestamp = "", 0
    for pieces in files:
        name = index_entry.file_name(pieces[0].store_timestamp(0), name)
        whole = IndexTask(path=str(Path(config.output) / "index" / name), before=(), pieces=tuple(pieces), is_last=True,
                          end_before=end_timestamp, slots=config.max_hash_slot_num, entries_max=config.max_index_num)
        wanted += index_parts(whole, -(-tasks.parallelism // len(files)))
        end_timestamp = pieces[-1].store_timestamp(pieces[-1].entries - 1)
    report.index_entries = sum(tasks.run(build_index_part, wanted))
    report.index_files = len(files)


def index_pieces(staged: Sequence[Piece], entries_a_file: int) -> list[list[Piece]]:
    """The entries of each index file: `entries_a_file` each, fewer in the last one."""
    files: list[list[Piece]] = []
    room = 0
    for path, first, count in staged:
        end = first + count
        while first < end:
            if not room:
                files.append([])
                room = entries_a_file
            taken = min(room, end - first)
            files[-1].append(Piece(path, first, taken))
            first += taken
            room -= taken
    return files


def index_parts(whole: IndexTask, parts: int) -> list[IndexTask]:
    """The task of a file, divided into at most `parts` tasks."""
    pieces = index_pieces(whole.pieces, -(-sum(piece.entries for piece in whole.pieces) // parts))
    return [replace(whole, before=tuple(chain.from_iterable(pieces[:number])), pieces=tuple(part),
                    is_last=number + 1 == len(pieces)) for number, part in enumerate(pieces)]
