"""Work at brokers, side by side."""

import asyncio

import pytest

from regulus.proxy import lanes
from regulus.proxy.lanes import AT_ONCE_MAX, Lanes


async def test_a_lane_does_so_many_at_once_in_order_and_holds_up_no_other() -> None:
    work = Lanes()
    begun: list[tuple[str, int]] = []
    gate = asyncio.Event()

    def job(broker: str, number: int) -> lanes.Job:
        async def do() -> None:
            begun.append((broker, number))
            if broker == "slow":
                await gate.wait()
        return do

    for number in range(AT_ONCE_MAX + 5):
        assert work.put("slow", job("slow", number))
    assert work.put("fast", job("fast", 0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == [*(("slow", number) for number in range(AT_ONCE_MAX)), ("fast", 0)]
    assert len(work) == 5
    gate.set()
    await work.finish()
    assert begun[-5:] == [("slow", AT_ONCE_MAX + number) for number in range(5)]
    assert len(work) == 0
    assert work._waiting == work._working == {}


async def test_a_job_that_breaks_ends_no_lane(caplog: pytest.LogCaptureFixture,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "AT_ONCE_MAX", 1)
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MIN", 1)
    work = Lanes()
    done = []

    async def broken() -> None:
        raise ValueError("broken")

    async def whole() -> None:
        done.append(1)

    work.put("a", broken)
    work.put("a", whole)
    await work.finish()
    assert done == [1]
    assert "broken" in caplog.text


async def test_more_than_may_wait_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "WAITING_MAX", 2)
    monkeypatch.setattr(lanes, "FINISH_MS", 10)
    work = Lanes()

    async def never() -> None:
        await asyncio.Event().wait()

    assert [work.put("a", never) for _ in range(3)] == [True, True, False]
    await work.finish()
