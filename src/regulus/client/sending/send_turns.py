"""The turns of a producer's sends: a place among the requests to a broker, and room for the bytes of all under way.

A wait stands still in the course of its send, or counts, as the course says.
"""

import asyncio

from regulus.client.connecting.client_instance import steady_ms
from regulus.client.connecting.limited_room import Room
from regulus.client.core.send_course import SendCourse
from regulus.errors import TooManyRequests


class SendTurns:
    """`under_way`: of the bytes of all sends; `route_seekers`: of those that ask for the route of a topic."""

    def __init__(self, size_max: int, sends_max: int) -> None:
        self.under_way = Room(size_max)
        self.route_seekers = Room(sends_max)

    def begin(self, places: Room, weight: int, size: int) -> bool:
        """False when it is not our turn yet; then nothing was taken."""
        if places.take(weight):
            if self.under_way.take(size):
                return True
            places.give_back(weight)
        return False

    async def wait_turn(self, places: Room, weight: int, size: int, course: SendCourse) -> None:
        """Raises TooManyRequests when the wait counts and takes all the time."""
        await self.wait(places, weight, course)
        has_turn = False
        try:
            await self.wait(self.under_way, size, course)
            has_turn = True
        finally:
            if not has_turn:
                places.give_back(weight)

    async def wait(self, room: Room, size: int, course: SendCourse) -> None:
        """Raises as `wait_turn`."""
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
