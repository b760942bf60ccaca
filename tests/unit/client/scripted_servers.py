"""Servers whose answers a test writes: a name server and brokers on free ports, in the test's own event loop."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.listener import Listener, bind, listen
from regulus.wire.bodies import BrokerData, ClusterInfo, QueueData, TopicRouteData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers.send_message import SendMessageRequest, send_message_response
from regulus.wire.remoting_command import RemotingCommand

_closed: list[socket.socket] = []       # or the next who asks for any port would have theirs

Answer = RemotingCommand | None
Script = Callable[[RemotingCommand], Answer | Awaitable[Answer]]


def stored(command: RemotingCommand, code: int = ResponseCode.SUCCESS, offset: int = 0) -> RemotingCommand:
    """A broker's answer to a send that it stored."""
    queue_id = int(command.ext["e"])
    return send_message_response(command, code, f"{offset:032X}", queue_id, offset, None, "DefaultRegion", True)


def refused(command: RemotingCommand, code: int) -> RemotingCommand:
    return command.response(code, "as the test wants it")


class ScriptedServer:
    """Answers by `script`; None leaves a request without an answer. `requests` are those that came, in order."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[RemotingCommand] = []
        self.connections: list[Connection] = []
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        assert self._listener is not None
        return f"127.0.0.1:{self._listener.port}"

    def requests_of(self, *codes: int) -> list[RemotingCommand]:
        return [request for request in self.requests if request.code in codes]

    def sends(self) -> list[SendMessageRequest]:
        return [SendMessageRequest.decode(request) for request in self.requests_of(
            RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)]

    async def start(self, address: str = "127.0.0.1:0") -> None:
        host, _, port = address.rpartition(":")
        self._listener = await listen(host, int(port), self._on_requests, self.connections.append, lambda _: None,
                                      TransportConfig(close_wait_max_ms=10))

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    def _on_requests(self, connection: Connection, commands: list[RemotingCommand]) -> None:
        for command in commands:
            command.keep_body(command.body)     # the body of a send is lent, and is looked at later
            self.requests.append(command)
            task = asyncio.get_running_loop().create_task(self._answer(connection, command))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: Connection, command: RemotingCommand) -> None:
        answer = self.script(command)
        if answer is not None and not isinstance(answer, RemotingCommand):
            answer = await answer
        if answer is not None and not command.is_oneway:
            connection.send(answer)


class ScriptedCluster:
    """A name server and brokers. `sends` of a broker is called for sends; other requests are answered with success."""

    def __init__(self, queue_count: int = 4) -> None:
        self.queue_count = queue_count
        self.brokers: dict[str, ScriptedServer] = {}
        self.addresses: dict[str, str] = {}
        self.slaves: dict[str, ScriptedServer] = {}
        self.name_server = ScriptedServer(self._answer)
        self.topics_unknown: set[str] = set()
        self.broker_id = 0

    async def add_broker(self, name: str, sends: Script = stored, others: Script | None = None) -> ScriptedServer:
        def script(command: RemotingCommand) -> Answer | Awaitable[Answer]:
            if command.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                return sends(command)
            return command.response(ResponseCode.SUCCESS) if others is None else others(command)
        broker = ScriptedServer(script)
        await broker.start()
        self.brokers[name] = broker
        self.addresses[name] = broker.address
        return broker

    async def add_slave(self, name: str, others: Script) -> ScriptedServer:
        slave = self.slaves[name] = ScriptedServer(others)
        await slave.start()
        return slave

    def add_unreachable_broker(self, name: str, address: str) -> None:
        self.addresses[name] = address

    def route(self) -> TopicRouteData:
        return TopicRouteData(
            queue_datas=[QueueData(broker_name=name, read_queue_nums=self.queue_count,
                                   write_queue_nums=self.queue_count, perm=7) for name in self.addresses],
            broker_datas=[BrokerData(cluster="C", broker_name=name, broker_addrs={self.broker_id: address} | (
                {1: self.slaves[name].address} if name in self.slaves else {}))
                          for name, address in self.addresses.items()])

    def _answer(self, command: RemotingCommand) -> Answer:
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            brokers = {broker.broker_name: broker for broker in self.route().broker_datas}
            return command.response(ResponseCode.SUCCESS, body=ClusterInfo(broker_addr_table=brokers).encode())
        if command.ext.get("topic") in self.topics_unknown:
            return refused(command, ResponseCode.TOPIC_NOT_EXIST)
        return command.response(ResponseCode.SUCCESS, body=self.route().encode())


@asynccontextmanager
async def scripted_cluster(queue_count: int = 4):
    cluster = ScriptedCluster(queue_count)
    await cluster.name_server.start()
    try:
        yield cluster
    finally:
        for broker in (*cluster.brokers.values(), *cluster.slaves.values()):
            await broker.stop()
        await cluster.name_server.stop()


def closed_address() -> str:
    """An address at which nothing listens, and which the system gives to nobody."""
    taken = bind("127.0.0.1", 0)
    _closed.append(taken)
    return f"127.0.0.1:{taken.getsockname()[1]}"


__all__ = ["ScriptedCluster", "ScriptedServer", "closed_address", "refused", "scripted_cluster", "stored"]
