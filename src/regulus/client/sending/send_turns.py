"""The turns of a producer's sends: a place among the requests to a broker, and room for the bytes of all under way.

`SendCourse.counts_waits` decides whether waiting for a turn counts as time of the send.
"""

import asyncio

from regulus.client.connecting.client_instance import steady_ms
from regulus.client.connecting.limited_room import LimitedRoom
from regulus.client.core.send_course import SendCourse
from regulus.errors import TooManyRequests


class SendTurns:
    """`under_way`: room for the bytes of all sends. `route_seekers`: room for sends that fetch the route of a topic."""

    def __init__(self, size_max: int, sends_max: int) -> None:
        self.under_way = LimitedRoom(size_max)
        self.route_seekers = LimitedRoom(sends_max)

    def begin(self, places: LimitedRoom, weight: int, size: int) -> bool:
        """Take a place and room now; False when it is not our turn yet, and then nothing is taken."""
        if places.take(weight):
            if self.under_way.take(size):
                return True
            places.give_back(weight)
        return False

    async def wait_turn(self, places: LimitedRoom, weight: int, size: int, course: SendCourse) -> None:
        """Wait for a place and for room. Raises TooManyRequests when the wait counts and takes all the time."""
        await self.wait(places, weight, course)
        has_turn = False
        try:
            await self.wait(self.under_way, size, course)
            has_turn = True
        finally:
            if not has_turn:
                places.give_back(weight)

    async def wait(self, room: LimitedRoom, size: int, course: SendCourse) -> None:
        """Wait for `size` in one room. Raises like `wait_turn`."""
        if room.take(size):
            return
        began = steady_ms()
        if not course.counts_waits:
            await room.wait(size)
            course.stand_still(steady_ms() - began)
            return
        try:
            async with asyncio.timeout(course.left_ms(began) / 1000):
                await room.wait(size)
        except TimeoutError:
            raise TooManyRequests(f"within {course.timeout_ms} ms it was not the turn of this send to {course.topic}: "
                                  f"as much is under way as back_pressure_for_async_send_num and "
                                  f"back_pressure_for_async_send_size allow") from course.failure
