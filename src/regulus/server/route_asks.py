"""Asks a name server for routes on behalf of requests whose answers need them."""

import asyncio
import logging
from collections.abc import Callable

from regulus.broker.outcome import Notice, Reply
from regulus.broker.state import BrokerState, RouteAsk
from regulus.errors import HeaderError
from regulus.server.nameserver_link import NameServerDoor
from regulus.wire.bodies import TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetRouteinfoByTopicRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)


class RouteAsks:
    """`told` is called when an answer is in the broker's notices."""

    def __init__(self, broker: BrokerState, door: NameServerDoor, told: Callable[[], None]) -> None:
        self._broker = broker
        self._door = door
        self._told = told
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self) -> None:
        """Begin with the routes that the broker needs."""
        while self._broker.route_asks:
            task = asyncio.ensure_future(self._ask(self._broker.route_asks.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _ask(self, ask: RouteAsk) -> None:
        route = None
        try:
            route = await self._route(ask.topic)
        finally:
            self._broker.notices.append(Notice(ask.channel, Reply(ask.answer(route))))
            self._told()

    async def _route(self, topic: str) -> TopicRouteData | None:
        header = GetRouteinfoByTopicRequest(topic=topic)
        answer = await self._door.ask(RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.ext()))
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return None
        try:
            return TopicRouteData.decode(answer.body)
        except HeaderError as error:
            _log.warning("a name server tells a route of %s that cannot be read: %s", topic, error)
            return None
