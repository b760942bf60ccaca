"""What is saved, when, and what happens when it cannot be."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from regulus.errors import StoreNotWritable
from regulus.server.documents import DocumentKeeper


class Shelf:
    """Keeps documents and the order of deeds."""

    def __init__(self) -> None:
        self.documents: dict[str, str] = {}
        self.deeds: list[str] = []
        self.is_full = False
        self.log_fails = False

    def save_config(self, name: str, text: str) -> None:
        if self.is_full:
            raise StoreNotWritable("full")
        self.deeds.append(name)
        self.documents[name] = text

    def flush_commit_log(self) -> int:
        if self.log_fails:
            raise StoreNotWritable("broken")
        self.deeds.append("flush")
        return 0


class Bench:
    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self.shelf = Shelf()
        self.settings: dict[str, str] = {}
        self.offsets: dict[str, str] = {}
        self.keeper = DocumentKeeper(self.shelf, self.take, worker, lambda: 60_000)

    def take(self, with_offsets: bool) -> dict[str, str]:
        taken, self.settings = self.settings, {}
        if with_offsets:
            taken = {**taken, **self.offsets}
            self.offsets = {}
        return taken


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ThreadPoolExecutor(max_workers=1) as worker:
        yield Bench(worker)


async def test_settings_are_saved_at_once_without_a_flush(bench: Bench) -> None:
    bench.settings, bench.offsets = {"topics": "1"}, {"consumerOffset": "2"}
    bench.keeper.save_settings()
    assert bench.shelf.documents == {"topics": "1"}
    assert bench.shelf.deeds == ["topics"]


async def test_offsets_are_saved_behind_the_log(bench: Bench) -> None:
    bench.offsets = {"consumerOffset": "2"}
    await bench.keeper.stop()
    assert bench.shelf.deeds == ["flush", "consumerOffset"]


async def test_offsets_wait_when_the_log_cannot_be_flushed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.offsets = {"consumerOffset": "2"}
    bench.shelf.log_fails = True
    await bench.keeper.stop()
    assert bench.shelf.documents == {}
    assert "not on disk" in caplog.text


async def test_offsets_that_waited_for_the_log_are_not_saved_without_it(bench: Bench) -> None:
    bench.offsets = {"regulusSinkMarks": "1"}
    bench.shelf.log_fails = True
    await bench.keeper.stop()
    bench.settings = {"topics": "1"}
    bench.keeper.save_settings()
    assert bench.shelf.documents == {"topics": "1"}
    bench.shelf.log_fails = False
    await bench.keeper.stop()
    assert bench.shelf.documents == {"topics": "1", "regulusSinkMarks": "1"}


async def test_what_could_not_be_saved_is_saved_later(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.settings = {"topics": "1"}
    bench.shelf.is_full = True
    bench.keeper.save_settings()
    assert "topics was not saved" in caplog.text
    bench.shelf.is_full = False
    bench.keeper.save_settings()
    assert bench.shelf.documents == {"topics": "1"}


async def test_a_newer_text_replaces_one_that_could_not_be_saved(bench: Bench) -> None:
    bench.settings = {"topics": "1"}
    bench.shelf.is_full = True
    bench.keeper.save_settings()
    bench.settings = {"topics": "2"}
    bench.shelf.is_full = False
    bench.keeper.save_settings()
    assert bench.shelf.documents == {"topics": "2"}


async def test_the_interval_saves(bench: Bench) -> None:
    with ThreadPoolExecutor(max_workers=1) as worker:
        bench.keeper = DocumentKeeper(bench.shelf, bench.take, worker, lambda: 5)
        bench.offsets = {"consumerOffset": "2"}
        bench.keeper.start()
        async with asyncio.timeout(5):
            while not bench.shelf.documents:
                await asyncio.sleep(0)
        await bench.keeper.stop()
    assert bench.shelf.documents == {"consumerOffset": "2"}


async def test_the_interval_may_change_meanwhile(bench: Bench) -> None:
    intervals = iter((1, 1, 60_000))
    asked: list[int] = []

    def interval_ms() -> int:
        asked.append(next(intervals))
        return asked[-1]

    with ThreadPoolExecutor(max_workers=1) as worker:
        keeper = DocumentKeeper(bench.shelf, bench.take, worker, interval_ms)
        keeper.start()
        async with asyncio.timeout(5):
            while len(asked) < 3:
                await asyncio.sleep(0.001)
        await keeper.stop()
    assert asked == [1, 1, 60_000]
