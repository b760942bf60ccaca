import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.record import queue_table
from regulus.server.store_care import FAULT_REPORT_INTERVAL_MS, TABLE_RETRY_INTERVAL_MS, StoreCare
from regulus.store import disk
from regulus.store.checkpoint_file import MARK_NAME
from regulus.store.file_message_store import FileMessageStore
from regulus.store.queue_table_file import NAME as TABLE_NAME
from tests.stores import fill, small_config


async def test_an_accident_is_told_and_queues_are_brought_to_disk_all_the_same(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = small_config(tmp_path, flush_interval_consume_queue=1)
    store = FileMessageStore(config)
    store.open()
    fill(store, 5)
    store.flush_commit_log()
    calls = 0

    def clock() -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ZeroDivisionError
        return calls

    with ThreadPoolExecutor(1) as allocator, ThreadPoolExecutor(1) as flusher:
        care = StoreCare(store, config, clock, allocator, flusher)
        care.start()
        async with asyncio.timeout(60):
            while not (tmp_path / MARK_NAME).exists():
                await asyncio.sleep(0)
        await care.stop()
    assert [message for message in caplog.messages if "was interrupted and begins again" in message]
    assert calls > 2
    store.close()


NOT_ON_DISK = "queues, index or what is known of them are not brought to disk"


class TroubledStore:
    """What the care asks of a store whose disk is full until a test says otherwise; counts what it is asked."""

    wants_allocation = False
    wants_queue_table = False
    deletion_fault = ""

    def __init__(self) -> None:
        self.fault = "the disk is full"
        self.has_room = False
        self.free = 0
        self.flushes = 0

    @property
    def is_writable(self) -> bool:
        return self.has_room

    def finish_start(self) -> None:
        pass

    def flush_consume_queues(self, least_pages: int) -> None:
        self.flushes += 1
        if not self.has_room:
            self.free += 1
            raise StoreNotWritable(f"the disk of /store/Topic{'AB'[self.free % 2]}/0 is full ({self.free} bytes free)")

    def flush_mark(self) -> None:
        pass

    def begin_timers(self) -> None:
        """Nothing waits."""


async def test_a_full_disk_is_told_once_a_minute_and_room_although_nobody_sends(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, now = TroubledStore(), 0

    async def rounds(count: int) -> list[str]:
        """What was told in so many rounds, in the order of the alphabet."""
        caplog.clear()
        until = store.flushes + count
        async with asyncio.timeout(60):
            while store.flushes < until:
                await asyncio.sleep(0)
        return sorted(caplog.messages)

    config = small_config(tmp_path, flush_interval_consume_queue=1, flush_consume_queue_thorough_interval=1 << 40)
    with ThreadPoolExecutor(1) as worker:
        care = StoreCare(store, config, lambda: now, worker, worker)    # type: ignore[arg-type]
        care.start()
        told = await rounds(10)
        assert told == [
            "messages are refused: the disk is full",
            f"{NOT_ON_DISK}: the disk of /store/TopicB/0 is full (1 bytes free)"]
        assert await rounds(10) == []
        now = FAULT_REPORT_INTERVAL_MS
        assert [message.split(":")[0] for message in await rounds(10)] == [
            "messages are refused", NOT_ON_DISK]
        store.has_room = True       # and the fault stays, for no append came
        assert await rounds(10) == [
            "messages are taken again", "queues, index and what is known of them are brought to disk again"]
        await care.stop()


async def test_what_was_deleted_is_in_the_table_within_a_second_or_told(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    config = small_config(tmp_path, flush_interval_consume_queue=1, flush_consume_queue_thorough_interval=1 << 40)
    store = FileMessageStore(config)
    store.open()
    fill(store, 5)
    store.flush_commit_log()
    now = 0

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise StoreNotWritable(f"the disk of {path} is full")

    def told() -> list[tuple[str, str]]:
        return [(record.levelname, record.message) for record in caplog.records
                if record.message.startswith("deleted messages")]

    async def until(is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0)

    with ThreadPoolExecutor(1) as worker:
        care = StoreCare(store, config, lambda: now, worker, worker)
        care.start()
        await until(lambda: (tmp_path / TABLE_NAME).exists() and not store.wants_queue_table)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "append_to", refuse)
            patch.setattr(disk, "write_file", refuse)
            store.delete_topic("TopicA")
            await until(lambda: bool(told()))
            cause = f"the disk of {tmp_path / TABLE_NAME} is full"
            assert told() == [("WARNING", f"deleted messages may come back after a power cut: {cause}")]
        now = TABLE_RETRY_INTERVAL_MS
        await until(lambda: len(told()) == 2)
        assert told()[1][1] == "deleted messages do not come back after a power cut any more"
        await care.stop()
    assert ("TopicA", 0) in queue_table.decode((tmp_path / TABLE_NAME).read_bytes()).births
    store.close()
