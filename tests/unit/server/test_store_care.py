import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regulus.server.store_care import StoreCare
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
