import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.server import deep_check_loop
from regulus.server.deep_check_loop import DeepCheckLoop
from regulus.store import disk, recovery
from regulus.store.file_message_store import FileMessageStore
from regulus.store.log_pass import CheckStep
from tests.stores import bodies, fill, open_store


def resting_store(root: Path, harmed: int, monkeypatch: pytest.MonkeyPatch) -> FileMessageStore:
    store = open_store(root)
    for number in range(12):
        fill(store, 5, topic=f"T{number}")
    store.close()
    for number in range(harmed):
        with (root / f"consumequeue/T{number}/0" / ("0" * 20)).open("r+b") as file:
            file.seek(20)
            file.write(b"x" * 20)
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    return open_store(root)


def checked(store: FileMessageStore) -> None:
    async def check() -> None:
        with ThreadPoolExecutor(1) as worker:
            loop = DeepCheckLoop(store, worker, pause_s=0)
            await loop.check()
            await loop.mend()
            await loop.stop()

    asyncio.run(check())


@pytest.mark.parametrize("harmed", [0, 2])
def test_queues_that_rest_are_checked_told_and_built_anew(tmp_path: Path, harmed: int, monkeypatch: pytest.MonkeyPatch,
                                                          caplog: pytest.LogCaptureFixture) -> None:
    store = resting_store(tmp_path, harmed, monkeypatch)
    with caplog.at_level(logging.INFO, deep_check_loop.__name__):
        checked(store)
    done = caplog.records[harmed]
    assert f"of 12 queues that were not used yet, {harmed} do not agree with the log" in done.message
    assert "of the log have 0 faults" in done.message
    assert done.levelno == (logging.WARNING if harmed else logging.INFO)
    assert [message.split(":")[0] for message in caplog.messages[:harmed]] == [
        f"queue 0 of T{number} ends at 1, and something was there up to 5" for number in range(harmed)]
    assert caplog.messages[harmed + 1:] == [
        f"queue 0 of T{number} was built anew from the log, from 0 to 5, and serves again" for number in range(harmed)]
    assert len(store.resting_queues()) == 12 - harmed
    assert [len(bodies(store, f"T{number}")) for number in range(12)] == [5] * 12


def test_rot_in_log_and_index_is_told_with_its_place_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    store = resting_store(tmp_path, 0, monkeypatch)
    for path, position in ((log_file(tmp_path), 120), (log_file(tmp_path), 500),
                           (index_file(tmp_path), 40 + 4 * 16 + 20)):
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"~~~~")
    checked(store)
    first, second, third, done, mended = caplog.records
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert first.message.startswith("the log is damaged at 0, byte 0 of")
    assert second.message.startswith("the log is damaged at 464, byte 464 of")
    assert third.message.startswith("index file")
    assert "of the log have 2 faults" in done.message
    assert done.message.endswith("of the index 1")
    assert "built anew from the log" in mended.message


def test_rot_in_the_index_alone_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             caplog: pytest.LogCaptureFixture) -> None:
    store = resting_store(tmp_path, 0, monkeypatch)
    with index_file(tmp_path).open("r+b") as file:
        file.seek(40 + 4 * 16 + 20)
        file.write(b"~~~~")
    checked(store)
    assert [record.levelno for record in caplog.records if "the deep check is done" in record.message] == [
        logging.WARNING]


def test_a_stop_waits_for_the_step_that_has_begun(tmp_path: Path) -> None:
    """Whoever stops it closes the store next."""
    store = open_store(tmp_path)

    async def run() -> None:
        step_ends = threading.Event()
        with ThreadPoolExecutor(1) as worker:
            loop = DeepCheckLoop(store, worker, pause_s=0)
            loop.start()
            worker.submit(step_ends.wait)
            stop = asyncio.ensure_future(loop.stop())
            try:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(stop), 0.1)
            finally:
                step_ends.set()
            await stop

    asyncio.run(run())
    store.close()


def log_file(root: Path) -> Path:
    return min((root / "commitlog").iterdir())


def index_file(root: Path) -> Path:
    return min((root / "index").iterdir())


def test_what_the_disk_refuses_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       caplog: pytest.LogCaptureFixture) -> None:
    store = resting_store(tmp_path, 1, monkeypatch)
    monkeypatch.setattr(deep_check_loop, "MEND_AGAIN_S", 0)
    monkeypatch.setattr(deep_check_loop, "MEND_INTERVAL_S", 0)
    reserve, asked = disk.reserve, []

    def refuse_once(path: str, offset: int, length: int) -> None:
        asked.append(path)
        if len(asked) == 1:
            raise StoreNotWritable("the disk is full")
        reserve(path, offset, length)

    async def run() -> None:
        monkeypatch.setattr(disk, "reserve", refuse_once)
        with ThreadPoolExecutor(1) as worker:
            loop = DeepCheckLoop(store, worker, pause_s=0)
            loop.start()
            async with asyncio.timeout(60):
                while not any("serves again" in message for message in caplog.messages):
                    await asyncio.sleep(0)
            await loop.stop()

    asyncio.run(run())
    assert sum("could not be rebuilt; the next attempt is in" in message for message in caplog.messages) == 1
    assert len(bodies(store, "T0")) == 5


class SearchedLog:
    """Of a log with damage: what its check reads without getting on."""

    def log_steps(self) -> Iterator[CheckStep]:
        yield CheckStep(0, 3 * deep_check_loop.BYTES_PER_S_MAX)
        yield CheckStep(1, 0, ("damaged",))

    def index_steps(self) -> Iterator[CheckStep]:
        return iter(())


class SearchedStore:
    deep_check = SearchedLog()

    def resting_queues(self) -> list[tuple[str, int]]:
        return []


def test_the_check_waits_for_all_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    async def run() -> None:
        with ThreadPoolExecutor(1) as worker:
            await DeepCheckLoop(SearchedStore(), worker, pause_s=0).check()

    monkeypatch.setattr(deep_check_loop.asyncio, "sleep", note)
    asyncio.run(run())
    assert waits == [3.0, 0.0]
