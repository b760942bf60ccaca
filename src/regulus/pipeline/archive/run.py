"""The archive job: a broker's commit log becomes Parquet files, each message once.

    with the archive's lock
        sweep what a killed run left
        from the last manifest's end up to what is surely on disk, in waves of ranges
            tasks    each stages the files of one range (`task`)
            check    ranges, queue offsets and consume queues agree (`check`)
            commit   move, then the manifest, range by range (`files`)
            Iceberg  add the files to the table, one snapshot a range
            gate     report to the broker up to where its log is archived

Before its commit nothing of a range is visible, and a killed run leaves only files that the next one sweeps. After the
commit it is there for good: if a run is killed before Iceberg and the gate are updated, the next run updates them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from regulus.errors import DataLoss, OptionError
from regulus.model.delay_level import parse_ladder
from regulus.pipeline import log_ranges
from regulus.pipeline.archive import check as archive_check
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive.check import QueueEnds
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.files import ArchiveLock, Step
from regulus.pipeline.archive.task import RangeFacts, RangeTask, archive_range, disk_errors
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.range_tasks import Tasks, check_shared
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import Manifest, Range, TopicQueue
from regulus.spark.store.files import ConsumeQueueFiles, is_in_use

WAVE_TASKS = 8
"""Ranges per core that are archived between two commits."""


class Gate(Protocol):
    """What the job needs from the running broker."""

    @property
    def flushed_offset(self) -> int: ...

    @property
    def message_delay_level(self) -> str: ...

    def begin(self, identity: str) -> None:
        """Raises OptionError when the broker's gate waits for another archive."""

    def archived(self, physical_offset: int, identity: str) -> None:
        """Report that the log is archived up to there, in the archive with this identity."""


class Catalog(Protocol):
    """A catalog of tables that shows the files."""

    def show(self, manifests: Sequence[Manifest]) -> None:
        """Show the files of these manifests, which are all that count, and no others."""


@dataclass(slots=True, kw_only=True)
class ArchiveReport:
    """The result of a run. Offsets are bytes of the log."""

    broker_name: str
    start: int
    end: int
    log_end: int
    stop_reason: str = ""
    """Why the log ends there, if something other than zeros follows."""
    units_behind: int = 0
    """Units of consume queues that point at or after the log's end, so that their messages are not archived."""
    lost_before: int = 0
    """Bytes that were removed from the log before they could be archived."""
    swept: int = 0
    ranges: list[Range] = field(default_factory=list)
    records: int = 0
    rows: int = 0
    hidden: int = 0
    rejected: int = 0
    files: int = 0
    bytes_written: int = 0

    def __str__(self) -> str:
        text = (f"{self.broker_name}: log {self.start} to {self.end} archived, {self.rows} rows in {self.files} files, "
                f"{self.bytes_written} bytes")
        behind = f"units of consume queues point behind the log's end at {self.log_end}"
        for count, what in ((self.hidden, "hidden"), (self.rejected, "rejected"),
                            (self.lost_before, "bytes lost before the start"),
                            (self.units_behind, behind),
                            (self.swept, "leftovers of a killed run removed")):
            text += f", {count} {what}" if count else ""
        return text + (f"; the log ends at {self.log_end}: {self.stop_reason}" if self.stop_reason else "")


def run_archive(tasks: Tasks, config: ArchiveConfig, run: str, gate: Gate | None, catalog: Catalog | None,
                step: Step, say: Say = say_nothing) -> ArchiveReport:
    """Archive everything up to the log's end. `run` names the staging folder; `step` gets each step before it is done.

    Raises ArchiveLocked, ArchiveFailed, DataLoss, OptionError, StoreDamaged, StoreNewer.
    """
    archive = Path(config.archive_path)
    archive_files.check_target(archive)
    with ArchiveLock(archive, archive_files.owner_text(f"archive run of {config.broker_name}")):
        swept = archive_files.sweep(archive)
        try:
            with disk_errors(archive):
                check_shared(tasks, archive_files.staging_of(archive, run))
            (archive / archive_manifest.MANIFESTS).mkdir(exist_ok=True)
            identity = archive_files.identity_of(archive) or archive_files.make_identity(archive, run)
            if gate is not None:
                gate.begin(identity)
            job = _Run(tasks, config, run, identity, gate, catalog, step, say)
            job.report.swept = len(swept)
            job.tell_again()
            job.archive()
            step("end")
        finally:    # also after the gate has refused the run
            archive_files.sweep(archive)
        return job.report


class _Run:
    def __init__(self, tasks: Tasks, config: ArchiveConfig, run: str, identity: str, gate: Gate | None,
                 catalog: Catalog | None, step: Step, say: Say) -> None:
        self._tasks = tasks
        self._config = config
        self._run = run
        self._identity = identity
        self._gate = gate
        self._catalog = catalog
        self._step = step
        self._say = say
        self._archive = Path(config.archive_path)
        self._log = log_ranges.open_log(config.store_path)
        self._queues: dict[TopicQueue, ConsumeQueueFiles] = {
            (queue.topic, queue.queue_id): queue for queue in log_ranges.queues_of(config.store_path)}
        there = archive_manifest.load(self._archive)
        self._manifests = manifests = [each for each in there if each.range.broker_name == config.broker_name]
        self._others = [each for each in there if each.range.broker_name != config.broker_name]
        delays = gate.message_delay_level if gate is not None else config.message_delay_level
        self._delays_ms = parse_ladder(delays)
        log_end, reason = self._log_end()
        start = self._start(log_end)
        begin = manifests[0].range.start if manifests else start
        self._queue_ends = QueueEnds(manifests, 0 if begin == 0 else None)
        self.report = ArchiveReport(broker_name=config.broker_name, start=start, end=start, log_end=log_end,
                                    stop_reason=reason)
        if gate is None:        # a running broker's queues are ahead of what is surely on disk
            self.report.units_behind = sum(queue.count_behind(log_end) for queue in self._queues.values())
        if manifests and start > manifests[-1].range.end:
            self.report.lost_before = start - manifests[-1].range.end

    def _log_end(self) -> log_ranges.LogEnd:
        if self._gate is not None:
            return log_ranges.LogEnd(self._gate.flushed_offset, "")
        if is_in_use(self._config.store_path):
            raise OptionError(f"a broker is running on {self._config.store_path}: give its name server (--namesrv), so "
                              "that the archive knows how far the log is surely on disk")
        return log_ranges.recovered_end(self._config.store_path, self._log)

    def _start(self, log_end: int) -> int:
        """The position at which the archive continues. Raises DataLoss when the log no longer has it."""
        if not self._manifests:
            return min(self._log.start, log_end)
        end = self._manifests[-1].range.end
        if log_end < end:
            raise DataLoss(f"the archive has the log of {self._config.broker_name} up to {end}, but the log ends at "
                           f"{log_end}: this is another store, or an older state of it; give the broker of this store "
                           "another name, or bring back the right one")
        archive_check.check_same_log(self._archive, self._manifests, self._log)
        if self._log.start <= end or log_end == end:
            return end
        if not self._config.accept_gaps:
            raise DataLoss(f"bytes {end} to {self._log.start} of the log of {self._config.broker_name} were removed "
                           "before they were archived; run with --accept-gaps to continue after them, and set "
                           "archiveGate on the broker so that it does not happen again")
        return self._log.start

    def tell_again(self) -> None:
        """Report to catalog and gate, which may lack the last commits of a killed run."""
        if self._manifests:
            self._tell()

    def _tell(self) -> None:
        if self._catalog is not None:
            self._step("catalog")
            self._catalog.show([*self._others, *self._manifests])
        if self._gate is not None:
            self._step("gate")
            self._gate.archived(self._manifests[-1].range.end, self._identity)

    def archive(self) -> None:
        start = self.report.start
        size = self._config.range_size
        cuts = log_ranges.cut(self._log, start, self.report.log_end, size)
        wave = WAVE_TASKS * self._tasks.parallelism
        while cuts:
            self._say(f"{self.report.rows:,} rows of {self._config.broker_name} are archived by this run, "
                      f"{(self.report.log_end - start) >> 20:,} MiB of log are left")
            facts = self._archive_wave(cuts, wave)
            archive_check.check_joins(facts, start)
            for part in self._checked(facts):
                self._commit(part)
            self._tell()
            start = facts[-1].range.end
            self.report.end = start
            cuts = [part for part in cuts if part[0] >= start]

    def _archive_wave(self, cuts: list[tuple[int, int]], wave: int) -> list[RangeFacts]:
        """Facts of the next ranges. If a cut went through a record, its two ranges become one."""
        taken = cuts[:wave]
        known: dict[tuple[int, int], RangeFacts] = {}
        for attempt in range(len(cuts)):
            self._step("tasks")
            known |= self._stage([part for part in taken if part not in known], attempt)
            wrong = next((number for number, part in enumerate(taken) if known[part].reached > part[1]), None)
            if wrong is None:
                break
            behind = taken.pop(wrong + 1) if wrong + 1 < len(taken) else None
            if behind is None:
                behind = next((part for part in cuts if part[0] == taken[wrong][1]), None)
            if behind is None:
                break
            taken[wrong] = (taken[wrong][0], behind[1])
        return [known[part] for part in taken]

    def _stage(self, parts: list[tuple[int, int]], attempt: int) -> dict[tuple[int, int], RangeFacts]:
        staging = str(archive_files.staging_of(self._archive, f"{self._run}-{attempt}"))
        # Only the last tasks, if they are fewer than cores, make rows ahead; otherwise no core is idle.
        last = len(parts) - len(parts) % self._tasks.parallelism
        wanted = [RangeTask(store_path=self._config.store_path, staging=staging, delays_ms=self._delays_ms,
                            range=Range(self._config.broker_name, *part), makes_ahead=number >= last)
                  for number, part in enumerate(parts)]
        return {(facts.range.start, facts.range.end): facts
                for facts in self._tasks.run(archive_range, wanted)}

    def _checked(self, found: Sequence[RangeFacts]) -> list[RangeFacts]:
        """The facts with places for their rejects. Raises ArchiveFailed."""
        self._step("check")
        facts = []
        for part in found:
            part = archive_check.settled(part, self._queue_ends, self._queues)
            facts.append(part)
            if not self._config.accept_gaps:
                archive_check.check_contiguity(part, self._queue_ends, self._queues, self._log)
            self._queue_ends.pass_range(part)
        if not self._config.accept_gaps:
            archive_check.check_counts(facts, self._queues, self._log)
        return facts

    def _commit(self, facts: RangeFacts) -> None:
        manifest = Manifest(range=facts.range, records=facts.records, rows=facts.rows, hidden=facts.hidden,
                            rejected=facts.rejected, unreadable=len(facts.unreadable), unplaced=facts.unplaced,
                            queues=facts.queues, files=facts.files, rejects=facts.rejects)
        moves = [(staged, file.path) for staged, file in zip(facts.staged, facts.files, strict=True)]
        if facts.rejects is not None:
            moves.append((facts.staged_rejects, facts.rejects.path))
        archive_files.commit(self._archive, manifest, moves, self._run, self._step)
        self._manifests.append(manifest)
        report = self.report
        report.ranges.append(facts.range)
        report.records += facts.records
        report.rows += facts.rows
        report.hidden += facts.hidden
        report.rejected += facts.rejected
        report.files += len(facts.files)
        report.bytes_written += sum(file.size for file in facts.files)
