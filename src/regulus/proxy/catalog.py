"""What the front knows of topics and groups: asked of brokers, and kept for some seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from regulus.client.core.routes import Route, route_of
from regulus.errors import CallRefused, HeaderError
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.proxy import topic_types
from regulus.proxy.brokers import NAME_SERVER, Brokers
from regulus.proxy.config import ProxyConfig
from regulus.proxy.routing import readable_brokers
from regulus.proxy.status import checked
from regulus.wire import json_fields
from regulus.wire.bodies import ClusterInfo, TopicRouteData
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
"""Things of one kind that are kept; above it those that were asked for longest ago are forgotten."""
FRESH_S = 5.0
ASK_TIMEOUT_MS = 3_000


class _Kept(Generic[T]):
    """Values by name, each asked for once by all that want it at the same time. A failure is not kept."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[float, T]] = {}
        self._asking: dict[str, asyncio.Task[T]] = {}

    async def get(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        kept = self._values.get(name)
        if kept is not None and loop.time() - kept[0] < FRESH_S:
            return kept[1]
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = loop.create_task(self._ask(name, ask))
            task.add_done_callback(lambda done: self._asking.pop(name, None))
        return await asyncio.shield(task)

    async def _ask(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        value = await ask()
        self._values.pop(name, None)
        if len(self._values) >= KEPT_MAX:
            del self._values[next(iter(self._values))]
        self._values[name] = (asyncio.get_running_loop().time(), value)
        return value


class Catalog:
    """All methods raise CallRefused."""

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

    async def types(self, topic: str) -> tuple[MessageType, ...]:
        """Which kinds of messages the topic takes."""
        return await self._types.get(topic, lambda: self._ask_types(topic))

    async def group(self, group: str, topic: str = "") -> SubscriptionGroupConfig:
        """What a group is set to, at a broker of its topic; what a new one is set to where nobody knows it."""
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
        attributes: dict[str, str] = {}
        for name in sorted(data.broker_name for data in route.broker_datas if 0 in data.broker_addrs):
            command = RemotingCommand.request(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequest(topic=topic).ext())
            answer = await self._brokers.ask(name, command, ASK_TIMEOUT_MS)
            if answer.code == ResponseCode.SUCCESS:
                attributes = json_fields.decode(TopicConfig, answer.body).attributes
                break
        return topic_types.accepted(attributes, self._config.untyped_topics_take_all)

    async def _ask_group(self, group: str, topic: str) -> SubscriptionGroupConfig:
        names = readable_brokers(await self.route(topic)) if topic else await self._masters()
        for name in names[:1]:
            command = RemotingCommand.request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
                                              GetSubscriptiongroupConfigRequest(group).ext())
            answer = await self._brokers.ask(name, command, ASK_TIMEOUT_MS)
            if answer.code == ResponseCode.SUCCESS:
                return json_fields.decode(SubscriptionGroupConfig, answer.body)
        return SubscriptionGroupConfig(group_name=group)

    async def _masters(self) -> list[str]:
        return await self._all.get("", self._ask_masters)

    async def _ask_masters(self) -> list[str]:
        answer = await self._brokers.ask(
            NAME_SERVER, RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), ASK_TIMEOUT_MS)
        table = ClusterInfo.decode(checked(answer).body).broker_addr_table
        return sorted(name for name, data in table.items() if 0 in data.broker_addrs)
