"""Deletes the oldest files in time, and refuses sends while the disk has no room.

`store.retention` decides what to do; this module does it at the right time. Files are examined and deleted in a
separate worker; the event loop only takes files out of use, which costs microseconds. Files of the log are deleted one
by one with a pause between them. Consume queues and index follow in another task, because with thousands of queues
their pauses add up, and the disk must be checked all the while.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import ParamSpec, TypeVar

from regulus.broker.state import BrokerState
from regulus.errors import StoreDamaged, StoreError
from regulus.model.java_numbers import LONG_MAX
from regulus.model.retention_rules import RetentionRules
from regulus.server.clock import Clock
from regulus.server.kept_task import KeptTask
from regulus.store.file_message_store import FileMessageStore
from regulus.store.mapped_file import MappedFile
from regulus.store.old_files import HangingFile
from regulus.store.retention import RetentionFacts, RetentionPlan, Space, decide, full_remark

_log = logging.getLogger(__name__)

FIRST_PASS_MS = 60_000
"""ms after the start before which nothing is deleted unless an operator orders it; the disk is checked meanwhile."""
ORDERED_PASSES = 20
"""Passes that delete expired files at any hour after an operator asked for it."""
QUEUES_PER_TURN = 256
"""Consume queues that are trimmed before others have a turn of the event loop."""

P = ParamSpec("P")
R = TypeVar("R")


class RetentionLoop:
    """`copied_offset` returns up to where the slaves that are waited for have the log, `forcible_offset` what may be
    deleted before its time."""

    def __init__(self, store: FileMessageStore, broker: BrokerState, clock: Clock, worker: Executor,
                 copied_offset: Callable[[], int] = lambda: LONG_MAX,
                 forcible_offset: Callable[[], int] = lambda: LONG_MAX) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._worker = worker
        self._copied_offset = copied_offset
        self._forcible_offset = forcible_offset
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._task = KeptTask("looking after old files", self._run)
        self._following: asyncio.Task[None] | None = None
        self._ordered_passes = 0
        self._cleans_queues = False
        self._followed_offset = 0
        self._is_full = False
        self._is_full_for_archive = False
        self._deleted_files = 0
        self._dropped_bytes = 0
        self._gate_report = ""
        self._slaves_report = ""
        self._warning = ""
        self._told_hanging: HangingFile | None = None
        self.passes = 0
        """The number of completed passes."""

    def start(self) -> None:
        self._report()      # an operator may ask before the first pass, too
        self._task.start()

    async def stop(self) -> None:
        """Stop, after a deletion that has begun has ended."""
        await self._task.stop()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await self._in_worker(_nothing)     # which runs after what has begun

    def take_orders(self) -> None:
        """Do now what an operator asked the broker for."""
        if self._broker.is_retention_wanted:
            self._ordered_passes = ORDERED_PASSES
        if self._broker.is_queue_cleaning_wanted:
            self._cleans_queues = True
        self._broker.is_retention_wanted = self._broker.is_queue_cleaning_wanted = False
        self._wake.set()

    async def _run(self) -> None:
        deletes_from = self._loop.time() + FIRST_PASS_MS / 1000
        await self.run_pass(self._clock(), deletes=False)
        while True:
            rest = deletes_from - self._loop.time()
            pause = self._broker.config.clean_resource_interval / 1000
            if await self._is_ordered_within(min(rest, pause) if rest > 0 else pause):
                deletes_from = self._loop.time()
            deletes = self._loop.time() >= deletes_from
            await self.run_pass(self._clock(), deletes=deletes)
            if deletes and (self._following is None or self._following.done()):
                self._following = self._loop.create_task(self.follow())
                self._following.add_done_callback(_tell_failure)

    async def _is_ordered_within(self, seconds: float) -> bool:
        """Wait; returns whether an operator ordered anything meanwhile."""
        # Not `wait_for`, which loses the cancellation when an order comes at the same moment.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        is_ordered = self._wake.is_set()
        self._wake.clear()
        return is_ordered

    # --- the log -----------------------------------------------------------------------------------------------------

    async def run_pass(self, now_ms: int, *, deletes: bool = True) -> None:
        """Check disk and files, refuse or accept sends accordingly, and delete what may be deleted."""
        rules: RetentionRules = self._broker.config
        seen = await self._in_worker(self._store.old_files.look, rules.delete_file_batch_max)
        facts = replace(seen, archived_offset=self._broker.archived_offset.trusted(rules.archive_identity),
                        copied_offset=self._copied_offset(), forcible_offset=self._forcible_offset())
        plan = decide(rules, facts, was_full=self._is_full, is_ordered=self._ordered_passes > 0, now_ms=now_ms)
        self._refuse_or_take(plan, rules, facts)
        self._tell_gate(plan, facts)
        self._tell_slaves(plan, facts)
        if deletes:
            self._ordered_passes = max(self._ordered_passes - 1, 0)
            try:
                await self._delete(plan, rules, self._broker.steady_ms)
                self._warn(_lack_of_room(plan, facts, rules))
            except StoreError as error:
                self._warn(f"old files were not deleted: {error}")
        self._report()
        self.passes += 1

    def _refuse_or_take(self, plan: RetentionPlan, rules: RetentionRules, facts: RetentionFacts) -> None:
        """Refuse or accept sends. The health check compares this text to find new faults, so it stays while only its
        numbers change."""
        reason = (plan.is_full, plan.waits_for_archive)
        if reason != (self._is_full, self._is_full_for_archive):
            self._store.refuse_writes(full_remark(rules, facts, plan) if plan.is_full else "")
        self._is_full, self._is_full_for_archive = reason

    async def _delete(self, plan: RetentionPlan, rules: RetentionRules, steady_ms: int) -> None:
        old_files = self._store.old_files
        hanging = old_files.hanging
        if hanging is not None:
            is_due = steady_ms - hanging.tried_ms >= rules.redelete_hanged_file_interval
            if not (plan.is_due or is_due) or not await self._delete_hanging(rules, steady_ms):
                return
        dropped = dict(plan.dropped)
        for number, file in enumerate(plan.files):
            if number:
                await asyncio.sleep(rules.delete_commit_log_files_interval / 1000)
            if not old_files.take_log_file(file.start, steady_ms):
                return
            for begin in [begin for begin in dropped if file.start <= begin < file.end]:
                self._tell_dropped(begin, dropped[begin])
            if not await self._delete_hanging(rules, steady_ms):
                return

    async def _delete_hanging(self, rules: RetentionRules, steady_ms: int) -> bool:
        """Whether the file that is out of use is deleted now."""
        hanging = self._store.old_files.hanging
        assert hanging is not None
        forcibly_after_ms = rules.destroy_maped_file_interval_forcibly
        is_deleted = await self._in_worker(self._store.old_files.delete_hanging, steady_ms, forcibly_after_ms)
        if is_deleted:
            self._deleted_files += 1
            _log.info("deleted %s; the log begins at %d", hanging.file.path, self._store.commit_log_min_offset())
            if hanging.left:
                _tell_left(hanging.file.path, hanging.left)
        elif hanging is not self._told_hanging:
            self._told_hanging = hanging
            _log.info("%s is still being read; it is deleted once it is not, or in %d ms", hanging.file.path,
                      forcibly_after_ms)
        return is_deleted

    # --- what follows the log ----------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Let consume queues and index begin where the log does.

        This deletes their files that are no longer needed, and the queues that an operator wants removed.
        """
        physical_offset = self._store.commit_log_min_offset()
        cleans, self._cleans_queues = self._cleans_queues, False
        if physical_offset <= self._followed_offset and not cleans:
            return
        try:
            await self._trim_queues()
            await self._delete_all(self._store.old_files.take_index_files())
            if cleans:
                await self._clean_queues()
            self._followed_offset = physical_offset
        except StoreError as error:
            _log.error("files of queues or index were not deleted: %s", error)

    async def _trim_queues(self) -> None:
        old_files = self._store.old_files
        for number, trimmed in enumerate(await self._in_worker(old_files.queue_starts), 1):
            files = old_files.trim_queue(trimmed)
            if files:
                await self._delete_all(files)
                _log.info("deleted %d files of queue %d of %s", len(files), trimmed.queue.queue_id, trimmed.queue.topic)
                await asyncio.sleep(self._broker.config.delete_consume_queue_files_interval / 1000)
            elif number % QUEUES_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _delete_all(self, files: Sequence[MappedFile]) -> None:
        for link in await self._in_worker(self._store.old_files.delete_all, files):
            _tell_left(*link)

    async def _clean_queues(self) -> None:
        """Delete queues that have neither a message nor a place in their topic; the numbering of the others must
        continue."""
        store = self._store
        for topic, queue_id in store.queues():
            try:
                is_empty = store.min_offset(topic, queue_id) >= store.max_offset(topic, queue_id)
            except StoreDamaged:
                continue        # its content is known when it is rebuilt
            if is_empty and not self._broker.topics.has_queue(topic, queue_id):
                store.delete_queue(topic, queue_id)
                _log.info("deleted queue %d of %s, which is empty and unused", queue_id, topic)
                await asyncio.sleep(0)

    # --- telling -----------------------------------------------------------------------------------------------------

    def _tell_gate(self, plan: RetentionPlan, facts: RetentionFacts) -> None:
        """Log once when files begin to wait for the archive although the disk needs room, and once when that is
        over."""
        report = ""
        if plan.waits_for_archive:
            report = (f"the disk of the store is more than {round(self._broker.config.forced_ratio * 100)} % full and "
                      f"files wait for the archive, which has the log up to {max(facts.archived_offset, 0)}")
            if not self._gate_report:
                _log.warning("%s: run the archive", report)
        elif self._gate_report:
            _log.warning("files do not wait for the archive any more")
        self._gate_report = report

    def _tell_slaves(self, plan: RetentionPlan, facts: RetentionFacts) -> None:
        """Log likewise for files that a slave needs."""
        report = ""
        if plan.waits_for_slaves:
            report = "old files wait for a slave that still needs them"
        elif plan.passes_slaves:
            report = ("old files go although a slave still needs them, for the disk of the store is full: that slave "
                      "has to begin anew")
        if report and report != self._slaves_report:
            _log.warning("%s; it has the log up to %d", report, facts.copied_offset)
        elif self._slaves_report and not report:
            _log.info("no old file is needed by a slave any more")
        self._slaves_report = report

    def _tell_dropped(self, begin: int, end: int) -> None:
        self._dropped_bytes += end - begin
        _log.error("physical offsets %d to %d go without being archived, for the disk is full and archiveGatePolicy is "
                   "drop_and_report", begin, end)

    def _warn(self, text: str) -> None:
        """Log a warning once while it holds."""
        if text and text != self._warning:
            _log.warning("%s", text)
        self._warning = text

    def _report(self) -> None:
        hanging = self._store.old_files.hanging
        self._broker.retention_report = {
            "diskFull": "true" if self._is_full else "false",
            "deletedCommitLogFiles": str(self._deleted_files),
            "hangingCommitLogFile": hanging.file.path if hanging is not None else "",
            "archiveGateReport": self._gate_report,
            "slaveRetentionReport": self._slaves_report,
            "archiveDroppedBytes": str(self._dropped_bytes),
        }

    async def _in_worker(self, deed: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._loop.run_in_executor(self._worker, lambda: deed(*args, **kwargs))


def _tell_failure(following: "asyncio.Task[None]") -> None:
    if not following.cancelled() and (error := following.exception()) is not None:
        _log.error("files of queues and index are left for the next pass", exc_info=error)


def _tell_left(link: str, left: str) -> None:
    _log.warning("%s was a symbolic link: only the link is deleted, and %s stays and keeps its room; delete it by "
                 "hand, and link folders, not files", link, left)


def _nothing() -> None:
    """An empty action that ends after all earlier ones."""


def _lack_of_room(plan: RetentionPlan, facts: RetentionFacts, rules: RetentionRules) -> str:
    """Logged when the disk needs room and no file may be deleted, or when its usage is unknown."""
    if min(facts.log_ratio, facts.queue_ratio) < 0:
        return "how full the disk of the store is cannot be told; expired files are deleted at any hour"
    if plan.space is Space.PLENTY or plan.files or plan.waits_for_archive or plan.waits_for_slaves:
        return ""
    return ("the disk of the store is running full and no file of the log may be deleted: the only one left is being "
            f"written, or none is older than fileReservedTime {rules.file_reserved_time} h"
            + ("" if facts.forcible_offset == LONG_MAX else " and the master of this slave still has them all"))
