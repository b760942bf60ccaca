"""One thread appends, dispatches and reads while others flush and make room, as the server has it."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.stores import NOW, a_message, bodies, crashed_copy, open_store

from regulus.model.store_result import PutStatus
from regulus.model.store_rules import FlushDiskType, StoreRules

SYNC_FLUSH = StoreRules(flush_disk_type=FlushDiskType.SYNC_FLUSH)


@pytest.fixture(autouse=True)
def _threads_that_interrupt_each_other() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("settings", [{}, {"mapped_files_max": 16}, {"rules": SYNC_FLUSH}],
                         ids=["plain", "few mapped files", "sync flush"])
def test_flushes_and_allocation_run_beside_the_writer(tmp_path: Path, settings: dict[str, Any]) -> None:
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=65_536, **settings)
    done = Event()

    def flush() -> int:
        durable = 0
        while not done.is_set():
            flushed = store.flush_commit_log()
            assert flushed >= durable
            durable = flushed
            store.flush_consume_queues(0)
            store.flush_checkpoint()
        return durable

    def allocate() -> None:
        while not done.is_set():
            if store.wants_allocation:
                store.allocate_ahead()

    expected: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(40)}
    with ThreadPoolExecutor(2) as workers, ExitStack() as stack:
        stack.callback(done.set)
        flushing, allocating = workers.submit(flush), workers.submit(allocate)
        for number in range(2000):
            body = f"{number}".encode().ljust(number % 1500, b".")
            appended = store.append(a_message(body=body, queue_id=number % 40, UNIQ_KEY=f"U{number}"), NOW + number)
            assert appended.status is PutStatus.PUT_OK
            expected[number % 40].append(body)
            if number % 7 == 0:
                store.dispatch(100, ())
        store.dispatch(1000, ())
    flushing.result()
    allocating.result()
    assert {queue_id: bodies(store, "TopicA", queue_id) for queue_id in range(40)} == expected
    assert store.flush_commit_log() == store.commit_log_max_offset()
    copy = open_store(crashed_copy(tmp_path / "store", tmp_path / "copy"), mapped_file_size_commit_log=65_536)
    assert {queue_id: bodies(copy, "TopicA", queue_id) for queue_id in range(40)} == expected
