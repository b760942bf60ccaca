"""The deep check: after a start, it checks in steps everything that the start did not, and logs what it finds. It also
rebuilds queues and index files that do not agree with the log.

A start opens thousands of queues only when they are first used, and walks only the end of the log. The deep check first
checks those queues, because no client should be served from a damaged one; then each record of the log; then the
entries of the index. It logs when it is done. In parallel, everything found damaged, here or by reads, is repaired.
"""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Protocol

from regulus.errors import StoreError
from regulus.server.kept_task import KeptTask
from regulus.store.deep_check import DeepCheck
from regulus.store.log_pass import CheckStep

_log = logging.getLogger(__name__)

QUEUES_PER_STEP = 200
"""Queues checked in one step by the worker."""
PAUSE_S = 0.05
"""The pause between two steps over queues, so that the worker leaves the interpreter to the event loop."""
BYTES_PER_S_MAX = 16 << 20
"""The rate of reading the log and the index; the disk is mainly for producers and consumers."""
FAULTS_TOLD_MAX = 20
"""Faults of a kind that are logged one by one; of more, only the number is."""
MEND_INTERVAL_S = 1.0
MEND_AGAIN_S = 60.0
"""The time before a rebuild is tried again after the disk refused it."""


class CheckedStore(Protocol):
    """What the deep check needs from the store."""

    deep_check: DeepCheck

    def resting_queues(self) -> list[tuple[str, int]]: ...

    def look_at_queues(self, queues: list[tuple[str, int]]) -> list[tuple[str, int, str]]: ...

    def take_out_queue(self, topic: str, queue_id: int, fault: str) -> str: ...


class DeepCheckLoop:
    def __init__(self, store: CheckedStore, worker: Executor, pause_s: float = PAUSE_S) -> None:
        self._store = store
        self._worker = worker
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._tasks = [KeptTask("the deep check", self.check, MEND_AGAIN_S),
                       KeptTask("building damaged queues and index files anew", self._keep_mending, MEND_AGAIN_S)]

    def start(self) -> None:
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        for task in self._tasks:
            await task.stop()
        await self._loop.run_in_executor(self._worker, _nothing)    # which runs after a step that has begun

    async def check(self) -> None:
        """Check everything once."""
        queues = self._store.resting_queues()
        bad_queues = await self._check_queues(queues)
        log_size, log_faults = await self._walk(self._store.deep_check.log_steps())
        index_size, index_faults = await self._walk(self._store.deep_check.index_steps())
        faults = bad_queues + log_faults + index_faults
        _log.log(logging.WARNING if faults else logging.INFO,
                 "the deep check is done: of %d queues that were not used yet, %d do not agree with the log; %d bytes "
                 "of the log have %d faults, %d bytes of the index %d", len(queues), bad_queues, log_size, log_faults,
                 index_size, index_faults)

    async def _check_queues(self, queues: list[tuple[str, int]]) -> int:
        fault_count = 0
        for first in range(0, len(queues), QUEUES_PER_STEP):
            step = queues[first:first + QUEUES_PER_STEP]
            for found in await self._loop.run_in_executor(self._worker, self._store.look_at_queues, step):
                sentence = self._store.take_out_queue(*found)
                if sentence:
                    fault_count += 1
                    _log.error("%s", sentence)
            await asyncio.sleep(self._pause_s)
        return fault_count

    async def _walk(self, steps: Iterator[CheckStep], told_max: int = FAULTS_TOLD_MAX) -> tuple[int, int]:
        """Run all steps; returns the bytes checked and the faults found."""
        size = fault_count = 0
        while True:
            step = await self._loop.run_in_executor(self._worker, next, steps, None)
            if step is None:
                return size, fault_count
            size += step.size
            for fault in step.faults:
                fault_count += 1
                if fault_count <= told_max:
                    _log.warning("%s", fault)
            await asyncio.sleep(step.read / BYTES_PER_S_MAX)

    async def _keep_mending(self) -> None:
        while True:
            try:
                await self.mend()
                await asyncio.sleep(MEND_INTERVAL_S)
            except StoreError as error:
                _log.error("damaged files could not be rebuilt; the next attempt is in %.0f s: %s", MEND_AGAIN_S, error)
                await asyncio.sleep(MEND_AGAIN_S)

    async def mend(self) -> None:
        """Log the damage met by reads, and rebuild what was found damaged until now. Raises StoreError."""
        for sentence in self._store.deep_check.take_met():
            _log.warning("%s", sentence)
        while (rebuild := self._store.deep_check.next_rebuild()) is not None:
            await self._walk(rebuild.steps(), told_max=0)       # the check reports the log's faults
            for sentence in rebuild.take_over():
                _log.warning("%s", sentence)
                await asyncio.sleep(0)      # there may be many, and each takes a moment


def _nothing() -> None:
    pass
