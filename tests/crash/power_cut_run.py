"""A store at work on a disk that forgets, what it promised meanwhile, and whether a copy keeps the promises."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.stores import HOST, NOW, RULES, small_config

from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import SCHEDULE_TOPIC
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
    documents: dict[str, list[str]] = field(default_factory=dict)
    """The texts that a document may have: the one that was saved last, and those that were begun to be saved since."""

    def frozen(self) -> "Promise":
        return Promise(dict(self.records), self.durable_end, {name: list(texts) for name, texts in
                                                              self.documents.items()})


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
        data = self.store.record_bytes(start)
        assert data is not None
        assert len(data) == size
        self.promise.records[start] = Record(start, start + size, bytes(data), message.topic, message.queue_id,
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
        self.work(lambda: self.store.save_config(name, text))
        self.promise.documents[name] = [text]

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
            (5, self.save_document), (5, self.power.look), (2, self.stop), (2, self.kill)]
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
        data = store.record_bytes(position)
        if not data:
            size = store.config.mapped_file_size_commit_log
            position += size - position % size      # behind a blank
            continue
        assert position in promise.records, f"{position}: a record that was never appended"
        record = promise.records[position]
        assert bytes(data) == record.data, f"{position}: other bytes than were appended"
        kept.append(record)
        position = record.end
    return kept


def _check_log(store: FileMessageStore, promise: Promise) -> None:
    kept = kept_records(store, promise)
    wanted = [record for start, record in sorted(promise.records.items())
              if record.end <= promise.durable_end and start >= store.commit_log_min_offset()]
    assert kept[:len(wanted)] == wanted, "a record that was flushed is not there"
    for record in kept:
        if record.key:
            found = [bytes(data) for data in store.query_message(record.topic, record.key, 32, 0, 1 << 62).buffers]
            assert (record.data in found) == (record.sys_flag != ROLLED_BACK), (
                f"{record.key} of flag {record.sys_flag} by its key")


def _check_queues(store: FileMessageStore, promise: Promise) -> None:
    queues: dict[tuple[str, int], dict[int, Record]] = {}
    for record in kept_records(store, promise):
        if record.is_visible:
            queue = queues.setdefault((record.topic, record.queue_id), {})
            assert record.queue_offset not in queue, "a queue offset was given twice"
            queue[record.queue_offset] = record
    assert {queue for queue in store.queues() if store.max_offset(*queue)} == queues.keys()
    for (topic, queue_id), records in queues.items():
        assert sorted(records) == list(range(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)))
        for unit in store.queue_units(topic, queue_id, 0, 1 << 20):
            record = records[unit.queue_offset]
            assert (unit.physical_offset, unit.size) == (record.start, record.end - record.start)
        first = store.get_message(topic, queue_id, min(records), 1, 1 << 20, None)
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
