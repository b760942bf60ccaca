import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regulus.server.queue_check_loop import QueueCheckLoop
from regulus.store import recovery
from tests.stores import fill, open_store


@pytest.mark.parametrize("harmed", [0, 2])
def test_queues_that_rest_are_checked_and_told(tmp_path: Path, harmed: int, monkeypatch: pytest.MonkeyPatch,
                                               caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    for number in range(12):
        fill(store, 5, topic=f"T{number}")
    store.close()
    for number in range(harmed):
        with (tmp_path / f"consumequeue/T{number}/0" / ("0" * 20)).open("r+b") as file:
            file.seek(20)
            file.write(b"x" * 20)
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    store = open_store(tmp_path)

    async def check() -> None:
        with ThreadPoolExecutor(1) as worker:
            loop = QueueCheckLoop(store, worker, pause_s=0)
            await loop.run()
            await loop.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(check())
    assert f"of 12 queues that were not used yet, {harmed} do not agree with the log" in caplog.messages[-1]
    assert caplog.records[-1].levelno == (logging.WARNING if harmed else logging.INFO)
    assert [message.split(":")[0] for message in caplog.messages[:-1]] == [
        f"queue 0 of T{number} ends at 1, and something was there up to 5" for number in range(harmed)]
    assert len(store.resting_queues()) == 12 - harmed
