"""Walks in portions, stops at a fault and goes on, gives up on a damaged log."""

import asyncio
from collections.abc import Container, Sequence

import pytest

from regulus.errors import StoreDamaged
from regulus.model.store_result import Arrival
from regulus.server import dispatch_loop
from regulus.server.dispatch_loop import DISPATCH_COUNT_MAX, DispatchLoop


class Log:
    """`left` records are not dispatched yet, all of one queue."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.runs: list[int] = []
        self.fault = ""
        self.stopped = ""
        self.is_damaged = False

    def dispatch(self, count_max: int, wanted: Container[tuple[str, int]]) -> Sequence[Arrival]:
        if self.is_damaged:
            raise StoreDamaged("strange bytes")
        count = 0 if self.fault else min(count_max, self.left)
        self.runs.append(count)
        self.left -= count
        return [Arrival("T", 0, n, 0, 0) for n in range(count)] if ("T", 0) in wanted else []

    def dispatch_behind_bytes(self) -> int:
        return self.left * 100

    def stop_writes(self, reason: str) -> None:
        self.stopped = reason


class Bench:
    def __init__(self, left: int, wanted: frozenset[tuple[str, int]] = frozenset()) -> None:
        self.log = Log(left)
        self.arrived: list[int] = []
        self.loop = DispatchLoop(self.log, lambda: wanted, self.on_arrivals, lambda: 5)

    def on_arrivals(self, arrivals: Sequence[Arrival], now_ms: int) -> None:
        self.arrived.append(len(arrivals))

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


async def test_nothing_new_costs_no_walk() -> None:
    bench = Bench(0)
    bench.loop.run(1)
    assert bench.log.runs == []


async def test_a_long_walk_is_done_in_portions() -> None:
    bench = Bench(2 * DISPATCH_COUNT_MAX + 7, frozenset({("T", 0)}))
    bench.loop.run(1)
    assert bench.log.runs == [DISPATCH_COUNT_MAX]
    async with asyncio.timeout(5):
        while bench.log.left:
            await bench.turns(1)
    assert bench.log.runs == [DISPATCH_COUNT_MAX, DISPATCH_COUNT_MAX, 7]
    assert bench.arrived == bench.log.runs


async def test_only_wanted_arrivals_are_told() -> None:
    bench = Bench(10)
    bench.loop.run(1)
    assert bench.log.left == 0
    assert bench.arrived == []


async def test_a_full_disk_is_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_loop, "FAULT_RETRY_S", 0.01)
    bench = Bench(5)
    bench.log.fault = "the disk is full"
    bench.loop.run(1)
    assert bench.log.runs == [0]
    bench.log.fault = ""
    async with asyncio.timeout(5):
        while bench.log.left:
            await bench.turns(1)
    assert bench.log.runs == [0, 5]


async def test_a_damaged_log_stops_the_store(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(5)
    bench.log.is_damaged = True
    bench.loop.run(1)
    bench.loop.run(2)
    assert bench.log.stopped == "strange bytes"
    assert caplog.text.count("strange bytes") == 1


async def test_a_stopped_loop_walks_no_more() -> None:
    bench = Bench(DISPATCH_COUNT_MAX + 1)
    bench.loop.run(1)
    bench.loop.stop()
    await bench.turns(5)
    assert bench.log.left == 1
