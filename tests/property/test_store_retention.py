"""Whatever is appended, read, deleted, restarted and killed: a store serves exactly what its log still has."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.stores import NOW, a_message, bodies, small_config

from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.store import disk
from regulus.store.file_message_store import FileMessageStore

SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 100,
                            "max_index_num": 20}
QUEUES = 3


class Retention(RuleBasedStateMachine):
    """The model knows of each message where it lies in the log and what it says."""

    deleted_to = 0      # physical offset before which files were taken out of use

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "0"
        self.crashes = 0
        self.store = FileMessageStore(small_config(self.root, **SETTINGS))
        self.store.open()
        self.model: list[list[tuple[int, bytes]]] = [[] for _ in range(QUEUES)]
        self.held: list[tuple[memoryview, bytes]] = []
        self.now = NOW
        self.count = 0

    @rule(queue_id=st.integers(0, QUEUES - 1), sizes=st.lists(st.integers(0, 1500), min_size=1, max_size=12))
    def append(self, queue_id: int, sizes: list[int]) -> None:
        for size in sizes:
            self.count += 1
            body = f"{self.count:06d}".encode().ljust(size, b".")
            appended = self.store.append(a_message(body=body, queue_id=queue_id, KEYS=f"k{self.count}"), self.now)
            assert appended.status is PutStatus.PUT_OK
            assert appended.queue_offset == len(self.model[queue_id])
            self.model[queue_id].append((appended.start, body))
        self.store.dispatch(1000)

    @rule(queue_id=st.integers(0, QUEUES - 1))
    def hold(self, queue_id: int) -> None:
        """A slow reader."""
        low = self.store.min_offset("TopicA", queue_id)
        for buffer in self.store.get_message("TopicA", queue_id, low, 3, 1 << 20, EVERYTHING).buffers:
            self.held.append((buffer, bytes(buffer)))

    @rule()
    def let_go(self) -> None:
        self.held.clear()

    @rule(count=st.integers(1, 4), waits=st.booleans())
    def delete(self, count: int, waits: bool) -> None:
        """As the server does it; with `waits` a file that was held for too long goes, too."""
        self.store.flush_commit_log()
        old_files = self.store.old_files
        for file in old_files.look(count).files:
            self.now += 130_000 if waits else 1
            if not old_files.delete_hanging(self.now, 120_000):
                break
            if file.end <= self.store.flushed_offset and old_files.take_log_file(file.start, self.now):
                old_files.delete_hanging(self.now, 120_000)

    @rule()
    def follow(self) -> None:
        for trimmed in self.store.old_files.queue_starts():
            self.store.old_files.delete_all(self.store.old_files.trim_queue(trimmed))
        self.store.old_files.delete_all(self.store.old_files.take_index_files())
        start = self.store.commit_log_min_offset()
        for queue_id, messages in enumerate(self.model):
            if start and messages:
                gone = sum(offset < start for offset, _ in messages)
                # A file that was out of use, and still there when the broker was killed, comes back without its queue.
                assert gone <= self.store.min_offset("TopicA", queue_id) <= self._deleted_of(messages)
                names = disk.names(self.store.config.consume_queue_directory / "TopicA" / str(queue_id))
                assert int(names[0]) + 100 > gone * 20 or len(names) == 1

    def _deleted_of(self, messages: list[tuple[int, bytes]]) -> int:
        """How many of a queue's messages were deleted at some time."""
        self.deleted_to = max(self.deleted_to, self.store.commit_log_min_offset())
        return sum(offset < self.deleted_to for offset, _ in messages)

    @rule()
    def flush(self) -> None:
        self.store.allocate_ahead()
        self.store.flush_commit_log()
        self.store.flush_consume_queues(0)
        self.store.flush_checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = FileMessageStore(small_config(self.root, **SETTINGS))
        assert self.store.open().stop_reason == ""

    @rule()
    def crash(self) -> None:
        self.crashes += 1
        self.root = Path(shutil.copytree(self.root, self.folder / str(self.crashes)))
        self.store = FileMessageStore(small_config(self.root, **SETTINGS))
        assert not self.store.open().is_clean_stop

    @invariant()
    def what_the_log_has_is_served(self) -> None:
        start = self.store.commit_log_min_offset()
        for queue_id, messages in enumerate(self.model):
            kept = [body for offset, body in messages if offset >= start]
            served = bodies(self.store, queue_id=queue_id)
            assert served == kept[len(kept) - len(served):]
            assert len(served) >= len(messages) - self._deleted_of(messages)
            assert self.store.max_offset("TopicA", queue_id) == len(messages)

    @invariant()
    def readers_keep_what_they_hold(self) -> None:
        assert all(bytes(buffer) == content for buffer, content in self.held)

    def teardown(self) -> None:
        self.held.clear()
        self.store.close()
        shutil.rmtree(self.folder)


TestRetention = Retention.TestCase
TestRetention.settings = settings(max_examples=25, stateful_step_count=30, deadline=None,
                                  suppress_health_check=[HealthCheck.too_slow])
