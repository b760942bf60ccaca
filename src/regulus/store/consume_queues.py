"""All consume queues of a store: which exist, which are not opened yet, and which are out of use.

A queue rests, unopened, until it is first used, so thousands of them cost a start nothing. One that does not agree with
the log is faulty: it is neither read nor written until it is rebuilt.
"""

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from regulus.errors import MessageIllegal, StoreDamaged, StoreError
from regulus.model.topics import LIGHT_PREFIX, NAME_SIZE_MAX, is_storable
from regulus.record.batch_unit import UNIT_SIZE as BATCH_UNIT_SIZE
from regulus.record.queue_table import bounds
from regulus.store import disk
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.mapped_file import MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue

NAME_SHOWN_MAX = 80
"""Characters of a refused name that an error text shows."""
ANEW = ".anew"
"""Folder within that of all queues in which some are rebuilt: no topic has such a name."""

BIRTHS_MAX = 100_000
"""The number of deleted queues that are remembered while the log has records from before their deletion. Of more, the
oldest are forgotten; a later queue of that name may then get their records when it is rebuilt."""

_UNKNOWN = 0x7FFFFFFFFFFFFFFF


class QueueFault(NamedTuple):
    bounds: str
    text: str


class ConsumeQueues:
    """All consume queues of a store, made when first asked for."""

    def __init__(self, directory: Path, file_size: int, pool: MappedFilePool, batch_directory: Path | None = None,
                 batch_file_size: int = 300_000 * BATCH_UNIT_SIZE) -> None:
        self.directory = directory
        self.batch_directory = batch_directory or directory.parent / "batchconsumequeue"
        self.batch_topics: set[str] = set()
        """Topics whose queues are BatchConsumeQueues, and are in the other folder."""
        self._batch_file_size = batch_file_size
        self.table: dict[str, dict[int, ConsumeQueue]] = {}
        self._file_size = file_size
        self._pool = pool
        self.log_bound = _UNKNOWN
        """The offset after the last file of the log."""
        self.log_start = 0
        self.log_end = _UNKNOWN
        """Where the log began and ended when it was recovered; units of other records are cut when a queue is
        opened."""
        self.strays: list[str] = []
        """Entries among the queues that `load` found and that are not queues."""
        self.resting: dict[str, dict[int, str]] = {}
        """Queues that are on disk and not opened yet, by topic and id: the `bounds` of their queue offsets."""
        self.faulty: dict[tuple[str, int], QueueFault] = {}
        """Queues that did not agree with the log when they were checked. They are neither read nor written until they
        are rebuilt."""
        self.missed_end = -1
        """The offset after the last record that was dispatched while its queue was out of use. A master accepts no
        messages for such a queue, so there it is a record from before."""
        self.fault_of: Callable[[ConsumeQueue], str] | None = None
        """Says what is wrong with a queue that was opened; None while the log is being recovered."""
        self.births: dict[tuple[str, int], int] = {}
        """For deleted queues, the end of the log at the deletion. Records before it do not belong to later queues of
        the same name."""

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        return queue if queue is not None or not (self.resting or self.faulty) else self._wake(topic, queue_id)

    def have(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if necessary. Raises MessageIllegal for a topic or queue id that cannot be the name of a
        folder."""
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None and (self.resting or self.faulty):
            queue = self._wake(topic, queue_id)
        return queue if queue is not None else self._make(topic, queue_id)

    def _wake(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open a queue that rests; None when there is none. Raises StoreNotWritable, and StoreDamaged, now and at every
        later call, for one that does not agree with the log."""
        faulty = self.faulty.get((topic, queue_id))
        if faulty is not None:
            raise StoreDamaged(faulty.text)
        resting = self.resting.get(topic)
        if resting is None or queue_id not in resting:
            return None
        text = resting[queue_id]
        queue = self._make(topic, queue_id)
        try:
            fault = self._take_up(queue, bounds(text)[1])
        except StoreError:
            self._forget(topic, queue_id)       # it stays unopened
            raise
        if fault:
            self._forget(topic, queue_id)
            self.set_faulty(topic, queue_id, text, fault)
        # Only now: a thread that lists all queues meanwhile finds it in one place or the other, and always in one of
        # them.
        self._rest_no_more(topic, queue_id)
        if fault:
            raise StoreDamaged(self.faulty[topic, queue_id].text)
        return queue

    def _rest_no_more(self, topic: str, queue_id: int) -> None:
        resting = self.resting[topic]
        del resting[queue_id]
        if not resting:
            del self.resting[topic]

    def _forget(self, topic: str, queue_id: int) -> None:
        queues = self.table[topic]
        del queues[queue_id]
        if not queues:
            del self.table[topic]

    def _take_up(self, queue: ConsumeQueue, known_max: int) -> str:
        """What is wrong with the queue, once the log is recovered; empty when nothing is."""
        queue.tabled_max_offset = known_max
        if self.fault_of is None:
            queue.recover(self.log_bound)
            queue.know_end(known_max)
            return ""
        fault = self.look(queue, known_max)
        if fault:
            return fault
        queue.recover(self.log_bound)
        queue.truncate(self.log_end)
        queue.know_end(known_max)
        fault = self.fault_of(queue)        # again: units after the log's end hid the last unit
        queue.correct_start(self.log_start)
        return fault

    def look(self, queue: ConsumeQueue, known_max: int) -> str:
        """What is wrong with a queue that rests. Changes nothing on disk."""
        assert self.fault_of is not None
        try:
            queue.look(self.log_bound)
            queue.know_end(known_max)
            return self.fault_of(queue)
        except StoreError as error:
            return f"cannot be opened ({error})"

    def set_faulty(self, topic: str, queue_id: int, text: str, fault: str) -> None:
        self.faulty[topic, queue_id] = QueueFault(text, f"queue {queue_id} of {topic} {fault}: it is not served until "
                                                  "it is built anew from the log")

    def check_resting(self, topic: str, queue_id: int) -> str:
        """What is wrong with a queue that rests, without opening it; empty when nothing is, or it was opened. May run
        in another thread than the one that writes and reads."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return ""
        return self.look(self._unopened(topic, queue_id), bounds(text)[1])

    def peek(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A resting queue as it is on disk, only for inspection; it is not opened. Raises StoreError."""
        if queue_id not in self.resting.get(topic, {}):
            return None
        queue = self._unopened(topic, queue_id)
        queue.look(self.log_bound)
        return queue

    def rest_faulty(self, topic: str, queue_id: int, fault: str) -> bool:
        """Take a queue that rests out of use; False when it was opened in the meantime and found intact."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return (topic, queue_id) in self.faulty
        self.set_faulty(topic, queue_id, text, fault)
        self._rest_no_more(topic, queue_id)
        return True

    def beside(self, directory: Path, pool: MappedFilePool) -> "ConsumeQueues":
        """Another set of queues, in another folder, in which queues that are out of use here are rebuilt."""
        others = ConsumeQueues(directory, self._file_size, pool, directory, self._batch_file_size)
        others.births = dict(self.births)
        others.batch_topics = set(self.batch_topics)
        return others

    def known_bounds(self, topic: str, queue_id: int) -> str | None:
        """Its `bounds` as far as known, whether it is open, rests or is out of use; None when there is no such
        queue."""
        queue = self.table.get(topic, {}).get(queue_id)
        if queue is not None:
            return f"{queue.min_offset} {queue.max_offset}"
        faulty = self.faulty.get((topic, queue_id))
        return faulty.bounds if faulty is not None else self.resting.get(topic, {}).get(queue_id)

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        """Where it ends, or for a queue that is out of use, where it last ended; opens no queue."""
        queue = self.table.get(topic, {}).get(queue_id)
        if queue is not None:
            return queue.max_offset
        text = self.known_bounds(topic, queue_id)
        return bounds(text)[1] if text is not None else 0

    def take_back(self, built: ConsumeQueue, log_start: int) -> ConsumeQueue:
        """Open a queue that was rebuilt and moved into place; the log begins at `log_start` now. Raises StoreError;
        then it stays out of use."""
        topic, queue_id = built.topic, built.queue_id
        queue = self._unopened(topic, queue_id)
        queue.take_up(built)
        queue.correct_start(log_start)
        self.table.setdefault(topic, {})[queue_id] = queue
        del self.faulty[topic, queue_id]
        return queue

    def wake_all(self) -> None:
        """Open all queues that rest. Raises StoreDamaged, StoreNotWritable."""
        for topic, queues in tuple(self.resting.items()):
            for queue_id in tuple(queues):
                self._wake(topic, queue_id)

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The only place where a name from outside becomes a path."""
        if not is_storable(topic, queue_id):
            raise MessageIllegal(f"no message is stored under topic {topic[:NAME_SHOWN_MAX]!r}, queue {queue_id}: a "
                                 f"topic's name has 1 to {NAME_SIZE_MAX} of the characters %|a-zA-Z0-9_-")
        queue = self._unopened(topic, queue_id)
        self.table.setdefault(topic, {})[queue_id] = queue
        return queue

    def _unopened(self, topic: str, queue_id: int) -> ConsumeQueue:
        birth = self.births.get((topic, queue_id), -1)
        place = self.place_of(topic, queue_id)
        if topic in self.batch_topics:
            return BatchConsumeQueue(topic, queue_id, MappedFileQueue(
                place, self._batch_file_size, self._pool, "mapperFileSizeBatchConsumeQueue"), birth)
        return ConsumeQueue(topic, queue_id, MappedFileQueue(place, self._file_size, self._pool,
                                                             "mappedFileSizeConsumeQueue"), birth)

    def place_of(self, topic: str, queue_id: int) -> Path:
        """The folder with the files of a queue."""
        return (self.batch_directory if topic in self.batch_topics else self.directory) / topic / str(queue_id)

    def keep_batches(self, topic: str) -> None:
        """From now on the topic's queues are BatchConsumeQueues. Raises StoreError.

        Existing queues of the other kind stay out of use until they are rebuilt; a replica has some if it got messages
        before it learned of their topic. Their ends are ignored: they may be of another topic that was deleted since.
        """
        if topic in self.batch_topics:
            return
        known = self.ids(topic)
        for queue in self.table.pop(topic, {}).values():
            queue.is_deleted = True
            queue.files.remove_all()
        self.resting.pop(topic, None)
        if known:
            disk.remove_tree(self.directory / topic)
        self.batch_topics.add(topic)
        for queue_id in known:
            self.set_faulty(topic, queue_id, "0 0", "was begun as one of another kind (queue.type)")

    def all(self) -> list[ConsumeQueue]:
        """The queues that are open."""
        return [queue for queues in tuple(self.table.values()) for queue in tuple(queues.values())]

    def load(self, expected: dict[str, dict[int, str]] | None,
             births: dict[tuple[str, int], int] | None = None) -> None:
        """Take over the queues on disk. Raises StoreDamaged, StoreNotWritable.

        Queues of topics in `expected`, which has the bounds of their queue offsets, rest until they are used; all
        others are opened.
        """
        self.resting = expected or {}
        self.births = births or {}
        batch_topics, _ = disk.folders_and_files(self.batch_directory)
        # A folder without queues remains of a topic that may have been made again since, with the other kind.
        batch_topics = [topic for topic in batch_topics
                        if any(map(_is_id, disk.names(self.batch_directory / topic, directories=True)))]
        self.batch_topics.update(batch_topics)
        topics, self.strays = disk.folders_and_files(self.directory)
        if ANEW in topics:
            topics.remove(ANEW)
            disk.remove_tree(self.directory / ANEW)     # a broker was killed while it rebuilt queues there
        self.strays += [topic for topic in topics if topic in self.batch_topics]
        for topic in (*(topic for topic in topics if topic not in self.batch_topics), *batch_topics):
            if topic in self.resting:
                continue
            names, others = disk.folders_and_files(self.place_of(topic, 0).parent)
            for name in names:
                if _is_id(name) and is_storable(topic, int(name)):
                    self.have(topic, int(name)).recover(self.log_bound)
                else:
                    others.append(name)
            if not topic.startswith(LIGHT_PREFIX):
                self.strays += [f"{topic}/{name}" for name in others]

    def ids(self, topic: str) -> list[int]:
        return [*self.table.get(topic, ()), *self.resting.get(topic, ()),
                *(queue_id for name, queue_id in self.faulty if name == topic)]

    def names(self) -> list[tuple[str, int]]:
        """The topic and id of each queue, in order."""
        found = [(queue.topic, queue.queue_id) for queue in self.all() if queue.tail is not None]
        return sorted([*found, *self.resting_names(), *self.faulty])

    def resting_names(self) -> list[tuple[str, int]]:
        return [(topic, queue_id) for topic, resting in tuple(self.resting.items()) for queue_id in tuple(resting)]

    def bounds_of_all(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset and the offset after the last unit of each queue."""
        # Resting ones first: one that is opened meanwhile is added to the open ones before it is removed here.
        found = {(topic, queue_id): bounds(text) for topic, resting in tuple(self.resting.items())
                 for queue_id, text in tuple(resting.items())}
        found |= {(queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset) for queue in self.all()
                  if queue.tail is not None}
        found |= {name: bounds(faulty.bounds) for name, faulty in tuple(self.faulty.items())}
        return [(*name, *its_bounds) for name, its_bounds in found.items()]

    @property
    def count(self) -> int:
        return len(self.faulty) + sum(map(len, self.table.values())) + sum(map(len, self.resting.values()))

    @property
    def max_physical_offset(self) -> int:
        """The offset after the last record to which any open queue points; -1 when there is none."""
        return max((queue.max_physical_offset for queue in self.all() if queue.max_physical_offset > queue.birth),
                   default=-1)

    def truncate(self, physical_offset: int) -> None:
        for queue in self.all():
            queue.truncate(physical_offset)

    def correct_starts(self, physical_offset_min: int) -> None:
        for queue in self.all():
            queue.correct_start(physical_offset_min)

    def births_from(self, log_start: int) -> list[tuple[str, int, int]]:
        """The births (topic, queue id, log offset) before which the log still has records. May run in another thread
        than the one that deletes."""
        return [(*name, birth) for name, birth in tuple(self.births.items()) if birth > log_start]

    def forget_births_before(self, log_start: int) -> None:
        """Forget the queues that were deleted before the first record of the log: none of their records is left. Looks
        at those alone, because births never decrease in the order in which they are kept."""
        gone = [name for name, _ in takewhile(lambda each: each[1] < log_start, self.births.items())]
        for name in gone:
            del self.births[name]

    def end_births_at(self, log_end: int) -> list[tuple[str, int]]:
        """Lower births to the new end of the log; returns the queues concerned. Open queues were truncated."""
        earlier = [name for name, birth in self.births.items() if birth > log_end]
        self.births.update(dict.fromkeys(earlier, log_end))
        return earlier

    def _note_birth(self, name: tuple[str, int], log_end: int) -> None:
        self.births.pop(name, None)     # so that the oldest stays first
        self.births[name] = log_end
        if len(self.births) > BIRTHS_MAX:
            del self.births[next(iter(self.births))]

    def delete_queue(self, topic: str, queue_id: int, log_end: int) -> None:
        """Forget one queue and remove its files; a power cut may bring them back. Raises StoreNotWritable.

        Its records in the log up to `log_end` get no unit any more, not even in a queue that is made later for the same
        topic: they would displace that queue's own.
        """
        if self.faulty.pop((topic, queue_id), None) is not None:
            self._note_birth((topic, queue_id), log_end)
            disk.remove_tree(self.place_of(topic, queue_id))
            return
        queue = self.find(topic, queue_id)
        if queue is None:
            return
        queues = self.table[topic]
        del queues[queue_id]
        if not queues:
            del self.table[topic]
        self._note_birth((topic, queue_id), log_end)
        queue.is_deleted = True
        queue.files.remove_all()
        disk.remove_tree(self.place_of(topic, queue_id))

    def delete(self, topic: str, log_end: int) -> None:
        """Delete all known queues of a topic; nothing else is searched for on disk."""
        queue_ids = self.ids(topic)
        directory = self.batch_directory if topic in self.batch_topics else self.directory
        for queue_id in queue_ids:
            self.delete_queue(topic, queue_id, log_end)
        if queue_ids:
            disk.remove_tree(directory / topic)
            disk.sync_directory(directory)
        # If it is made again, it may be of either kind.
        self.batch_topics.discard(topic)


def _is_id(name: str) -> bool:
    """Whether a folder of that name may belong to a queue."""
    return name.isascii() and name.isdigit() and str(int(name)) == name
