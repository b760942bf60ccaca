"""The index rebuild: consume queues and index files from a commit log alone, as the broker would have built them.

    units      tasks over ranges of the log write each unit at queue offset * 20 (index_task); in the files that
               recovery checks, they sum bodies and find where the log ends
    anew       queues of a topic that was deleted and made again are written once more, from the last restart on
    fillers    places of messages that are gone
    index      a task for each file, or for a part of one where files are fewer than cores

The result lies in a directory of its own, byte for byte what a broker has that ran from the log's first record on;
moved into the place of `consumequeue` and `index` of a stopped store, it is taken up at the next start.
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
from regulus.spark.archive.manifest import TopicQueue
from regulus.spark.store import log_walk
from regulus.spark.store.files import CommitLogFiles, is_in_use
from regulus.wire import fastjson

Cut: TypeAlias = tuple[int, int]

ENTRIES_HERE_MAX = 4_000_000
"""Up to this many index entries are in place before tasks would have started: they are made in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildConfig:
    """File sizes are those of the broker, under its names; `output` is a new or empty directory.

    `range_size`: bytes of log a task, at most; fewer where all cores have less than that.
    """

    store_path: str
    output: str
    message_delay_level: str = DEFAULT_LADDER
    mapped_file_size_consume_queue: int = 6_000_000
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True
    range_size: int = 512 << 20
    with_deleted_topics: bool = False

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
    made_anew: int = 0
    """Queues of topics that were deleted and made again."""
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
        return text + (f"; the log ends there: {self.stop_reason}" if self.stop_reason else "")


def rebuild_index(tasks: Tasks, config: RebuildConfig, say: Say = say_nothing) -> RebuildReport:
    """Raises OptionError for a running store or an output that is not empty, ArchiveFailed, StoreDamaged.

    What was written until then is removed.
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

    Where a cut went through a record, its two ranges become one and all is done again; as it is when records were found
    behind the end.
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
    """The ranges, the last one up to the end of its file: how much of that has records, its task will see."""
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
        raise StoreDamaged(f"{path} is no JSON: {error}") from error


# --- queues ----------------------------------------------------------------------------------------------------------


def _settle_queues(tasks: Tasks, config: RebuildConfig, cuts: Sequence[tuple[int, int]], facts: Sequence[UnitsFacts],
                   report: RebuildReport) -> None:
    """Write queues that began anew once more, and all fillers."""
    queues = _joined(facts)
    floors = {key: restart for key, stretches in queues.items() if (restart := last_restart(stretches)) is not None}
    if floors:
        for key in floors:
            shutil.rmtree(queue_directory(config.output, *key))
        again = [replace(_task(config, part, False), floors=floors, with_index=False) for part in cuts]
        queues |= _joined(tasks.run(rebuild_units, again))
    for key, stretches in queues.items():
        write_fillers(config.output, config.mapped_file_size_consume_queue, key, stretches)
    report.queues = len(queues)
    report.made_anew = len(floors)


def _joined(facts: Sequence[UnitsFacts]) -> dict[TopicQueue, list[Stretch]]:
    """The stretches of each queue in the order of the log."""
    queues: dict[TopicQueue, list[Stretch]] = {}
    for part in facts:
        for key, stretches in part.stretches.items():
            queues.setdefault(key, []).extend(stretches)
    return queues


def last_restart(stretches: Sequence[Stretch]) -> int | None:
    """Where the record lies with which the queue began anew for the last time; None when it never did."""
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
    """Which entries make up which index file, of so many entries each, the last one of fewer."""
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
