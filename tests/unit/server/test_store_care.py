import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.server.store_care import FAULT_REPORT_INTERVAL_MS, StoreCare
from regulus.store.checkpoint_file import MARK_NAME
from regulus.store.file_message_store import FileMessageStore
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
        async with asyncio.timeout(30):
            while not (tmp_path / MARK_NAME).exists():
                await asyncio.sleep(0)
        await care.stop()
    assert [message for message in caplog.messages if "was interrupted and begins again" in message]
    assert calls > 2
    store.close()


class TroubledStore:
    """What the care asks of a store whose disk is full until a test says otherwise; counts what it is asked."""

    wants_allocation = False

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
            raise StoreNotWritable(f"the disk is full ({self.free} bytes free)")

    def flush_mark(self) -> None:
        pass


async def test_a_full_disk_is_told_once_a_minute_and_room_although_nobody_sends(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, now = TroubledStore(), 0

    async def rounds(count: int) -> list[str]:
        """What was told in so many rounds, in the order of the alphabet."""
        caplog.clear()
        until = store.flushes + count
        async with asyncio.timeout(30):
            while store.flushes < until:
                await asyncio.sleep(0)
        return sorted(caplog.messages)

    config = small_config(tmp_path, flush_interval_consume_queue=1, flush_consume_queue_thorough_interval=1 << 40)
    with ThreadPoolExecutor(1) as worker:
        care = StoreCare(store, config, lambda: now, worker, worker)    # type: ignore[arg-type]
        care.start()
        told = await rounds(10)
        assert told == ["consume queues are not flushed: the disk is full (1 bytes free)",
                        "messages are refused: the disk is full"]
        assert await rounds(10) == []
        now = FAULT_REPORT_INTERVAL_MS
        assert [message.split(":")[0] for message in await rounds(10)] == [
            "consume queues are not flushed", "messages are refused"]
        store.has_room = True       # and the fault stays, for no append came
        assert await rounds(10) == ["consume queues are flushed again", "messages are taken again"]
        await care.stop()
