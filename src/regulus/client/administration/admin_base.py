"""The common base of the parts of the admin client."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.core.routes import MASTER_ID, Route, route_of
from regulus.client.started import Started
from regulus.client.tasks import HomeLoop
from regulus.errors import BrokerRefused, ClientClosed, ClientError, NoRoute
from regulus.model.topics import retry_topic
from regulus.wire.bodies import ClusterInfo, TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetRouteinfoByTopicRequest
from regulus.wire.remoting_command import RemotingCommand

T = TypeVar("T")


class AdminBase(Started):
    """Starts and shuts down the client, and sends requests to name servers and brokers."""

    def __init__(self, name_server: str, config: ClientConfig | None = None) -> None:
        """Connects to nothing yet."""
        self.config = config or ClientConfig()
        self._name_server = name_server
        self._instance: ClientInstance | None = None
        self._home: HomeLoop | None = None

    async def start(self) -> None:
        """Start the client; needs no network. Raises ConfigError for a malformed name server address; ClientError when
        it was started in another event loop."""
        if self._instance is not None:
            self._check_loop()
            return
        self._instance = client_instance.acquire(self._name_server, self.config)
        self._home = HomeLoop()

    async def shutdown(self) -> None:
        """Close connections that no other client uses. Raises ClientError in another event loop than that of
        `start`."""
        self._check_loop()
        instance, self._instance, self._home = self._instance, None, None
        if instance is not None:
            await client_instance.release(instance)

    # --- where things are --------------------------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """All brokers, by name and by cluster."""
        answer = await self._ask_name_server(RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return ClusterInfo.decode(answer.body)

    async def topic_route(self, topic: str) -> TopicRouteData:
        """The brokers that serve a topic, with their numbers of queues. Raises NoRoute."""
        header = GetRouteinfoByTopicRequest(topic=topic)
        try:
            answer = await self._ask_name_server(
                RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.ext()))
        except BrokerRefused as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NoRoute(f"no broker serves topic {topic!r}") from error
            raise
        return TopicRouteData.decode(answer.body)

    async def master_addresses(self, cluster: str | None = None) -> list[str]:
        """Addresses of all masters, or of one cluster's, in the order of broker names; masters accept changes. Raises
        ClientError for an unknown cluster, and when there is no master."""
        brokers = await self._brokers(cluster)
        masters = [addresses[MASTER_ID] for addresses in brokers.values() if MASTER_ID in addresses]
        if not masters:
            raise ClientError(f"no master is up, only slaves of {', '.join(brokers)}, which accept no changes: start "
                              "the master, or promote a slave" if brokers else
                              "no broker is registered with the name server; start one first")
        return masters

    async def readable_brokers(self) -> dict[str, str]:
        """By broker name, an address that answers reads: the master's or, if it is down, that of the slave with the
        lowest id."""
        return {name: addresses[min(addresses)] for name, addresses in (await self._brokers()).items() if addresses}

    async def _brokers(self, cluster: str | None = None) -> dict[str, dict[int, str]]:
        """Addresses by broker name and id, in the order of names. Raises ClientError for an unknown cluster."""
        info = await self.cluster_info()
        names = sorted(info.broker_addr_table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                known = ", ".join(sorted(info.cluster_addr_table)) or "none"
                raise ClientError(f"no cluster {cluster!r}; known: {known}", ResponseCode.QUERY_NOT_FOUND)
            names = sorted(info.cluster_addr_table[cluster])
        return {name: info.broker_addr_table[name].broker_addrs for name in names}

    # -----------------------------------------------------------------------------------------------------------------

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed("the admin client is not running; use `async with` or call start() first")
        self._check_loop()
        return self._instance

    def _check_loop(self) -> None:
        if self._home is not None:
            self._home.check()

    async def _fresh_route(self, topic: str) -> Route:
        return route_of(topic, await self.topic_route(topic))

    async def _masters_of(self, topic: str) -> list[str]:
        """Addresses of the masters that serve a topic. Raises NoRoute, also when no master serves it."""
        masters = (await self._fresh_route(topic)).masters()
        if not masters:
            raise NoRoute(f"only slaves serve topic {topic!r} now, which accept no changes: start the master, or "
                          "promote a slave")
        return masters

    async def _group_readers(self, group: str, *, masters_only: bool = False) -> list[str]:
        """An address of each broker name that serves the group's retry topic; of all broker names when the group was
        never online."""
        try:
            route = await self._fresh_route(retry_topic(group))
        except NoRoute:
            return await self.master_addresses() if masters_only else [*(await self.readable_brokers()).values()]
        return route.masters() if masters_only else route.readable_addresses()

    async def _request(self, address: str, code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b"",
                       timeout_ms: int | None = None) -> RemotingCommand:
        return await self._running().request(address, RemotingCommand.request(code, ext, body), timeout_ms)

    async def _ask_name_server(self, command: RemotingCommand) -> RemotingCommand:
        return await self._running().ask_name_server(command)

    async def _tell_name_servers(self, code: RequestCode, ext: dict[str, str]) -> None:
        """Send a request to every name server, because they do not know each other. Raises ClientError."""
        instance = self._running()
        for answer in await instance.name_servers.request_all(RemotingCommand.request(code, ext),
                                                              self.config.mq_client_api_timeout):
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(answer.code, answer.remark, "name server")


async def answers_of(requests: Iterable[Awaitable[T]]) -> list[T]:
    """The results of the requests that succeed, in order. Raises the first ClientError when none succeeds."""
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    results: list[T] = []
    failure: BaseException | None = None
    for outcome in outcomes:
        if not isinstance(outcome, BaseException):
            results.append(outcome)
        elif not isinstance(outcome, ClientError):
            raise outcome
        else:
            failure = failure or outcome
    if failure is not None and not results:
        raise failure
    return results
