"""All consume queues of a store: which there are, which rest on disk, and which are out of use.

A queue rests until somebody asks for it, so thousands of them cost a start nothing. One that does not agree with the
log is faulty: nothing is put there or read until it is built anew.
"""

from collections.abc import Callable
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
"""Characters of a refused name that an error text repeats."""
ANEW = ".anew"
"""Folder within that of all queues in which some are built anew: no topic has such a name."""

BIRTHS_MAX = 100_000
"""So many queues that were deleted are remembered; of more, the oldest are forgotten."""

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
        """Topics whose queues are of the other kind, BatchConsumeQueue, and lie in the other folder."""
        self._batch_file_size = batch_file_size
        self.table: dict[str, dict[int, ConsumeQueue]] = {}
        self._file_size = file_size
        self._pool = pool
        self.log_bound = _UNKNOWN
        """Behind the last file of the log."""
        self.log_start = 0
        self.log_end = _UNKNOWN
        """Where the log began and ended when it was recovered; what queues say of other records is cut when they are
        opened."""
        self.strays: list[str] = []
        """What `load` found among the queues and is none."""
        self.resting: dict[str, dict[int, str]] = {}
        """Queues that are on disk and not opened yet, by topic and id: the `bounds` of their queue offsets."""
        self.faulty: dict[tuple[str, int], QueueFault] = {}
        """Queues that did not agree with the log when they were looked at. Nothing is put there or read until they are
        built anew."""
        self.missed_end = -1
        """Behind the last record that was dispatched while its queue was out of use; on a master that takes none for
        such a queue, one from before."""
        self.fault_of: Callable[[ConsumeQueue], str] | None = None
        """Tells what is wrong with a queue that was opened; None as long as the log is being recovered."""
        self.births: dict[tuple[str, int], int] = {}
        """Of queues that were deleted: where the log ended then. What lies before is of none that was made since."""

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        return queue if queue is not None or not (self.resting or self.faulty) else self._wake(topic, queue_id)

    def have(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises MessageIllegal for a topic or queue id after which no folder may be named."""
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None and (self.resting or self.faulty):
            queue = self._wake(topic, queue_id)
        return queue if queue is not None else self._make(topic, queue_id)

    def _wake(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open a queue that rests; None when there is none. Raises StoreDamaged for one that does not agree with the
        log, now and whenever it is asked for, StoreNotWritable."""
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
            self._forget(topic, queue_id)       # it rests on
            raise
        if fault:
            self._forget(topic, queue_id)
            self.set_faulty(topic, queue_id, text, fault)
        # Only now: a thread that lists all queues meanwhile finds it here or there, and never nowhere.
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
        fault = self.fault_of(queue)        # once more: what lay behind the log's end hid the last unit
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
        """What is wrong with a queue that rests, and rests on; empty when nothing is, or it rests no more. For a thread
        beside the one that puts and reads."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return ""
        return self.look(self._unopened(topic, queue_id), bounds(text)[1])

    def peek(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that rests as it is on disk, for looking only; it rests on. Raises StoreError."""
        if queue_id not in self.resting.get(topic, {}):
            return None
        queue = self._unopened(topic, queue_id)
        queue.look(self.log_bound)
        return queue

    def rest_faulty(self, topic: str, queue_id: int, fault: str) -> bool:
        """Take a queue that rests out of use; False when somebody has opened it meanwhile, and found it well."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return (topic, queue_id) in self.faulty
        self.set_faulty(topic, queue_id, text, fault)
        self._rest_no_more(topic, queue_id)
        return True

    def beside(self, directory: Path, pool: MappedFilePool) -> "ConsumeQueues":
        """Others of the same kind, for whoever builds there what is out of use here."""
        others = ConsumeQueues(directory, self._file_size, pool, directory, self._batch_file_size)
        others.births = dict(self.births)
        others.batch_topics = set(self.batch_topics)
        return others

    def known_bounds(self, topic: str, queue_id: int) -> str | None:
        """Its `bounds` as they are known, whether it is open, rests or is out of use; None when there is none."""
        queue = self.table.get(topic, {}).get(queue_id)
        if queue is not None:
            return f"{queue.min_offset} {queue.max_offset}"
        faulty = self.faulty.get((topic, queue_id))
        return faulty.bounds if faulty is not None else self.resting.get(topic, {}).get(queue_id)

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        """Where it ends, and of a queue that is out of use, where it ended when that was last known; none is opened."""
        queue = self.table.get(topic, {}).get(queue_id)
        if queue is not None:
            return queue.max_offset
        text = self.known_bounds(topic, queue_id)
        return bounds(text)[1] if text is not None else 0

    def take_back(self, built: ConsumeQueue, log_start: int) -> ConsumeQueue:
        """Open a queue that was built anew and put in its place; the log begins at `log_start` now. Raises StoreError,
        and it stays out of use."""
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
        """From now on the topic's queues are of the other kind. Those that were not, as where a replica got messages
        before it heard of their topic, are out of use until they are built anew. Where those ended says nothing:
        they may have been of another topic, which was deleted since. Raises StoreError."""
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
        """Those that are open."""
        return [queue for queues in tuple(self.table.values()) for queue in tuple(queues.values())]

    def load(self, expected: dict[str, dict[int, str]] | None,
             births: dict[tuple[str, int], int] | None = None) -> None:
        """Take up the queues on disk. Those of topics in `expected`, with the bounds of their queue offsets, rest until
        somebody asks for them; all others are opened. Raises StoreDamaged, StoreNotWritable."""
        self.resting = expected or {}
        self.births = births or {}
        batch_topics, _ = disk.folders_and_files(self.batch_directory)
        # One without queues is left of a topic that may have been made anew since, of the other kind.
        batch_topics = [topic for topic in batch_topics
                        if any(map(_is_id, disk.names(self.batch_directory / topic, directories=True)))]
        self.batch_topics.update(batch_topics)
        topics, self.strays = disk.folders_and_files(self.directory)
        if ANEW in topics:
            topics.remove(ANEW)
            disk.remove_tree(self.directory / ANEW)     # a broker was killed while it built there
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
        """Topic and id of each queue, in their order."""
        found = [(queue.topic, queue.queue_id) for queue in self.all() if queue.tail is not None]
        return sorted([*found, *self.resting_names(), *self.faulty])

    def resting_names(self) -> list[tuple[str, int]]:
        return [(topic, queue_id) for topic, resting in tuple(self.resting.items()) for queue_id in tuple(resting)]

    def bounds_of_all(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset and the one behind the last unit of each queue."""
        # Resting ones first: one that is opened meanwhile is among the open ones before it rests no more.
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
        """Behind the last record that any open queue speaks of; -1 when none does."""
        return max((queue.max_physical_offset for queue in self.all() if queue.max_physical_offset > queue.birth),
                   default=-1)

    def truncate(self, physical_offset: int) -> None:
        for queue in self.all():
            queue.truncate(physical_offset)

    def correct_starts(self, physical_offset_min: int) -> None:
        for queue in self.all():
            queue.correct_start(physical_offset_min)

    def births_from(self, log_start: int) -> list[tuple[str, int, int]]:
        """Topic, queue id and place in the log of those births before which the log still has something. For a thread
        beside the one that deletes."""
        return [(*name, birth) for name, birth in tuple(self.births.items()) if birth > log_start]

    def end_births_at(self, log_end: int) -> list[tuple[str, int]]:
        """The log ends there now; the queues that are born earlier by that. Those that are open were truncated."""
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

        Its records, which the log has up to `log_end`, get no unit any more, not even in a queue that is made anew for
        the same topic: they would push its own aside.
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
        """The same with all queues of a topic that there are; nothing else is looked for on disk."""
        queue_ids = self.ids(topic)
        directory = self.batch_directory if topic in self.batch_topics else self.directory
        for queue_id in queue_ids:
            self.delete_queue(topic, queue_id, log_end)
        if queue_ids:
            disk.remove_tree(directory / topic)
            disk.sync_directory(directory)
        # One that is made anew may be of either kind.
        self.batch_topics.discard(topic)


def _is_id(name: str) -> bool:
    """Whether a folder of that name may be a queue's."""
    return name.isascii() and name.isdigit() and str(int(name)) == name
