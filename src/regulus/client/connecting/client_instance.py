"""What the clients of one process and one list of name servers share: connections, routes, heartbeats.

A client instance has one client id. A group can be registered in it once; a second client of the same group gets an
instance of its own, so that the group's members are told apart.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from regulus.client import real_threads, unique_key
from regulus.client.config import ClientConfig
from regulus.client.connecting.connections import Connections
from regulus.client.connecting.name_servers import NameServers, parse_addresses
from regulus.client.core.routes import Route, default_topic_route, route_of
from regulus.client.tasks import SharedTasks, TaskGroup, elsewhere
from regulus.errors import BrokerRefused, ClientError, HeaderError, NoBroker, NoRoute, RegulusError
from regulus.transport.connection import Connection
from regulus.wire.acl_signature import sign
from regulus.wire.bodies import ClusterInfo, ConsumerData, HeartbeatData, ProducerData, TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetRouteinfoByTopicRequest, UnregisterClientRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

DEFAULT_INSTANCE_NAME = "DEFAULT"
ROUTE_DOUBT_INTERVAL_S = 1.0
ROUTES_MAX = 4096
"""Routes that are known before those that no member names are forgotten, the older half of them."""
NOT_SUPPORTED_REMARK = " request type {} not supported"


def now_ms() -> int:
    """The time of day, for stamps."""
    return int(time.time() * 1000)


def steady_ms() -> int:
    """A time that never jumps, for locks, deadlines and how long things take."""
    return int(time.monotonic() * 1000)


class GroupMember(Protocol):
    """A client that is registered with brokers under a group."""

    group: str

    def consumer_data(self) -> ConsumerData | None:
        """What the heartbeat says of a consumer; None for a producer."""

    def topics(self) -> Iterable[str]:
        """Topics whose routes are to be kept fresh."""

    def routes_changed(self) -> None:
        """Some route changed."""

    def request_handlers(self) -> "dict[int, RequestHandler]":
        """Requests of brokers that this member answers, by their code."""


RequestHandler = Callable[[RemotingCommand], Awaitable[RemotingCommand | None]]
"""Answers a request of a broker; None when there is nothing to answer. Raises RegulusError for a refusal."""

GROUP_FIELD: dict[int, str] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: "consumerGroup",
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: "group",
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: "group",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "consumerGroup",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: "consumerGroup",
}
"""Where a broker's request names the group it is for; a request not listed here goes to every member that knows it."""


PACKING_THREADS = 2
"""Of each instance: a large body that takes long holds up no small ones, and two keep the processors busy enough."""

T = TypeVar("T")


class ClientInstance:
    """Made by `acquire`; `release` it when done."""

    def __init__(self, name_server: str, config: ClientConfig, key: object, instance_name: str) -> None:
        self.config = config
        self.key = key
        self.address = config.client_ip or unique_key.local_address()
        self.client_id = unique_key.client_id(self.address, instance_name, config.unit_name)
        self.unique_keys = unique_key.UniqueKeys(self.address)
        self.connections = Connections(config, self._on_requests, self._sign if config.access_key else None)
        self.name_servers = NameServers(parse_addresses(name_server), self.connections)
        self.members: list[GroupMember] = []
        self.users = 0
        self.is_left_behind = False
        self._packing = real_threads.pool(PACKING_THREADS, "regulus packing")
        self._routes: dict[str, Route] = {}
        self._routes_max = ROUTES_MAX
        self._doubted: dict[str, tuple[float, int]] = {}
        self._fetching: SharedTasks[Route] = SharedTasks()
        self._tasks = TaskGroup()
        self._heartbeat_wanted = asyncio.Event()
        self._brokers_greeted: frozenset[str] = frozenset()

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tasks.supervise(self._refresh_routes, "refresh routes")
        self._tasks.supervise(self._heartbeats, "heartbeats")

    async def close(self) -> None:
        """Whoever cancels this cuts off its waiting; everything is told to end."""
        self._fetching.cancel()
        try:
            await self._tasks.cancel()
        finally:
            self._packing.shutdown(wait=False)     # a send that packs yet hears that it came too late
            await self.connections.close()

    def leave_behind(self) -> None:
        """In a forked child: what belongs to the parent's loop and its threads cannot be used, and not be closed."""
        self.is_left_behind = True
        self._routes.clear()
        self._fetching = SharedTasks()
        self._tasks = TaskGroup()
        self.connections.leave_behind()

    def spawn(self, coroutine: Coroutine[object, object, T], name: str,
              on_done: "Callable[[asyncio.Task[T]], None] | None" = None) -> asyncio.Task[T]:
        """A task that ends with the instance. Its failure goes to `on_done`, or into the log."""
        return (self._tasks.spawn(coroutine, name) if on_done is None
                else self._tasks.spawn_with(coroutine, name, on_done))

    async def packing(self, work: Callable[..., T], *arguments: object) -> T:
        """Do what packs or unpacks beside the event loop, and never behind what the application does in threads."""
        try:
            packed = asyncio.get_running_loop().run_in_executor(self._packing, work, *arguments)
        except RuntimeError:    # at the end of the interpreter no thread takes anything more
            return work(*arguments)
        return await packed

    @property
    def restarts(self) -> int:
        """How often a background task died and began anew."""
        return self._tasks.restarts

    def has_group(self, member: GroupMember) -> bool:
        """True when the instance already has another consumer of the group; producers of a group are all alike."""
        return member.consumer_data() is not None and self._has_other(member)

    def _has_other(self, member: GroupMember) -> bool:
        is_consumer = member.consumer_data() is not None
        return any(each is not member and each.group == member.group
                   and (each.consumer_data() is not None) is is_consumer for each in self.members)

    async def unregister(self, member: GroupMember) -> None:
        """Tell all brokers that the member is gone. A broker that does not answer finds out by itself."""
        if member not in self.members:
            return
        self.members.remove(member)
        if self._has_other(member):
            return
        is_consumer = member.consumer_data() is not None
        request = UnregisterClientRequest(client_id=self.client_id,
                                          producer_group=None if is_consumer else member.group,
                                          consumer_group=member.group if is_consumer else None)
        addresses = set(self._broker_addresses()).intersection(self.connections.open_addresses())
        await self._each(addresses, lambda: RemotingCommand.request(RequestCode.UNREGISTER_CLIENT, request.ext()))

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int | None = None) -> RemotingCommand:
        """A broker's answer, if its code is SUCCESS. Raises BrokerRefused and what `Connections.request` raises."""
        answer = await self.connections.request(address, command, timeout_ms or self.config.mq_client_api_timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, address)
        return answer

    async def ask_name_server(self, command: RemotingCommand, *, doubts: int = 0) -> RemotingCommand:
        """The answer of a name server, if its code is SUCCESS. Raises BrokerRefused, NoNameServer."""
        answer = await self.name_servers.request(command, self.config.mq_client_api_timeout, doubts=doubts)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, "name server")
        return answer

    def _sign(self, command: RemotingCommand) -> None:
        sign(command, self.config.access_key, self.config.secret_key)

    # --- routes ------------------------------------------------------------------------------------------------------

    def known_route(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    async def route(self, topic: str) -> Route:
        """The topic's route, asked for when not known; kept fresh from then on.

        Raises NoRoute, NoNameServer, HeaderError.
        """
        return self._routes.get(topic) or await self.fetch_route(topic)

    async def publish_route(self, topic: str, default_topic: str, default_topic_queue_nums: int) -> Route:
        """A route that can take sends: the topic's own, or that by which brokers create it. Raises NoRoute; NoBroker
        where that may pass."""
        route = self._routes.get(topic)
        if route is not None and route.publish_queues:
            return route
        try:
            route = await self.fetch_route(topic)
        except NoRoute:
            route = await self._default_route(topic, default_topic, default_topic_queue_nums)
            self._keep(topic, route)
        if not route.publish_queues:
            raise NoRoute(f"topic {topic!r} has no queue that takes sends: check its permission and whether a master "
                          f"is up")
        return route

    async def fetch_route(self, topic: str, doubts: int = 0) -> Route:
        """The topic's route as a name server knows it now. Raises NoRoute, NoNameServer, HeaderError."""
        return await self._fetching.result(topic, lambda: self._fetch(topic, doubts), f"route of {topic}")

    def doubt_route(self, topic: str) -> None:
        """A broker of the route did not answer: ask the next name server, soon and not too often. They do not know of
        each other, and one may hear later than others that a broker is gone."""
        now = time.monotonic()
        asked_s, doubts = self._doubted.get(topic, (0.0, 0))
        if now - asked_s >= ROUTE_DOUBT_INTERVAL_S:
            if topic not in self._doubted and len(self._doubted) >= self._routes_max:
                for each in list(self._doubted)[:len(self._doubted) // 2 + 1]:
                    del self._doubted[each]
            self._doubted[topic] = now, doubts + 1
            self._tasks.spawn(self._refresh_route(topic, doubts + 1), f"doubted route of {topic}")

    async def _fetch(self, topic: str, doubts: int = 0) -> Route:
        data = await self._route_data(topic, doubts)
        with self._told_by_a_name_server(topic):
            route = route_of(topic, data)
        self._keep(topic, route)
        return route

    async def _default_route(self, topic: str, default_topic: str, queue_nums: int) -> Route:
        try:
            data = await self._route_data(default_topic)
        except NoRoute:
            return await self._route_of_a_broker_that_came_late(topic)
        with self._told_by_a_name_server(default_topic):
            return default_topic_route(topic, data, queue_nums)

    async def _route_of_a_broker_that_came_late(self, topic: str) -> Route:
        """One that registered between the questions. Raises NoBroker, NoRoute."""
        if not await self._knows_brokers():
            raise NoBroker(f"no broker serves topic {topic!r}: the name servers know no broker; start one, or give it "
                           f"these name servers: {';'.join(self.name_servers.addresses)}") from None
        try:
            return await self._fetch(topic)
        except NoRoute:
            raise NoRoute(f"no broker serves topic {topic!r}, and none creates topics on first use; create it with "
                          f"`regulus topic create {topic}`") from None

    async def _knows_brokers(self) -> bool:
        answer = await self.ask_name_server(RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return bool(ClusterInfo.decode(answer.body).broker_addr_table)

    async def _route_data(self, topic: str, doubts: int = 0) -> TopicRouteData:
        header = GetRouteinfoByTopicRequest(topic=topic)
        try:
            answer = await self.ask_name_server(
                RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.ext()), doubts=doubts)
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRoute(f"no broker serves topic {topic!r}") from error
            raise
        with self._told_by_a_name_server(topic):
            return TopicRouteData.decode(answer.body)

    @contextmanager
    def _told_by_a_name_server(self, topic: str) -> Iterator[None]:
        """A HeaderError from within names the topic and who told such a route."""
        try:
            yield
        except HeaderError as error:
            raise HeaderError(f"name server {self.name_servers.current} told a route of topic {topic!r} that cannot be "
                              f"used: {error}") from error

    def _keep(self, topic: str, route: Route) -> None:
        known = self._routes.get(topic)
        if known is None and len(self._routes) >= self._routes_max:
            self._forget_routes()
        if known == route:
            return
        self._routes[topic] = route
        if not self._brokers_greeted.issuperset(self._addresses_of(route)):
            self._heartbeat_wanted.set()
        for member in self.members:
            member.routes_changed()

    def _forget_routes(self) -> None:
        """Whoever sends to ever new topics must not keep them all; a forgotten one is asked for again when needed."""
        named = set[str]().union(*(member.topics() for member in self.members))
        others = [topic for topic in self._routes if topic not in named]
        for topic in others[:len(others) // 2 + 1]:
            del self._routes[topic]
            self._doubted.pop(topic, None)
        # Where members name more topics than that, they are not all looked at for each new one.
        self._routes_max = max(ROUTES_MAX, 2 * len(named))

    async def _refresh_routes(self) -> None:
        while True:
            await asyncio.sleep(self.config.poll_name_server_interval / 1000)
            for topic in sorted(set(self._routes).union(*(member.topics() for member in self.members))):
                await self._refresh_route(topic)

    async def _refresh_route(self, topic: str, doubts: int = 0) -> None:
        try:
            await self.fetch_route(topic, doubts)
        except (ClientError, HeaderError) as error:
            _log.info("route of topic %s not refreshed: %s", topic, error)

    def _broker_addresses(self) -> set[str]:
        return self._addresses_of(*self._routes.values())

    def _addresses_of(self, *routes: Route) -> set[str]:
        """All masters in use; replicas too when there are consumers, which may be told to read there."""
        with_replicas = any(member.consumer_data() is not None for member in self.members)
        return {address for route in routes for addresses in route.brokers.values()
                for broker_id, address in addresses.items() if with_replicas or broker_id == 0}

    # --- heartbeats --------------------------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Tell all brokers in use who we are, and wait for their answers. One that does not answer is logged."""
        self._heartbeat_wanted.clear()
        consumers = [data for member in self.members if (data := member.consumer_data()) is not None]
        producers = [ProducerData(group_name=member.group) for member in self.members if member.consumer_data() is None]
        addresses = self._broker_addresses()
        if not addresses or not (consumers or producers):
            return
        body = HeartbeatData(client_id=self.client_id, producer_data_set=producers,
                             consumer_data_set=consumers).encode()
        self._brokers_greeted = frozenset(addresses)
        await self._each(addresses, lambda: RemotingCommand.request(RequestCode.HEART_BEAT, body=body))

    def heartbeat_soon(self) -> None:
        self._heartbeat_wanted.set()

    async def _heartbeats(self) -> None:
        interval = self.config.heartbeat_broker_interval / 1000
        while True:
            with suppress(TimeoutError):    # nobody asked for one: it is due by the clock
                async with asyncio.timeout(interval):
                    await self._heartbeat_wanted.wait()
            await self.heartbeat()

    async def _each(self, addresses: Iterable[str], make_command: Callable[[], RemotingCommand]) -> None:
        async def one(address: str) -> None:
            command = make_command()
            try:
                await self.request(address, command)
            except ClientError as error:
                _log.warning("%s to %s failed: %s", RequestCode(command.code).name, address, error)
        await asyncio.gather(*(one(address) for address in addresses))

    # --- requests of brokers -----------------------------------------------------------------------------------------

    def _on_requests(self, connection: Connection, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self._tasks.spawn(self._answer(connection, command),
                              f"request {command.code} of {connection.peer.remote_text}")

    async def _answer(self, connection: Connection, command: RemotingCommand) -> None:
        answer = None
        handled = False
        for handler in self._handlers_of(command):
            handled = True
            try:
                answer = await handler(command)
            except RegulusError as error:
                answer = command.response(ResponseCode.SYSTEM_ERROR, str(error))
        if not handled:
            answer = command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                                      NOT_SUPPORTED_REMARK.format(command.code))
        if answer is not None and not command.is_oneway:
            connection.send(answer)

    def _handlers_of(self, command: RemotingCommand) -> list[RequestHandler]:
        field = GROUP_FIELD.get(command.code)
        group = command.ext.get(field) if field else None
        return [handler for member in self.members if group is None or member.group == group
                if (handler := member.request_handlers().get(command.code)) is not None]


_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, list[ClientInstance]] = WeakKeyDictionary()


def _leave_all_behind() -> None:
    for instances in _instances.values():
        for instance in instances:
            instance.leave_behind()
    _instances.clear()


os.register_at_fork(after_in_child=_leave_all_behind)


def acquire(name_server: str, config: ClientConfig, member: GroupMember | None = None,
            stable_instance_name: bool = False) -> ClientInstance:
    """The running loop's instance for these name servers and settings, made when there is none; `member` is registered.

    With `stable_instance_name` the client id is the same after a restart: `<ip>@<instance_name>`.
    Raises ConfigError, and ClientError when such an instance already has a member of the group.
    """
    named = stable_instance_name or config.instance_name != DEFAULT_INSTANCE_NAME
    shared_config = ClientConfig(**{key: getattr(config, key) for key in ClientConfig.__dataclass_fields__})
    key = (frozenset(parse_addresses(name_server)), shared_config, named)
    instances = _instances.setdefault(asyncio.get_running_loop(), [])
    instance = next((each for each in instances
                     if each.key == key and (named or member is None or not each.has_group(member))), None)
    if instance is None:
        instance = ClientInstance(name_server, shared_config, key,
                                  config.instance_name if named else unique_key.new_instance_name())
    # Not only of this instance: other settings make another, and brokers know members by their id alone.
    if member is not None and any(each.client_id == instance.client_id and each.has_group(member)
                                  for each in instances):
        raise ClientError(f"group {member.group!r} already has a client named {config.instance_name!r} in this "
                          f"process; give each its own instance_name")
    if instance not in instances:
        instance.start()
        instances.append(instance)
    instance.users += 1
    if member is not None:
        instance.members.append(member)
        instance.heartbeat_soon()
    return instance


async def release(instance: ClientInstance, member: GroupMember | None = None) -> None:
    """Give an instance back and unregister the member; the last one to do so closes the instance.

    A member gives it back once, however often it says so; a call that is cancelled gives it back nevertheless. Raises
    ClientError in another event loop.
    """
    if instance.is_left_behind or (member is not None and member not in instance.members):
        return
    instances = _instances.get(asyncio.get_running_loop(), [])
    if instance not in instances:
        raise elsewhere()
    try:
        if member is not None:
            await instance.unregister(member)
    finally:
        instance.users -= 1
        if instance.users == 0:
            instances.remove(instance)
            await instance.close()
