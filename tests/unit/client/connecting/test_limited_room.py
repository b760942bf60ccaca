"""Who may enter a room, and who waits for it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.client.connecting.limited_room import LimitedRoom


async def settle():
    """Until all that was ready has run."""
    for _ in range(5):
        await asyncio.sleep(0)


class Line:
    """Those who wait for a room, and the order in which they entered."""

    def __init__(self, room):
        self.room = room
        self.entered = []
        self.tasks = []

    async def join(self, name, size):
        async def enter():
            await self.room.wait(size)
            self.entered.append(name)
        task = asyncio.ensure_future(enter())
        self.tasks.append(task)
        await settle()
        return task


def test_who_finds_room_enters_at_once():
    room = LimitedRoom(3)
    assert room.take(1)
    assert room.take(2)
    assert not room.take(1)
    room.give_back(2)
    assert room.take(1)
    assert room.size == 2


def test_no_limit_is_no_limit():
    room = LimitedRoom(0)
    assert all(room.take(1 << 30) for _ in range(100))


async def test_who_waits_enters_in_order_and_nobody_overtakes():
    room = LimitedRoom(2)
    assert room.take(2)
    line = Line(room)
    for name in "abc":
        await line.join(name, 1)
    room.give_back(1)
    await settle()
    assert line.entered == ["a"]
    assert not room.take(1)
    room.give_back(2)
    await settle()
    assert line.entered == ["a", "b", "c"]
    assert room.size == 2


async def test_a_large_one_is_not_passed_by_small_ones():
    room = LimitedRoom(10)
    assert room.take(5)
    line = Line(room)
    await line.join("large", 8)
    await line.join("small", 1)
    assert not room.take(1)
    room.give_back(5)
    await settle()
    assert line.entered == ["large", "small"]


async def test_one_that_is_larger_than_the_room_has_it_to_itself():
    room = LimitedRoom(10)
    assert room.take(1)
    line = Line(room)
    await line.join("huge", 100)
    room.give_back(1)
    await settle()
    assert line.entered == ["huge"]
    assert not room.take(1)
    room.give_back(100)
    assert room.take(1)


async def test_who_gives_up_leaves_no_hole_in_the_line():
    room = LimitedRoom(1)
    assert room.take(1)
    line = Line(room)
    await line.join("a", 1)
    gives_up = await line.join("b", 1)
    await line.join("c", 1)
    gives_up.cancel()
    await settle()
    assert len(room._line) == 2
    for _ in range(2):
        room.give_back(1)
        await settle()
    assert line.entered == ["a", "c"]


async def test_when_a_large_one_gives_up_those_behind_it_need_not_wait():
    room = LimitedRoom(10)
    assert room.take(5)
    line = Line(room)
    large = await line.join("large", 8)
    await line.join("small", 1)
    large.cancel()
    await settle()
    assert line.entered == ["small"]
    assert room.size == 6


async def test_a_turn_that_comes_when_one_gives_up_goes_to_the_next():
    room = LimitedRoom(1)
    assert room.take(1)
    line = Line(room)
    first = await line.join("a", 1)
    await line.join("b", 1)
    room.give_back(1)       # the turn of "a", which does not know of it yet
    first.cancel()
    await settle()
    assert line.entered == ["b"]
    room.give_back(1)
    assert room.size == 0


async def test_one_that_gave_up_and_does_not_know_it_yet_gets_no_turn():
    room = LimitedRoom(1)
    assert room.take(1)
    line = Line(room)
    first = await line.join("a", 1)
    await line.join("b", 1)
    first.cancel()
    room.give_back(1)
    await settle()
    assert line.entered == ["b"]
    assert room.size == 1


@pytest.mark.parametrize("size_max", [1, 7])
@given(steps=st.lists(st.tuples(st.sampled_from(["join", "leave", "give up"]), st.integers(1, 9)), max_size=40),
       is_settled=st.booleans())
def test_the_room_is_never_too_full_and_everybody_enters_or_gives_up(size_max, steps, is_settled):
    """Who is let in goes on in the next turn of the loop; who comes in between and finds room is not held up."""
    async def play():
        room = LimitedRoom(size_max)
        inside, waiting, order = [], {}, []

        async def enter(name, size):
            await room.wait(size)
            inside.append(size)
            order.append(name)

        for name, (step, number) in enumerate(steps):
            if step == "join":
                waiting[name] = asyncio.ensure_future(enter(name, number))
            elif step == "leave" and inside:
                room.give_back(inside.pop(number % len(inside)))
            elif step == "give up" and waiting:
                waiting.pop(list(waiting)[number % len(waiting)]).cancel()
            if is_settled or number % 2:
                await settle()
                assert room.size == sum(inside)
                assert sum(inside) <= size_max or len(inside) == 1
        await settle()
        while inside:
            room.give_back(inside.pop())
            await settle()
        assert all(task.done() for task in waiting.values())
        assert not is_settled or order == sorted(order)
        assert room.size == 0
        assert not room._line

    asyncio.run(play())
