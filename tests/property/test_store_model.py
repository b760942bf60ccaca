"""The file store and the store in memory say the same to any sequence of calls, restarts and crashes in between."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.stores import HOST, NOW, small_config

from regulus.model.java_hash import tags_code
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.store_result import Appended
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import MemoryStore

TOPICS = st.sampled_from(["TopicA", "SCHEDULE_TOPIC_XXXX"])
QUEUES = st.integers(0, 2)
TAGS = st.sampled_from(["", "TagA", "TagB"])
SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 8192, "mapped_file_size_consume_queue": 40_000,
                            "max_index_num": 40}


def answer(appended: Appended) -> tuple[Any, ...]:
    return appended.status, appended.queue_offset, len(appended.starts)


class Stores(RuleBasedStateMachine):
    """Physical offsets differ, because the memory store has no files; all else is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.crashes = 0
        self.root = self.folder / "0"
        self.file = FileMessageStore(small_config(self.root, **SETTINGS))
        self.file.open()
        self.memory = MemoryStore()
        self.now = NOW
        self.count = 0

    def message(self, topic: str, queue_id: int, tags: str, size: int, flag: int) -> tuple[MessageExt, MessageExt]:
        self.count += 1
        properties = {"TAGS": tags, "KEYS": f"k{self.count % 5}", "UNIQ_KEY": f"U{self.count}", "DELAY": str(size % 20)}
        body = f"{self.count}".encode().ljust(size, b".")
        first, second = [MessageExt(topic, body, dict(properties), queue_id, 0, flag, NOW, HOST, HOST)
                         for _ in range(2)]
        return first, second

    @rule(topic=TOPICS, queue_id=QUEUES, tags=TAGS, size=st.integers(0, 3000),
          flag=st.sampled_from([0, 0, 0, 8, 4, 12]))
    def append(self, topic: str, queue_id: int, tags: str, size: int, flag: int) -> None:
        self.now += size
        one, other = self.message(topic, queue_id, tags, size, flag)
        assert answer(self.file.append(one, self.now)) == answer(self.memory.append(other, self.now))

    @rule(queue_id=QUEUES, sizes=st.lists(st.integers(0, 900), max_size=5))
    def append_batch(self, queue_id: int, sizes: list[int]) -> None:
        pairs = [self.message("TopicA", queue_id, "TagA", size, 0) for size in sizes]
        assert answer(self.file.append_batch([pair[0] for pair in pairs], self.now)) == answer(
            self.memory.append_batch([pair[1] for pair in pairs], self.now))

    @rule()
    def dispatch(self) -> None:
        while self.file.dispatch_behind_bytes():
            self.file.dispatch(3)
        while self.memory.dispatch_behind_bytes():
            self.memory.dispatch(100)

    @rule(topic=TOPICS, queue_id=QUEUES, offset=st.integers(-1, 40), count_max=st.integers(1, 40),
          bytes_max=st.integers(0, 10_000), tags=st.one_of(st.none(), st.sets(TAGS)))
    def read(self, topic: str, queue_id: int, offset: int, count_max: int, bytes_max: int,
             tags: set[str] | None) -> None:
        self.dispatch()
        codes = frozenset(map(tags_code, tags)) if tags is not None else None
        results = [store.get_message(topic, queue_id, offset, count_max, bytes_max, Filter(codes))
                   for store in (self.file, self.memory)]
        found = [(result.status, result.next_begin_offset, result.min_offset, result.max_offset, result.message_count,
                  result.size, [(message.body, message.queue_offset, message.store_timestamp)
                                for buffer in result.buffers for message in message_record.decode_all(buffer)])
                 for result in results]
        assert found[0] == found[1]

    @rule(queue_id=QUEUES, back=st.integers(0, 20_000), upper=st.booleans())
    def offset_by_time(self, queue_id: int, back: int, upper: bool) -> None:
        self.dispatch()
        assert self.file.offset_by_time("TopicA", queue_id, self.now - back, upper) == self.memory.offset_by_time(
            "TopicA", queue_id, self.now - back, upper)

    @rule()
    def restart(self) -> None:
        self.dispatch()
        self.file.close()
        self.file = FileMessageStore(small_config(self.root, **SETTINGS))
        assert self.file.open().stop_reason == ""

    @rule(flush=st.booleans())
    def crash(self, flush: bool) -> None:
        if flush:
            self.file.flush_commit_log()
            self.file.flush_consume_queues(0)
            self.file.flush_checkpoint()
        self.crashes += 1
        self.root = Path(shutil.copytree(self.root, self.folder / str(self.crashes)))
        self.file = FileMessageStore(small_config(self.root, **SETTINGS))
        assert not self.file.open().is_clean_stop
        self.dispatch()

    @rule()
    def flush(self) -> None:
        self.file.allocate_ahead()
        self.file.flush_commit_log()
        self.file.flush_consume_queues(2)

    @invariant()
    def queues_agree(self) -> None:
        if self.file.dispatch_behind_bytes() == self.memory.dispatch_behind_bytes() == 0:
            assert self.file.queues() == self.memory.queues()
            for queue in self.memory.queues():
                assert self.file.max_offset(*queue) == self.memory.max_offset(*queue)

    def teardown(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=20, stateful_step_count=30, deadline=None,
                               suppress_health_check=[HealthCheck.too_slow])
