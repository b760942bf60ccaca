"""Compacts and expires an archive: whole manifests are replaced or removed, never parts of one.

Neighbouring small ranges of a broker become one: its files hold the rows of theirs, and have the names and bytes that
archiving that range at once would have given. Once the new manifest is there it supersedes the small ones; a reader
sees the one or the others, never both. Superseded files stay for a while, for queries that planned with them, and a
later run removes them. Each file is compared with its manifest before it is joined with others, because damaged bytes
would get a new checksum that fits them, and the manifest that shows the damage would be removed.

Only days that are over are compacted, so that files that still grow are not written again and again.

A topic that is deleted and created again begins in a range, whose start is the topic's epoch for streams over the
archive. That range stays the first one of those with which it is joined. So the epoch of a running stream does not
change, and messages of both topics never come into one range, in which they could not be distinguished.

Expiry removes the oldest manifests of a broker whose days are all past the kept ones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from regulus.errors import ArchiveFailed
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive.files import ArchiveLock, Step
from regulus.pipeline.archive.parquet import BATCH_ROWS, StagedFile, row_groups, write_row_groups
from regulus.pipeline.archive.run import WAVE_TASKS, Catalog
from regulus.pipeline.archive.task import day_text, disk_errors
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.range_tasks import Tasks, check_shared
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import (
    ArchivedFile,
    Manifest,
    QueueFacts,
    Range,
    RejectFile,
    Stretch,
    TopicQueue,
    data_path,
    effective,
    manifest_path,
    ranges,
    rejects_path,
)
from regulus.spark.columns.records import arrow_schema
from regulus.spark.table_schema import COLUMNS

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactConfig:
    """The settings of a compaction run."""

    archive_path: str
    """Directory of the archive."""
    range_size: int = 256 << 20
    """[bytes] Part of the log that a compacted range has at most. More makes fewer and larger files."""
    keep_superseded_ms: int = 3_600_000
    """[ms] How long replaced files stay for readers that began before. Set it longer than any read takes."""
    expire_after_days: int = 0
    """[days] Age at which messages are removed from the archive. 0 keeps everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    archive: str
    staging: str
    range: Range
    manifests: tuple[Manifest, ...]

    @property
    def size(self) -> int:
        return self.range.size


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactFacts:
    manifest: Manifest
    moves: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class CompactReport:
    compacted: list[Range] = field(default_factory=list)
    replaced: int = 0
    """Manifests that were joined with others."""
    removed: list[str] = field(default_factory=list)
    """Files of superseded and expired ranges that were removed."""
    expired: list[Range] = field(default_factory=list)

    def __str__(self) -> str:
        return (f"{self.replaced} ranges became {len(self.compacted)}, {len(self.expired)} expired, "
                f"{len(self.removed)} files removed")


def compact(tasks: Tasks, config: CompactConfig, run: str, now_ms: int, catalog: Catalog | None,
            step: Step, say: Say = say_nothing) -> CompactReport:
    """Run a compaction. Raises ArchiveLocked, ArchiveFailed, OptionError."""
    archive = archive_manifest.place(config.archive_path)
    archive_manifest.load(archive)
    report = CompactReport()
    with ArchiveLock(archive, archive_files.owner_text("archive compact")):
        archive_files.sweep(archive)
        try:
            # The catalog lacks the last commit of a run that was killed before it updated the catalog.
            _show(archive, catalog, step)
            _remove_superseded(archive, config, now_ms, report, step)
            _expire(archive, config, now_ms, catalog, report, step)
            groups = plan_groups(archive_manifest.load(archive), config.range_size, day_text(now_ms))
            staging = str(archive_files.staging_of(archive, run))
            wanted = [CompactTask(archive=str(archive), staging=staging, manifests=tuple(group),
                                  range=_spanned(group)) for group in groups]
            if wanted:
                with disk_errors(archive):
                    check_shared(tasks, Path(staging))
                say(f"making {len(groups)} ranges of {sum(map(len, groups))}: "
                    f"{sum(task.size for task in wanted) >> 20:,} MiB of log")
            for number in range(0, len(wanted), WAVE_TASKS * tasks.parallelism):
                step("tasks")
                some = wanted[number:number + WAVE_TASKS * tasks.parallelism]
                for facts, task in zip(tasks.run(compact_range, some), some, strict=True):
                    archive_files.commit(archive, facts.manifest, facts.moves, run, step)
                    _show(archive, catalog, step)
                    report.compacted.append(task.range)
                    report.replaced += len(task.manifests)
        finally:
            archive_files.sweep(archive)
    return report


# --- which -----------------------------------------------------------------------------------------------------------


def plan_groups(manifests: Sequence[Manifest], range_size: int, today: str) -> list[list[Manifest]]:
    """Groups of two or more neighbours of days before today that together have at most `range_size` bytes of log.

    A range in which a topic begins again begins a group. `manifests` are all of the archive, because a queue's end may
    be in one that is not in any group.
    """
    groups: list[list[Manifest]] = []
    for _, of_broker in groupby(manifests, key=lambda manifest: manifest.range.broker_name):
        group: list[Manifest] = []
        ends: dict[TopicQueue, int] = {}
        for manifest in of_broker:
            joins = bool(group) and group[-1].range.end == manifest.range.start
            fits = joins and manifest.range.end - group[0].range.start <= range_size
            if not fits or _begins_anew(manifest, ends):
                groups.append(group)
                group = []
            ends.update((queue, stretches[-1].next) for queue, stretches in manifest.queues.items())
            if any(file.day >= today for file in manifest.files) or _is_mixed(manifest):
                groups.append(group)
                group = []
                continue
            group.append(manifest)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _begins_anew(manifest: Manifest, ends: Mapping[TopicQueue, int]) -> bool:
    """Whether a queue begins below its former end, so that its topic was deleted and created again."""
    return any(stretches[0].first < ends.get(queue, 0) for queue, stretches in manifest.queues.items())


def _is_mixed(manifest: Manifest) -> bool:
    """Whether a topic was created again in the middle of the range. Joined with others, their messages would be
    mixed."""
    return any(later.first < earlier.next for stretches in manifest.queues.values()
               for earlier, later in pairwise(stretches))


def _spanned(group: Sequence[Manifest]) -> Range:
    return Range(group[0].range.broker_name, group[0].range.start, group[-1].range.end)


def _show(archive: Path, catalog: Catalog | None, step: Step) -> None:
    if catalog is not None:
        step("catalog")
        catalog.show(archive_manifest.load(archive))


def _remove_superseded(archive: Path, config: CompactConfig, now_ms: int, report: CompactReport, step: Step) -> None:
    """Remove superseded ranges whose successor is so old that no query reads them any more."""
    present = ranges(archive)
    kept = effective(present)
    for part in present:
        over = next((other for other in kept if other != part and other.contains(part)), None)
        if over is None:
            continue
        made_ms = (archive / manifest_path(over)).stat().st_mtime_ns // 1_000_000
        if now_ms - made_ms >= config.keep_superseded_ms:
            report.removed += archive_files.remove(archive, [part], step)


def _expire(archive: Path, config: CompactConfig, now_ms: int, catalog: Catalog | None, report: CompactReport,
            step: Step) -> None:
    if not config.expire_after_days:
        return
    manifests = archive_manifest.load(archive)
    oldest = day_text(now_ms - config.expire_after_days * DAY_MS)
    for _, of_broker in groupby(manifests, key=lambda manifest: manifest.range.broker_name):
        # The last one always stays: it says where the archive continues, and where the queues end.
        for manifest in list(of_broker)[:-1]:
            if any(file.day >= oldest for file in manifest.files):
                break
            report.expired.append(manifest.range)
    if report.expired and catalog is not None:
        # Remove them from the table first, so that a killed run never leaves a table with files that are gone.
        step("catalog")
        catalog.show([manifest for manifest in manifests if manifest.range not in report.expired])
    gone = [part for part in ranges(archive) if any(expired.contains(part) for expired in report.expired)]
    report.removed += archive_files.remove(archive, gone, step)


# --- a task ----------------------------------------------------------------------------------------------------------


def compact_range(task: CompactTask, attempt: str) -> CompactFacts:
    """Stage the files of the joined range. Raises ArchiveFailed when the disk is full or a file has changed."""
    target = Path(task.staging) / task.range.text / attempt
    parts: dict[tuple[str, str], list[ArchivedFile]] = {}
    for manifest in task.manifests:
        for file in manifest.files:
            parts.setdefault((file.topic, file.day), []).append(file)
    with disk_errors(target), ThreadPoolExecutor(1) as follower:
        target.mkdir(parents=True)
        outputs: list[StagedFile] = []
        for sources in (parts[key] for key in sorted(parts)):
            with StagedFile(target / f"{len(outputs)}.parquet", follower) as output:
                write_row_groups(output, arrow_schema(tuple(COLUMNS)), _merged(Path(task.archive), sources))
            outputs.append(output)
        rejects = _join_rejects(task, target, follower)
        files = [_joined_file(task.range, parts[key], output)
                 for key, output in zip(sorted(parts), outputs, strict=True)]
    moves = [(str(output.path), file.path) for output, file in zip(outputs, files, strict=True)]
    if rejects is not None:
        moves.append((str(target / "rejects.jsonl"), rejects.path))
    manifests = task.manifests
    return CompactFacts(moves=tuple(moves), manifest=Manifest(
        range=task.range, records=sum(manifest.records for manifest in manifests),
        rows=sum(manifest.rows for manifest in manifests), hidden=sum(manifest.hidden for manifest in manifests),
        rejected=sum(manifest.rejected for manifest in manifests),
        unreadable=sum(manifest.unreadable for manifest in manifests),
        unplaced=sum(manifest.unplaced for manifest in manifests), queues=joined_stretches(manifests),
        files=tuple(files), rejects=rejects))


def _merged(archive: Path, sources: Sequence[ArchivedFile]) -> Iterator[pa.Table]:
    """The rows of the files in order, grouped as if they had been archived at once."""
    tables = []
    for file in sources:
        _check_file(archive, file)
        with pq.ParquetFile(archive / file.path) as source:
            tables.append(source.read(use_threads=False))
    order = np.lexsort((_column(tables, "physical_offset"), _column(tables, "queue_offset"),
                        _column(tables, "queue_id")))
    whole = pa.concat_tables(tables)
    sizes = _column(tables, "store_size").astype(np.int64)[order]
    for group in row_groups(sizes):
        rows = order[group]
        yield pa.Table.from_batches(
            [whole.take(pa.array(rows[at:at + BATCH_ROWS])).combine_chunks().to_batches()[0]
             for at in range(0, len(rows), BATCH_ROWS)])


def _check_file(archive: Path, file: ArchivedFile | RejectFile) -> None:
    """Raises ArchiveFailed when the file differs from its manifest."""
    if fault := archive_files.fault_of(archive, file):
        raise ArchiveFailed(f"{archive}: {fault}: bring the file back from a copy; until then its range, and those "
                            "that were to be joined with it, stay as they are")


def _joined_file(part: Range, sources: Sequence[ArchivedFile], output: StagedFile) -> ArchivedFile:
    size, sha256 = output.finish()
    topic, day = sources[0].topic, sources[0].day
    return ArchivedFile(path=data_path(part, topic, day), topic=topic, day=day,
                        rows=sum(file.rows for file in sources), size=size, sha256=sha256,
                        log_bytes=sum(file.log_bytes for file in sources), queues=_joined_facts(sources))


def _column(tables: Sequence[pa.Table], name: str) -> Any:
    return np.concatenate([table.column(name).to_numpy() for table in tables])


def _joined_facts(sources: Sequence[ArchivedFile]) -> dict[int, QueueFacts]:
    facts: dict[int, QueueFacts] = {}
    for file in sources:
        for queue_id, more in file.queues.items():
            known = facts.get(queue_id, more._replace(rows=0))
            facts[queue_id] = QueueFacts(
                min(known.first, more.first), max(known.next, more.next), known.rows + more.rows,
                min(known.time_first, more.time_first), max(known.time_last, more.time_last))
    return dict(sorted(facts.items()))


def joined_stretches(manifests: Iterable[Manifest]) -> dict[TopicQueue, tuple[Stretch, ...]]:
    """The stretches of neighbouring ranges."""
    stretches: dict[TopicQueue, list[Stretch]] = {}
    for manifest in manifests:
        for queue, more in manifest.queues.items():
            stretches.setdefault(queue, []).extend(more)
    return {queue: archive_manifest.joined(parts) for queue, parts in stretches.items()}


def _join_rejects(task: CompactTask, target: Path, follower: ThreadPoolExecutor) -> RejectFile | None:
    sources = [manifest.rejects for manifest in task.manifests if manifest.rejects is not None]
    if not sources:
        return None
    with StagedFile(target / "rejects.jsonl", follower) as output:
        for source in sources:
            _check_file(Path(task.archive), source)
            output.sink.write((Path(task.archive) / source.path).read_bytes())
    size, sha256 = output.finish()
    return RejectFile(path=rejects_path(task.range), size=size, sha256=sha256)
