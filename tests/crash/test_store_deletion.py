"""A broker is killed before each single step of deleting old files: what is left opens, whole from its new start on."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.stores import NOW, a_message, bodies, fill, open_store

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.model.store_result import PutStatus
from regulus.server.retention_loop import RetentionLoop
from regulus.server.workers import Line, ThreadWorkers
from regulus.store import disk

COUNT = 100
QUEUES = 2
FILE = 4096
KILLED = -int(signal.SIGKILL)
DEEDS_MAX = 200


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose files are old, left as by a kill or by a clean stop."""
    root = tmp_path_factory.mktemp("template") / "store"
    store = open_store(root)
    fill(store, COUNT, queues=QUEUES)
    store.flush_commit_log()
    store.flush_consume_queues(0)
    store.flush_checkpoint()
    shutil.copytree(root, root.with_name("killed"))
    store.close()
    return root.parent


async def delete_all(root: Path) -> None:
    """As on a disk without room: everything but the newest files goes."""
    store = open_store(root)
    broker = BrokerState(replace(BrokerConfig(), delete_commit_log_files_interval=0, delete_file_batch_max=100,
                                 delete_consume_queue_files_interval=0), store)
    loop = RetentionLoop(store, broker, lambda: NOW, ThreadWorkers().line(Line.RETENTION))
    await loop.run_pass(NOW)
    await loop.follow()


def child(root: Path, deeds: int) -> int:
    """Exit status of a process that deletes, and is killed before its deed number `deeds`."""
    process = os.fork()
    if process:
        _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status)
    done = 0

    def killing(deed: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal done
            if done == deeds:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return deed(*args)
        return call

    status = 1
    try:
        disk.used_ratio = lambda path: 0.99
        for name in ("remove_file", "sync_directory", "remove_tree"):
            setattr(disk, name, killing(getattr(disk, name)))
        asyncio.run(delete_all(root))
        status = 0
    finally:
        os._exit(status)


def check(root: Path) -> tuple[int, int]:
    """The store opens and is whole; how many files of log and how many in all it has."""
    store = open_store(root)
    start = store.commit_log_min_offset()
    kept = []
    for queue_id in range(QUEUES):
        numbers = [int(body[:8]) for body in bodies(store, queue_id=queue_id)]
        assert numbers == list(range(numbers[0], COUNT, QUEUES))
        assert store.min_offset("TopicA", queue_id) == numbers[0] // QUEUES
        assert store.max_offset("TopicA", queue_id) == COUNT // QUEUES
        kept += numbers
    # Everything that the log still has is served, and nothing that it has not.
    assert sorted(kept) == list(range(min(kept), COUNT))
    read = store.read_log(start, 1, store.flushed_offset)
    assert read is not None
    assert read.next_offset > start
    oldest = store.look_message(start)
    assert oldest is not None
    assert int(oldest.body[:8]) == min(kept)
    assert len(store.query_message("TopicA", f"U{COUNT - 1:08d}", 32, 0, 1 << 62).buffers) >= 1
    assert store.append(a_message(), NOW + COUNT).status is PutStatus.PUT_OK
    assert store.append(a_message(), NOW + COUNT).queue_offset == COUNT // QUEUES + 1
    files = len(disk.names(store.config.commit_log_directory))
    in_all = sum(1 for path in root.rglob("*") if path.is_file() and path.name.isdigit())
    store.close()
    return files, in_all


@pytest.mark.parametrize("kind", ["store", "killed"])
def test_killed_at_each_step_of_a_deletion(template: Path, tmp_path: Path, kind: str) -> None:
    log_files, all_files = check(shutil.copytree(template / kind, tmp_path / "whole"))
    left = []
    for deeds in range(DEEDS_MAX):
        root = Path(shutil.copytree(template / kind, tmp_path / str(deeds)))
        status = child(root, deeds)
        assert status in (0, KILLED)
        left.append(check(root))
        shutil.rmtree(root)
        if status == 0:
            break
    assert status == 0
    # Each deed brought it further, from everything to the newest files only.
    assert left[0] == (log_files, all_files)
    assert left[-1][0] <= 2
    assert left == sorted(left, reverse=True)
    assert len({files for files, _ in left}) == log_files - left[-1][0] + 1
    assert left[-1][1] < all_files // 3


def test_killed_again_and_again_it_gets_there(template: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(template / "killed", tmp_path / "store"))
    for deeds in (3, 4, 2, 9, 5, 1, 14, 7):
        child(root, deeds)
    assert child(root, 10_000) == 0
    files, _ = check(root)
    assert files <= 2
