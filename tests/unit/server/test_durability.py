"""Answers leave when all that they wait for has come so far."""

import asyncio
from collections.abc import Callable

import pytest

from regulus.server.durability import Durability
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

DISK, REPLICAS = ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT
ABSENT = ResponseCode.SLAVE_NOT_AVAILABLE


class Written:
    """A writer that is no connection, and the answers that it got."""

    def __init__(self) -> None:
        self.writes: list[list[RemotingCommand]] = []
        self.wrote = asyncio.Event()

    def write(self, data: bytes) -> None:
        reader = FrameReader()
        reader.feed(data)
        self.writes.append(reader.frames())
        self.wrote.set()

    @property
    def told(self) -> list[tuple[int, int]]:
        return [(answer.opaque, answer.code) for answers in self.writes for answer in answers]


class Desk:
    """Two conditions, as of a broker with a replica."""

    def __init__(self, timeout: float = 60.0) -> None:
        self.releases = 0
        self.hastened: list[str] = []
        self.durability = Durability(timeout, self.released)
        self.flushed = self.durability.require(DISK, self.hasten("disk"))
        self.replicated = self.durability.require(REPLICAS, self.hasten("replicas"))
        self.written = Written()

    def released(self) -> None:
        self.releases += 1

    def hasten(self, name: str) -> Callable[[], None]:
        return lambda: self.hastened.append(name)

    def wait(self, end: int, *, is_firm: bool = False) -> None:
        """The answer waits for `end`, which is its opaque too."""
        frame = RemotingCommand.request(10, opaque=end).response(0).encode()
        self.durability.answer_when_durable(end, self.written, frame, is_firm)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_an_answer_leaves_when_the_last_condition_has_reached_it(desk: Desk) -> None:
    desk.wait(100)
    desk.wait(200)
    assert desk.hastened == ["disk", "replicas"] * 2
    desk.flushed.reached(200)
    assert (desk.written.told, desk.releases) == ([], 0)
    desk.replicated.reached(150)
    assert (desk.written.told, desk.releases) == ([(100, 0)], 1)
    assert desk.durability.is_awaited
    desk.replicated.reached(200)
    assert (desk.written.told, desk.releases) == ([(100, 0), (200, 0)], 2)
    assert not desk.durability.is_awaited
    desk.durability.stop()


async def test_what_is_released_together_leaves_in_one_write(desk: Desk) -> None:
    desk.wait(100)
    desk.wait(200)
    desk.replicated.reached(900)
    desk.flushed.reached(300)
    assert [len(answers) for answers in desk.written.writes] == [2]
    desk.durability.stop()


async def test_what_somebody_waits_for_is_known(desk: Desk) -> None:
    assert not desk.durability.is_awaited_behind(0)
    desk.wait(100)
    desk.wait(200)
    assert [desk.durability.is_awaited_behind(end) for end in (100, 199, 200)] == [True, True, False]
    desk.durability.stop()


async def test_a_condition_that_fails_refuses_all_that_waits(desk: Desk) -> None:
    desk.wait(100)
    desk.wait(200)
    desk.durability.refuse("the disk failed")
    assert desk.written.told == [(100, ResponseCode.SERVICE_NOT_AVAILABLE), (200, ResponseCode.SERVICE_NOT_AVAILABLE)]
    assert {answer.remark for answers in desk.written.writes for answer in answers} == {"the disk failed"}
    assert (desk.durability.is_awaited, desk.releases) == (False, 0)
    desk.durability.stop()


async def test_who_waits_for_nobody_is_told_so_when_the_rest_is_done(desk: Desk) -> None:
    desk.wait(100)
    desk.replicated.reached(150)
    desk.wait(200)
    desk.replicated.give_up(ABSENT)
    assert desk.written.told == []
    desk.wait(300)
    desk.flushed.reached(250)
    assert desk.written.told == [(100, ResponseCode.SUCCESS), (200, ABSENT)]
    desk.replicated.reached(260)        # somebody is there again, and who came meanwhile keeps what it was told
    desk.wait(400)
    desk.flushed.reached(400)
    desk.replicated.reached(400)
    assert desk.written.told[2:] == [(300, ABSENT), (400, ResponseCode.SUCCESS)]
    desk.durability.stop()


async def test_an_answer_that_comes_late_does_not_wait_for_what_is_there(desk: Desk) -> None:
    desk.flushed.reached(100)
    desk.replicated.reached(100)
    desk.wait(90)
    assert desk.written.told == [(90, ResponseCode.SUCCESS)]
    desk.durability.stop()


async def test_without_any_condition_to_wait_for_answers_leave_at_once(desk: Desk) -> None:
    desk.flushed.give_up(DISK)
    desk.replicated.give_up(ABSENT)
    desk.wait(100)
    assert desk.written.told == [(100, ABSENT)]
    assert not desk.durability.is_awaited
    desk.durability.stop()


@pytest.mark.parametrize(("flushed", "replicated", "code"), [(50, 100, DISK), (100, 50, REPLICAS)])
async def test_who_waited_too_long_hears_what_is_behind(flushed: int, replicated: int, code: ResponseCode) -> None:
    desk = Desk(timeout=0.01)
    desk.flushed.reached(flushed)
    desk.replicated.reached(replicated)
    desk.wait(100)
    await asyncio.wait_for(desk.written.wrote.wait(), 60)
    assert desk.written.told == [(100, code)]
    assert not desk.durability.is_awaited
    desk.durability.stop()


async def test_a_firm_answer_waits_and_leaves_as_it_is() -> None:
    """Whether its time is up, or there is nobody to wait for, before it came or since."""
    desk = Desk(timeout=0.01)
    desk.wait(100, is_firm=True)
    await asyncio.wait_for(desk.written.wrote.wait(), 60)
    desk.replicated.reached(150)
    desk.wait(200, is_firm=True)
    desk.replicated.give_up(ABSENT)
    desk.wait(300, is_firm=True)
    assert desk.written.told == [(100, ResponseCode.SUCCESS)]
    desk.flushed.reached(300)
    assert desk.written.told == [(each, ResponseCode.SUCCESS) for each in (100, 200, 300)]
    desk.wait(400, is_firm=True)
    desk.durability.refuse("the disk failed")
    assert desk.written.told[3:] == [(400, ResponseCode.SERVICE_NOT_AVAILABLE)]
    desk.durability.stop()


async def test_who_came_later_does_not_wait_for_ever_behind_one_that_waited_too_long() -> None:
    desk = Desk(timeout=0.03)
    desk.wait(100)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() < began + 0.015:
        await asyncio.sleep(0)
    desk.wait(200)
    async with asyncio.timeout(60):
        while desk.durability.is_awaited:
            desk.written.wrote.clear()
            await desk.written.wrote.wait()
    assert desk.written.told == [(100, DISK), (200, DISK)]
    desk.durability.stop()
