"""Routes and settings of topics and groups, which the proxy fetches from brokers and keeps for some seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from regulus.client.core.routes import Route, route_of
from regulus.errors import CallRefused, HeaderError
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.proxy import topic_types
from regulus.proxy.brokers import NAME_SERVER, Brokers, masters_of
from regulus.proxy.config import ProxyConfig
from regulus.proxy.routing import readable_brokers
from regulus.proxy.status import checked
from regulus.wire import json_fields
from regulus.wire.bodies import TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc.codes import Code, MessageType
from regulus.wire.headers import (
    GetRouteinfoByTopicRequest,
    GetSubscriptiongroupConfigRequest,
    GetTopicConfigRequest,
)
from regulus.wire.remoting_command import RemotingCommand

T = TypeVar("T")

KEPT_MAX = 10_000
"""Values of one kind that are kept. At one more, the value that was fetched longest ago is dropped."""
FRESH_S = 5.0
"""How long a value is used before it is fetched again: a change of a topic or group takes effect this much later."""
REFRESH_S_MAX = 0.5
"""How long a call waits for a newer value before it uses the one that is kept."""
AGAIN_S = 1.0
"""Pause after a failed refresh, in which the kept value is used."""
ASK_TIMEOUT_MS = 3_000
"""How long a broker or name server may take to answer."""
_PASSING = frozenset((Code.PROXY_TIMEOUT, Code.INTERNAL_SERVER_ERROR, Code.TOO_MANY_REQUESTS))
"""Failures that say nothing about the topic or group itself, so that the kept value stays valid."""


class _Value(Generic[T]):
    """A value, and the time of the event loop until which it is used without asking again."""

    __slots__ = ("fresh_until_s", "value")

    def __init__(self, value: T, fresh_until_s: float) -> None:
        self.value = value
        self.fresh_until_s = fresh_until_s


class _Kept(Generic[T]):
    """Values by name. Calls that need a value at the same time share one request for it. Failures are not kept: while a
    name server or broker does not answer, its last answer holds."""

    def __init__(self) -> None:
        self._values: dict[str, _Value[T]] = {}
        self._asking: dict[str, tuple[asyncio.Task[T], float]] = {}

    async def get(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        kept, now_s = self._values.get(name), loop.time()
        if kept is not None and now_s < kept.fresh_until_s:
            return kept.value
        if name not in self._asking:
            task = loop.create_task(self._ask(name, ask))
            task.add_done_callback(lambda done: self._answered(name, done))
            self._asking[name] = task, now_s
        task, begun_s = self._asking[name]
        if kept is None:
            return await asyncio.shield(task)
        await asyncio.wait([task], timeout=max(0.0, begun_s + REFRESH_S_MAX - now_s))
        return kept.value if not task.done() or _may_pass(task.exception()) else task.result()

    def doubt(self, name: str) -> None:
        """Have the next call fetch the value again."""
        kept = self._values.get(name)
        if kept is not None:
            kept.fresh_until_s = 0.0

    async def _ask(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        value = await ask()
        self._values.pop(name, None)
        if len(self._values) >= KEPT_MAX:
            del self._values[next(iter(self._values))]
        self._values[name] = _Value(value, asyncio.get_running_loop().time() + FRESH_S)
        return value

    def _answered(self, name: str, task: "asyncio.Task[T]") -> None:
        del self._asking[name]
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        kept = self._values.get(name)
        if kept is not None and _may_pass(error):
            kept.fresh_until_s = asyncio.get_running_loop().time() + AGAIN_S
        else:
            self._values.pop(name, None)


def _may_pass(error: BaseException | None) -> bool:
    return isinstance(error, CallRefused) and error.code in _PASSING


class Catalog:
    """Looks up topics and groups. All methods raise CallRefused, TOPIC_NOT_FOUND among others."""

    def __init__(self, brokers: Brokers, config: ProxyConfig) -> None:
        self._brokers = brokers
        self._config = config
        self._routes: _Kept[tuple[TopicRouteData, Route]] = _Kept()
        self._types: _Kept[tuple[MessageType, ...]] = _Kept()
        self._groups: _Kept[SubscriptionGroupConfig] = _Kept()
        self._all: _Kept[list[str]] = _Kept()

    async def route(self, topic: str) -> TopicRouteData:
        return (await self._routes.get(topic, lambda: self._ask_route(topic)))[0]

    async def queues(self, topic: str) -> Route:
        return (await self._routes.get(topic, lambda: self._ask_route(topic)))[1]

    def doubt_route(self, topic: str) -> None:
        """Have the route fetched again, because a broker lacks a queue that it lists."""
        self._routes.doubt(topic)

    async def types(self, topic: str) -> tuple[MessageType, ...]:
        """The types of messages that the topic accepts."""
        return await self._types.get(topic, lambda: self._ask_types(topic))

    async def group(self, group: str, topic: str = "") -> SubscriptionGroupConfig:
        """The settings of a group, from a broker of its topic. A group that no broker knows has the defaults."""
        return await self._groups.get(group, lambda: self._ask_group(group, topic))

    async def _ask_route(self, topic: str) -> tuple[TopicRouteData, Route]:
        command = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC,
                                          GetRouteinfoByTopicRequest(topic=topic).ext())
        answer = await self._brokers.ask(NAME_SERVER, command, ASK_TIMEOUT_MS)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise CallRefused(Code.TOPIC_NOT_FOUND,
                              f"no broker serves topic {topic}: create it first (regulus topic create {topic})")
        try:
            data = TopicRouteData.decode(checked(answer).body)
            return data, route_of(topic, data)
        except HeaderError as error:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"the route of topic {topic}: {error}") from error

    async def _ask_types(self, topic: str) -> tuple[MessageType, ...]:
        route = await self.route(topic)
        names = sorted(data.broker_name for data in route.broker_datas if 0 in data.broker_addrs)
        answer = await self._first_answer(names, RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequest(topic=topic).ext(),
                                          ResponseCode.TOPIC_NOT_EXIST)
        attributes = {} if answer is None else json_fields.decode(TopicConfig, answer.body).attributes
        return topic_types.accepted(attributes, self._config.untyped_topics_take_all)

    async def _ask_group(self, group: str, topic: str) -> SubscriptionGroupConfig:
        names = readable_brokers(await self.route(topic)) if topic else await self.masters()
        answer = await self._first_answer(names, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
                                          GetSubscriptiongroupConfigRequest(group).ext(),
                                          ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        if answer is None:
            return SubscriptionGroupConfig(group_name=group)
        return json_fields.decode(SubscriptionGroupConfig, answer.body)

    async def _first_answer(self, names: Sequence[str], code: RequestCode, ext: dict[str, str],
                            unknown: ResponseCode) -> RemotingCommand | None:
        """The answer of the first broker that knows the topic or group; None if all answer that they do not.

        A broker that is unreachable or busy does not count as one that does not know it. Otherwise defaults would take
        effect, and an ordered group would be consumed out of order. Raises CallRefused in this case."""
        failure: CallRefused | None = None
        for name in names:
            try:
                answer = await self._brokers.ask(name, RemotingCommand.request(code, dict(ext)), ASK_TIMEOUT_MS)
                if answer.code not in (unknown, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
                    return checked(answer)
            except CallRefused as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return None

    async def masters(self) -> list[str]:
        """Names of the brokers that have a master, sorted."""
        return await self._all.get("", self._ask_masters)

    async def _ask_masters(self) -> list[str]:
        return await masters_of(self._brokers, ASK_TIMEOUT_MS)
