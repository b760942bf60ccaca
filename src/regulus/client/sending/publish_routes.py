"""The routes of the topics that a producer sends to: those that are known, and else what the name servers say."""

import asyncio
from collections.abc import Callable

from regulus.client.config import ProducerConfig
from regulus.client.connecting.client_instance import ClientInstance, steady_ms
from regulus.client.core.resend import REFUSED_FIRST_MS, REFUSED_MAX_MS, REFUSED_MULTIPLIER
from regulus.client.core.routes import Route
from regulus.client.core.send_course import SendCourse
from regulus.client.sending.send_turns import SendTurns
from regulus.errors import HeaderError, NoBroker, NoNameServer, NoRoute, TooManyRequests, WrongNameServer
from regulus.model.message_queue import MessageQueue

_DOUBLED_MAX = 8


class PublishRoutes:
    """`running` gives the instance, or raises ClientClosed."""

    def __init__(self, config: ProducerConfig, turns: SendTurns, running: Callable[[], ClientInstance]) -> None:
        self._config = config
        self._turns = turns
        self._running = running

    async def known_or_asked(self, topic: str) -> Route:
        """Raises NoRoute, NoNameServer."""
        instance = self._running()
        route = instance.known_route(topic)
        if route is not None and route.publish_queues:
            return route
        try:
            return await instance.publish_route(topic, self._config.create_topic_key,
                                                self._config.default_topic_queue_nums)
        except HeaderError as error:
            raise NoRoute(str(error)) from error

    async def find(self, course: SendCourse) -> Route:
        """As `known_or_asked`, in its turn; asks again while there is no name server or no broker at all, for most that
        go are back soon.

        Raises TooManyRequests when the name servers take all the time that is left.
        """
        await self._turns.wait(self._turns.route_seekers, 1, course)
        try:
            # Thousands of sends may begin in one moment. The time of the first counts from when the last has begun.
            began = steady_ms()
            await asyncio.sleep(0)
            now = steady_ms()
            if not course.counts_waits:
                course.stand_still(now - began)
            left = course.left_ms(now)
            async with asyncio.timeout(left / 1000):
                return await self._route_of_some_broker(course)
        except TimeoutError:
            if isinstance(course.failure, NoBroker | NoNameServer):
                raise course.failure from None
            raise TooManyRequests(f"no name server told the route of {course.topic} within the {left} ms left of the "
                                  f"send's time") from course.failure
        finally:
            self._turns.route_seekers.give_back(1)

    async def without(self, queue: MessageQueue, course: SendCourse) -> None:
        """Ask for the route after a broker had no such queue. Where the name servers have it still, they hear of it
        soon, and other queues may be there: returns after a pause, a longer one each time."""
        try:
            route = await self._running().fetch_route(queue.topic)
        except (NoRoute, NoNameServer, HeaderError):
            route = None
        if route is None or queue in route.publish_queues:
            pause_ms = min(REFUSED_FIRST_MS << min(course.gone_queues, _DOUBLED_MAX), REFUSED_MAX_MS)
            await asyncio.sleep(max(0, min(pause_ms, course.left_ms(steady_ms()))) / 1000)
        course.gone_queues += 1

    async def _route_of_some_broker(self, course: SendCourse) -> Route:
        pause_ms = REFUSED_FIRST_MS
        while True:
            try:
                return await self.known_or_asked(course.topic)
            except (NoBroker, NoNameServer) as error:
                if not self._config.retry_refused_connection or isinstance(error, WrongNameServer):
                    raise
                course.failure = error
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * REFUSED_MULTIPLIER, REFUSED_MAX_MS)
