"""A store at work on a disk that forgets, what it promised meanwhile, and whether a copy keeps the promises."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from tests.stores import HOST, NOW, RULES, small_config

from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.forgetful_disk import ForgetfulDisk, SyncPoint, rebooted

SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 16_384, "mapped_file_size_consume_queue": 200,
                            "max_hash_slot_num": 16, "max_index_num": 64,
                            "message_index_safe": True}
TOPICS = ("TopicA", "TopicB", SCHEDULE_TOPIC)
PREPARED, COMMITTED, ROLLED_BACK = 0x4, 0x8, 0xC
QUEUES = 3


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """One that was appended."""

    start: int
    end: int
    data: bytes
    topic: str
    queue_id: int
    queue_offset: int
    key: str
    sys_flag: int

    @property
    def is_visible(self) -> bool:
        return self.sys_flag in (0, COMMITTED)


@dataclass
class Promise:
    """What must be in a copy that is made now, and what may be."""

    records: dict[int, Record] = field(default_factory=dict)
    """All that were appended, by their physical offsets."""
    durable_end: int = 0
    indexed_end: int = 1 << 62
    """All that a copy keeps up to here is found by its key."""
    log_start: int = 0
    """The log begins here at the latest."""
    documents: dict[str, list[str]] = field(default_factory=dict)
    """The texts that a document may have: the one that was saved last, and those that were begun to be saved since."""

    def frozen(self) -> "Promise":
        documents = {name: list(texts) for name, texts in self.documents.items()}
        return replace(self, records=dict(self.records), documents=documents)


class Run:
    """Appends and all the rest, told by a seed. Everything that the store says is noted in `promise`."""

    def __init__(self, root: Path, power: ForgetfulDisk, seed: int, **settings: Any) -> None:
        self.root = root
        self.power = power
        self.chance = random.Random(seed)
        self.settings = {**SETTINGS, **settings}
        self.promise = Promise()
        self.now_ms = NOW
        self.count = 0
        self.is_loop_free = False
        """Whether a worker syncs, so that the thread that appends may append meanwhile."""
        self.store = self.open()

    def open(self) -> FileMessageStore:
        """Open the store; what it finds is kept from now on."""
        self.store = FileMessageStore(small_config(self.root, **self.settings), RULES)
        self.store.open()
        self.promise.durable_end = max(self.promise.durable_end, self.store.commit_log_max_offset())
        return self.store

    def work(self, deed: Callable[[], T]) -> T:
        """What a worker thread does."""
        self.is_loop_free = True
        try:
            return deed()
        finally:
            self.is_loop_free = False

    # --- deeds -------------------------------------------------------------------------------------------------------

    def append(self, size: int = -1, topic: str = "", queue_id: int = -1, sys_flag: int = -1) -> Appended:
        chance = self.chance
        message = self.message(size if size >= 0 else int(chance.paretovariate(0.7) * 20) % 5000,
                               topic or chance.choice(TOPICS), queue_id if queue_id >= 0 else chance.randrange(QUEUES),
                               sys_flag if sys_flag >= 0 else chance.choice((0, 0, 0, 0, PREPARED, COMMITTED,
                                                                             ROLLED_BACK)))
        appended = self.store.append(message, self.now_ms)
        if appended.status is PutStatus.PUT_OK:
            self._note(message)
        return appended

    def append_batch(self) -> None:
        topic, queue_id = self.chance.choice(TOPICS[:2]), self.chance.randrange(QUEUES)
        messages = [self.message(self.chance.randrange(600), topic, queue_id, 0)
                    for _ in range(self.chance.randrange(1, 8))]
        assert self.store.append_batch(messages, self.now_ms).status is PutStatus.PUT_OK
        for message in messages:
            self._note(message)

    def message(self, size: int, topic: str, queue_id: int, sys_flag: int) -> MessageExt:
        self.count += 1
        self.now_ms += self.chance.choice((0, 1, 40, 1500))
        body = f"{self.count}".encode().ljust(size, b".")
        properties = {"UNIQ_KEY": f"U{self.count}", "KEYS": f"k{self.count} all", "DELAY": str(1 + self.count % 18)}
        return MessageExt(topic, body, properties, queue_id, 0, sys_flag, self.now_ms, HOST, HOST)

    def _note(self, message: MessageExt) -> None:
        start, size = message.physical_offset, message.store_size
        data = message_record.encode(message)
        assert len(data) == size
        self.promise.records[start] = Record(start, start + size, data, message.topic, message.queue_id,
                                             message.queue_offset, message.properties["UNIQ_KEY"], message.sys_flag)

    def dispatch(self) -> None:
        self.store.dispatch(1000, ())

    def flush_log(self) -> None:
        self.promise.durable_end = max(self.promise.durable_end, self.work(self.store.flush_commit_log))

    def flush_queues(self, least_pages: int = 0) -> None:
        self.work(lambda: self.store.flush_consume_queues(least_pages))

    def flush_checkpoint(self) -> None:
        self.work(self.store.flush_checkpoint)

    def allocate_ahead(self) -> None:
        self.work(self.store.allocate_ahead)

    def save_document(self) -> None:
        name = self.chance.choice(("topics", "consumerOffset"))
        text = f'{{"{name}": {self.count}, "filler": "{"." * self.chance.randrange(9000)}"}}'
        self.promise.documents.setdefault(name, [""]).append(text)
        self.work(lambda: self.store.save_config(name, [text.encode()]))
        self.promise.documents[name] = [text]

    def delete_oldest(self) -> None:
        """The oldest file of the log, if it is on disk and dispatched, with what follows it."""
        old_files = self.store.old_files
        facts = old_files.look(1)
        if facts.files and facts.files[0].end <= facts.settled_offset:
            self.promise.log_start = facts.files[0].end
            assert old_files.take_log_file(facts.files[0].start, self.now_ms)
            assert old_files.delete_hanging(self.now_ms, 0)
            for trimmed in old_files.queue_starts():
                old_files.delete_all(old_files.trim_queue(trimmed))
            old_files.delete_all(old_files.take_index_files())

    def stop(self) -> None:
        """A clean stop, and a start."""
        self.close()
        self.open()

    def close(self) -> None:
        self.store.close()
        self.promise.durable_end = max((record.end for record in self.promise.records.values()), default=0)

    def kill(self) -> None:
        """The process ends; the machine runs on, and all that was written is there. And a start."""
        self.store._release()
        self.open()

    def anything(self) -> None:
        """One deed by chance."""
        chance = self.chance
        deeds: list[tuple[int, Callable[[], object]]] = [
            (30, lambda: [self.append() for _ in range(chance.randrange(1, 9))]), (8, self.append_batch),
            (20, self.dispatch), (12, self.flush_log), (6, self.flush_queues), (6, lambda: self.flush_queues(1)),
            (4, lambda: self.flush_queues(2)), (8, self.flush_checkpoint), (6, self.allocate_ahead),
            (5, self.save_document), (3, self.delete_oldest), (5, self.power.look), (2, self.stop), (2, self.kill)]
        weights, calls = zip(*deeds, strict=True)
        chance.choices(calls, weights)[0]()


# --- what a copy must keep -------------------------------------------------------------------------------------------


def check(root: Path, promise: Promise, **settings: Any) -> FileMessageStore:
    """Open the copy at `root`, hold it against what was promised, and return the open store."""
    store = FileMessageStore(small_config(root, **{**SETTINGS, **settings}), RULES)
    with rebooted():
        store.open()
    while store.dispatch_behind_bytes() > 0:
        store.dispatch(1000, ())
    _check_log(store, promise)
    _check_queues(store, promise)
    for name, texts in promise.documents.items():
        assert (store.load_config(name) or "") in texts, f"{name} is neither what was saved nor what came then"
    return store


def kept_records(store: FileMessageStore, promise: Promise) -> list[Record]:
    """All that the store has, in the order of its log. A record that was never appended is none that it may have."""
    kept = []
    position = store.commit_log_min_offset()
    while position < store.commit_log_max_offset():
        read = store.read_log(position, 1, store.flushed_offset)
        assert read is not None, f"{position}: no record"
        if not read.data:
            break       # only a blank was left
        start = message_record.decode(read.data, 0, False).physical_offset
        assert start in promise.records, f"{start}: a record that was never appended"
        assert read.data == promise.records[start].data, f"{start}: other bytes than were appended"
        kept.append(promise.records[start])
        position = read.next_offset
    return kept


def _check_log(store: FileMessageStore, promise: Promise) -> None:
    assert store.commit_log_min_offset() <= promise.log_start
    kept = kept_records(store, promise)
    wanted = [record for start, record in sorted(promise.records.items())
              if record.end <= promise.durable_end and start >= store.commit_log_min_offset()]
    assert kept[:len(wanted)] == wanted, "a record that was flushed is not there"
    for record in kept:
        if record.is_visible and record.end <= promise.indexed_end:
            found = [bytes(data) for data in store.query_message(record.topic, record.key, 32, 0, 1 << 62).buffers]
            assert record.data in found, f"{record.key} is not found by its key"


def _check_queues(store: FileMessageStore, promise: Promise) -> None:
    queues: dict[tuple[str, int], dict[int, Record]] = {}
    for record in kept_records(store, promise):
        if record.is_visible:
            queue = queues.setdefault((record.topic, record.queue_id), {})
            assert record.queue_offset not in queue, "a queue offset was given twice"
            queue[record.queue_offset] = record
    filled = {queue for queue in store.queues() if store.max_offset(*queue) > store.min_offset(*queue)}
    assert filled == queues.keys()
    for (topic, queue_id), records in queues.items():
        assert sorted(records) == list(range(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)))
        for unit in store.queue_units(topic, queue_id, 0, 1 << 20):
            record = records[unit.queue_offset]
            assert (unit.physical_offset, unit.size) == (record.start, record.end - record.start)
        first = store.get_message(topic, queue_id, min(records), 1, 1 << 20, EVERYTHING)
        assert [bytes(data) for data in first.buffers] == [records[min(records)].data]


class PowerCuts:
    """Cuts the power in the midst of syncs, and has messages appended there: what `ForgetfulDisk.on_sync` calls."""

    def __init__(self, run: Run, target: Path, seeds: tuple[int, ...], *, cut_chance: float = 1.0,
                 append_chance: float = 0.0) -> None:
        self.copies: list[tuple[Path, Promise]] = []
        self._run = run
        self._target = target
        self._seeds = seeds
        self._cut_chance = cut_chance
        self._append_chance = append_chance
        self._is_under_way = False

    def __call__(self, point: SyncPoint) -> None:
        if self._is_under_way:
            return
        self._is_under_way = True
        chance = self._run.chance
        if chance.random() < self._append_chance and self._run.is_loop_free:
            for _ in range(chance.randrange(1, 4)):
                self._run.append()
            if chance.random() < 0.5:
                self._run.dispatch()
        if chance.random() < self._cut_chance:
            self.cut(f"{point.number}-{point.kind}")
        self._is_under_way = False

    def cut(self, name: str) -> None:
        for seed in self._seeds:
            target = self._target / f"{len(self.copies)}-{name}-{seed}"
            self.copies.append((self._run.power.crash(seed, target), self._run.promise.frozen()))
