"""The deep check: after a start all that it did not look at is looked at, a step at a time, and what is found there is
told; and queues and index files that do not agree with the log are built anew.

A start opens thousands of queues only when they are first used, and walks the end of the log only. This looks at those
queues first, because nobody should be served from one that is not well; then at each record of the log; then at the
entries of the index. It says when it is done. Beside it, whatever was found, here or by those who read, is mended.
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
"""Queues looked at in one go by the worker."""
PAUSE_S = 0.05
"""Between two steps over queues, so that the worker leaves the interpreter to the event loop."""
BYTES_PER_S_MAX = 16 << 20
"""Of the log and the index; the disk is there for those who send and pull."""
FAULTS_TOLD_MAX = 20
"""So many faults of a kind are told one by one; of more, the count."""
MEND_INTERVAL_S = 1.0
MEND_AGAIN_S = 60.0
"""After a disk that refused what is built anew."""


class CheckedStore(Protocol):
    """What is asked of the store here."""

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
        await self._loop.run_in_executor(self._worker, _nothing)    # which comes behind a step that has begun

    async def check(self) -> None:
        """Look at everything once."""
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
        """Take all steps; the bytes that were gone through and the faults that were found."""
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
                _log.error("what is damaged was not built anew, and is tried again in %.0f s: %s", MEND_AGAIN_S, error)
                await asyncio.sleep(MEND_AGAIN_S)

    async def mend(self) -> None:
        """Tell what was met, and build anew what was found until now. Raises StoreError."""
        for sentence in self._store.deep_check.take_met():
            _log.warning("%s", sentence)
        while (rebuild := self._store.deep_check.next_rebuild()) is not None:
            await self._walk(rebuild.steps(), told_max=0)       # the check tells of the log's faults
            for sentence in rebuild.take_over():
                _log.warning("%s", sentence)
                await asyncio.sleep(0)      # there may be many, and each takes a moment


def _nothing() -> None:
    pass
