"""Rebuild consume queues from the log while the broker runs.

A queue in which a fault was found is out of use: it is neither read nor written. A worker rebuilds it in a separate
folder, because the queue may be deleted and made again meanwhile; the thread that writes and reads then moves the
folder into its place and uses the queue again. A copied log continues meanwhile, with records of such queues too: the
worker follows them, and the thread that takes the queue back puts the last few. If a power cut undoes some of that, the
next start notices, because it knows where the queue ended.
"""

from collections.abc import Callable, Iterator, Sequence

from regulus.errors import StoreError
from regulus.record.dispatch_request import DispatchRequest
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ANEW, ConsumeQueues
from regulus.store.dispatch import Dispatcher
from regulus.store.log_pass import CheckStep, LogPass
from regulus.store.mapped_file import MappedFilePool
from regulus.store.numbering import Numbering

QUEUES_MAX = 1000
"""Queues that one pass over the log rebuilds; further ones are rebuilt in the next pass."""
MAPPED_FILES_MAX = 64
ROUNDS_MAX = 8
"""How often a worker repeats the pass for records appended while it built, each time for fewer; then the thread that
writes puts the rest."""


class QueueRebuild:
    """Rebuilds the queues `names`, which are out of use; at most QUEUES_MAX."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, names: Sequence[tuple[str, int]],
                 delays_ms: tuple[int, ...]) -> None:
        self.names = tuple(names)[:QUEUES_MAX]
        self.left_out: list[tuple[str, int]] = []
        self._log = log
        self._queues = queues
        self._pool = MappedFilePool(MAPPED_FILES_MAX)
        self._directory = queues.directory / ANEW
        self._built = queues.beside(self._directory, self._pool)
        self._known_ends = {name: queues.known_max_offset(*name) for name in self.names}
        self._dispatcher = Dispatcher(log, self._built, None, delays_ms)
        # Records appended since the start are as they were sent, whenever a queue was taken out of use.
        self._numbering = Numbering(self._known_ends, queues.births, known_at=queues.log_end, log_start=log.start,
                                    put=self._dispatcher.dispatch)
        self._end = log.start
        """Up to where records were taken. A master accepts none for queues that are out of use; a copy does."""
        self._first_end = log.end

    def steps(self) -> Iterator[CheckStep]:
        """Worker thread. Raises StoreNotWritable."""
        disk.remove_tree(self._directory)
        for name, known_end in self._known_ends.items():
            self._built.have(*name).tabled_max_offset = known_end
        yield from self._go_on_to(self._first_end, self._numbering.take)
        for _ in range(ROUNDS_MAX):
            if self._queues.missed_end <= self._end:
                break
            yield from self._go_on_to(self._queues.missed_end, self._numbering.take)
        self._numbering.end()
        for (topic, queue_id), known_end in self._known_ends.items():
            if not self._numbering.is_begun_anew((topic, queue_id)):
                self._built.have(topic, queue_id).go_on_at(known_end)
        for queue in self._built.all():
            queue.correct_start(self._log.start)
            queue.flush()
            disk.sync_directory(queue.files.directory)
        self._pool.unmap_all()

    def _go_on_to(self, end: int, take: Callable[[DispatchRequest], object]) -> Iterator[CheckStep]:
        yield from LogPass(self._log, self._end, end, check_crc=False, take=take).steps()
        self._end = end

    def take_over(self) -> Iterator[str]:
        """Start using the rebuilt queues, one by one; yields a sentence for each, and for records that did not follow.
        For the thread that writes and reads, which may do other work in between.

        Raises the last StoreError after all other queues were taken over; the failed ones are `left_out` then.
        """
        failure: StoreError | None = None
        yield from self._numbering.sentences()
        for topic, queue_id in self.names:
            if (topic, queue_id) not in self._queues.faulty:
                continue
            try:
                queue = self._put_in_place(topic, queue_id)
            except StoreError as error:
                self.left_out.append((topic, queue_id))
                failure = error
            else:
                yield (f"queue {queue_id} of {topic} was built anew from the log, from {queue.min_offset} to "
                       f"{queue.max_offset}, and serves again")
        disk.remove_tree(self._directory)
        if failure is not None:
            raise failure

    def _take_late(self, request: DispatchRequest) -> None:
        name = request.topic, request.queue_id
        if name in self._known_ends and name in self._queues.faulty:
            self._dispatcher.dispatch(request)

    def _put_in_place(self, topic: str, queue_id: int) -> ConsumeQueue:
        if self._queues.missed_end > self._end:
            for _ in self._go_on_to(self._queues.missed_end, self._take_late):
                pass
        self._built.have(topic, queue_id).flush()
        self._pool.unmap_all()
        built = self._directory / topic / str(queue_id)
        place = self._queues.place_of(topic, queue_id)
        if disk.exists(built):
            disk.move_tree(built, place)
        else:
            disk.remove_tree(place)     # the log has no records of it
        return self._queues.take_back(self._built.have(topic, queue_id), self._log.start)
