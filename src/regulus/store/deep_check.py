"""Checks and rebuilds while the broker runs, of whatever a start did not check or was found damaged when used.

Steps are for a worker thread, one after the other; everything else, including the call of `index_steps`, is for the
thread that writes and reads.
"""

from collections.abc import Iterator

from regulus.errors import StoreError
from regulus.model.topics import LIGHT_PREFIX
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.index import Index
from regulus.store.index_check import IndexCheck, IndexRebuild
from regulus.store.log_pass import CheckStep, LogPass
from regulus.store.queue_rebuild import QueueRebuild

ROTTEN_MAX = 10_000
"""The number of damaged records that are remembered and refused, whatever is left of their heads. A log with more of
them needs its files restored."""


class DeepCheck:
    def __init__(self, log: CommitLog, queues: ConsumeQueues, index: Index | None, delays_ms: tuple[int, ...]) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._delays_ms = delays_ms
        self._met: list[str] = []
        self._met_missing: set[str] = set()
        self._queue_rebuild: QueueRebuild | None = None

    def meet(self, physical_offset: int) -> None:
        """A record was read that is not as it was written."""
        if physical_offset not in self._log.rotten and len(self._log.rotten) < ROTTEN_MAX:
            self._log.rotten.add(physical_offset)
            self._met.append(f"the record at {physical_offset} of the log is damaged: its body has not the checksum it "
                             "was written with; it is refused to whoever asks for it")

    def meet_missing(self, physical_offset: int) -> None:
        """A record was to be copied that the log no longer has."""
        missing = self._log.lacks(physical_offset)
        if missing and missing not in self._met_missing:
            self._met_missing.add(missing)
            self._met.append(f"a message was to be copied from {physical_offset} of the log, in {missing}, which is "
                             "missing: delayed messages that are due wait for a start with that file; halves and "
                             "messages to be sent again that lie there are passed over")

    def take_met(self) -> list[str]:
        """The faults met since the last call, to be reported."""
        met, self._met = self._met, []
        return met

    def log_steps(self) -> Iterator[CheckStep]:
        """Check each record that the log had at the start."""
        return LogPass(self._log, self._log.start, min(self._queues.log_end, self._log.end), check_crc=True,
                       damaged=self._note_rotten).steps()

    def _note_rotten(self, physical_offset: int) -> None:
        if len(self._log.rotten) < ROTTEN_MAX:
            self._log.rotten.add(physical_offset)

    def index_steps(self) -> Iterator[CheckStep]:
        """Check each existing index file. Called by the thread that writes; only the steps are for a worker."""
        index = self._index
        return _index_steps(index, [IndexCheck(file, self._log) for file in index.files]) if index is not None \
            else iter(())

    def next_rebuild(self) -> QueueRebuild | IndexRebuild | None:
        """The next rebuild to run; None when there is none. Raises StoreNotWritable."""
        # The units of light queues cannot be rebuilt from the log's records alone.
        names = [name for name in tuple(self._queues.faulty) if not name[0].startswith(LIGHT_PREFIX)]
        # A rebuild that could not be put in place last time does not prevent others.
        left_out = self._queue_rebuild.left_out if self._queue_rebuild is not None else ()
        self._queue_rebuild = None
        first = [name for name in names if name not in left_out]
        rebuild = self._next_index_rebuild() if not first else None
        if rebuild is not None or not names:
            return rebuild
        self._queue_rebuild = QueueRebuild(self._log, self._queues, first or names, self._delays_ms)
        return self._queue_rebuild

    def _next_index_rebuild(self) -> IndexRebuild | None:
        if self._index is None:
            return None
        for file in self._index.files:
            if file.fault and not file.is_anew:
                if file is self._index.tail:
                    self._index.close_tail()
                return IndexRebuild(self._index, file, self._log)
        return None


def _index_steps(index: Index, checks: list[IndexCheck]) -> Iterator[CheckStep]:
    """Check index files. One that was deleted or rebuilt meanwhile has no fault: what is read then belongs to another
    file."""
    for check in checks:
        file = check.file
        try:
            for step in check.steps():
                yield step if file in index.files else CheckStep(step.size, step.read)
        except StoreError as error:
            if file in index.files:
                file.fault = f"cannot be read ({error})"
                yield CheckStep(0, 0, (f"index file {file.name} {file.fault}",))
