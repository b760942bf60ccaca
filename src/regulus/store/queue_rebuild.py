"""Consume queues built anew from the log while the broker runs.

A queue in which a fault was found is out of use: nothing is put there or read, so a worker may write its files. When
all of them are on disk, the thread that puts and reads takes the queue back. Of a queue that is deleted meanwhile
nothing is taken back. A start that finds such files half done builds them anew, for the table of queues calls them
faulty.
"""

from collections.abc import Iterator, Sequence

from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queue import ConsumeQueues
from regulus.store.dispatch import Dispatcher
from regulus.store.log_pass import CheckStep, LogPass
from regulus.store.mapped_file import MappedFilePool

QUEUES_MAX = 1000
"""Queues that one pass over the log builds; what more there are come with the next."""
MAPPED_FILES_MAX = 64


class QueueRebuild:
    """Of queues that are out of use, `names`, up to QUEUES_MAX."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, names: Sequence[tuple[str, int]],
                 delays_ms: tuple[int, ...]) -> None:
        self.names = tuple(names)[:QUEUES_MAX]
        self._queues = queues
        self._pool = MappedFilePool(MAPPED_FILES_MAX)
        self._built = queues.beside(self._pool)
        self._dispatcher = Dispatcher(log, self._built, None, delays_ms)
        self._dispatcher.only = frozenset(self.names)
        # Nothing is appended to them any more: all their records lie before the log's end now.
        self._pass = LogPass(log, log.start, log.end, check_crc=False, take=self._dispatcher.dispatch)

    def steps(self) -> Iterator[CheckStep]:
        """Worker thread. Raises StoreNotWritable."""
        for topic, queue_id in self.names:
            disk.remove_tree(self._queues.directory / topic / str(queue_id))
        yield from self._pass.steps()
        for queue in self._built.all():
            queue.flush()
            directory = queue.files.directory
            for each in (directory, *directory.parents[:3]):
                disk.sync_directory(each)
        self._pool.unmap_all()

    def take_over(self) -> list[str]:
        """Have what was built in use; a sentence for each. The thread that puts and reads. Raises StoreNotWritable."""
        told = []
        for topic, queue_id in self.names:
            if (topic, queue_id) not in self._queues.faulty:
                disk.remove_tree(self._queues.directory / topic / str(queue_id))
                continue
            queue = self._queues.take_back(topic, queue_id)
            told.append(f"queue {queue_id} of {topic} was built anew from the log, from {queue.min_offset} to "
                        f"{queue.max_offset}, and serves again")
        return told
