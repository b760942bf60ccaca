"""Sends load to a proxy for RocketMQ 5 clients, or opens many idle clients, in a process of its own.

    python bench/grpc_load.py send --address 127.0.0.1:8081 --count 20000 --in-flight 64 --pids 123,124
    python bench/grpc_load.py receive --address 127.0.0.1:8081 --count 20000 --in-flight 16
    python bench/grpc_load.py clients --address 127.0.0.1:8081 --count 1000

The load is neutral: requests are serialized before the clock starts, RocketMQ's client libraries are not used, and all
servers get the same requests. `send` keeps `--in-flight` SendMessage calls under way on one connection. `receive` has
`--in-flight` workers. Each receives up to 32 messages, acknowledges them one after the other with a call each, and
receives again. The results are one line of JSON, in which latency is that of a SendMessage or an AckMessage.

`clients` opens `--count` connections, each with a telemetry stream and a receive that the server holds. It prints a
line when all are open, and keeps them until its standard input ends.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from load_generator import LoadFailed, cpu_seconds, percentile

from regulus.wire.grpc import definitions, messages
from regulus.wire.grpc.codes import ClientType, Code

TOPIC, GROUP = "FrontBench", "front-bench"
BROKER = "broker-a"
_RECEIVE_BATCH = 32
_BODY_SIZE = 1024
_SENDS = 1024                   # number of different requests, which are sent in turn
_INVISIBLE_S = 600              # longer than a round, so that no message comes twice
_POLL_S = 5                     # the shortest wait that a proxy allows
_HELD_POLL_S = 20
_TIMEOUT_S = 30.0
_OPTIONS = (("grpc.max_receive_message_length", 64 << 20), ("grpc.use_local_subchannel_pool", 1))
_CONSUMER = ClientType.SIMPLE_CONSUMER


@dataclass(slots=True)
class _Tally:
    """Counts calls that began and ended. The clocks are read when the last one ends, as workers may still wait then."""

    count: int
    pids: Sequence[int]
    begun: int = 0
    answered: int = 0
    latencies: list[tuple[float, int]] = field(default_factory=list)
    start: tuple[float, float, float] = (0.0, 0.0, 0.0)     # seconds: clock, CPU of the servers, own CPU
    end: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def read_clocks(self) -> tuple[float, float, float]:
        return time.perf_counter(), sum(cpu_seconds(pid) for pid in self.pids), time.process_time()

    def take(self, since: float) -> None:
        self.latencies.append((time.perf_counter() - since, 1))
        self.answered += 1
        if self.answered == self.count:
            self.end = self.read_clocks()

    def result(self) -> dict[str, float]:
        seconds, servers, own = (after - before for before, after in zip(self.start, self.end, strict=True))
        return {"messages_per_second": self.count / seconds,
                "latency_p50_ms": percentile(self.latencies, 0.5), "latency_p99_ms": percentile(self.latencies, 0.99),
                "server_cpu_seconds_per_million": servers / self.count * 1e6,
                "generator_cpu_seconds_per_million": own / self.count * 1e6}


class _Client:
    """One connection like that of a RocketMQ client. Requests and answers are serialized messages."""

    def __init__(self, channel: grpc.aio.Channel, name: str) -> None:
        path = f"/{definitions.SERVICE}/"
        self.metadata = (("x-mq-client-id", name), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.0.7"),
                         ("x-mq-protocol", "v2"))
        self.send_message = channel.unary_unary(path + "SendMessage")
        self.ack_message = channel.unary_unary(path + "AckMessage")
        self.receive_message = channel.unary_stream(path + "ReceiveMessage")
        self._telemetry = channel.stream_stream(path + "Telemetry")

    async def say_settings(self, client_type: int) -> Any:
        """Open a telemetry stream and send settings. It stays open as long as the object exists. Raises LoadFailed."""
        stream = self._telemetry(metadata=self.metadata)
        await stream.write(_settings(client_type))
        answer = messages.TelemetryCommand.FromString(await asyncio.wait_for(stream.read(), _TIMEOUT_S))
        if answer.WhichOneof("command") != "settings":
            raise LoadFailed(f"settings were answered with {answer}")
        return stream


def _resource(name: str) -> Any:
    return messages.Resource(name=name)


def _settings(client_type: int) -> bytes:
    settings = messages.Settings(client_type=client_type,
                                 user_agent=messages.UA(language="JAVA", version="5.0.7", hostname="bench"))
    settings.access_point.scheme = 1
    settings.access_point.addresses.add(host="127.0.0.1", port=8081)
    settings.request_timeout.seconds = 3
    if client_type == ClientType.PRODUCER:
        settings.publishing.topics.add(name=TOPIC)
    else:
        settings.subscription.group.name = GROUP
        settings.subscription.long_polling_timeout.seconds = _HELD_POLL_S
        settings.subscription.subscriptions.add(topic=_resource(TOPIC), expression=_everything())
    return bytes(messages.TelemetryCommand(settings=settings).SerializeToString())


def _everything() -> Any:
    return messages.FilterExpression(type="TAG", expression="*")


def send_requests() -> list[bytes]:
    body, made = os.urandom(_BODY_SIZE // 2).hex().encode(), []
    for number in range(_SENDS):
        message = messages.Message(topic=_resource(TOPIC), body=body)
        properties = message.system_properties
        properties.message_id = f"01{os.getpid() & 0xFFFFFFFF:012X}{number:020X}"
        properties.message_type = properties.body_encoding = 1      # NORMAL, IDENTITY
        properties.born_timestamp.GetCurrentTime()
        properties.born_host = "bench"
        properties.tag = "bench"
        made.append(bytes(messages.SendMessageRequest(messages=[message]).SerializeToString()))
    return made


def _receive_request(poll_s: int) -> bytes:
    request = messages.ReceiveMessageRequest(group=_resource(GROUP), filter_expression=_everything(),
                                             batch_size=_RECEIVE_BATCH)
    request.message_queue.topic.name = TOPIC
    request.message_queue.id = -1
    request.message_queue.broker.name = BROKER
    request.invisible_duration.seconds = _INVISIBLE_S
    request.long_polling_timeout.seconds = poll_s
    return bytes(request.SerializeToString())


async def _send(client: _Client, requests: Sequence[bytes], tally: _Tally) -> None:
    while tally.begun < tally.count:
        request = requests[tally.begun % len(requests)]
        tally.begun += 1
        since = time.perf_counter()
        data = await client.send_message(request, metadata=client.metadata, timeout=_TIMEOUT_S)
        tally.take(since)
        answer = messages.SendMessageResponse.FromString(data)
        if answer.status.code != Code.OK:
            raise LoadFailed(f"a message was refused: {answer.status}")


async def _receive(client: _Client, request: bytes, tally: _Tally) -> None:
    while tally.begun < tally.count:
        entries = [each async for each in _received(client, request)]
        tally.begun += len(entries)
        for entry in entries:
            ack = messages.AckMessageRequest(group=_resource(GROUP), topic=_resource(TOPIC), entries=[entry])
            since = time.perf_counter()
            data = await client.ack_message(ack.SerializeToString(), metadata=client.metadata, timeout=_TIMEOUT_S)
            tally.take(since)
            answer = messages.AckMessageResponse.FromString(data)
            if answer.status.code != Code.OK:
                raise LoadFailed(f"an ack was refused: {answer}")


async def _received(client: _Client, request: bytes) -> AsyncIterator[Any]:
    """The requests that acknowledge the messages of one receive."""
    async for data in client.receive_message(request, metadata=client.metadata, timeout=_TIMEOUT_S):
        element = messages.ReceiveMessageResponse.FromString(data)
        kind = element.WhichOneof("content")
        if kind == "message":
            properties = element.message.system_properties
            yield messages.AckMessageEntry(message_id=properties.message_id, receipt_handle=properties.receipt_handle)
        elif kind == "status" and element.status.code not in (Code.OK, Code.MESSAGE_NOT_FOUND):
            raise LoadFailed(f"a receive was refused: {element.status}")


@asynccontextmanager
async def _connected(address: str, name: str, client_type: int) -> AsyncIterator[_Client]:
    async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
        client = _Client(channel, name)
        stream = await client.say_settings(client_type)
        try:
            yield client
        finally:
            stream.cancel()


async def _load(arguments: argparse.Namespace, pids: Sequence[int]) -> dict[str, float]:
    tally = _Tally(arguments.count, pids)
    is_send = arguments.what == "send"
    client_type = ClientType.PRODUCER if is_send else _CONSUMER
    requests, receive = send_requests(), _receive_request(_POLL_S)
    async with AsyncExitStack() as stack:
        if arguments.without_settings:
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(arguments.address, options=_OPTIONS))
            client = _Client(channel, "load")
        else:
            client = await stack.enter_async_context(_connected(arguments.address, f"load-{arguments.what}",
                                                                client_type))
        tally.start = tally.read_clocks()
        async with asyncio.TaskGroup() as group:
            for _ in range(arguments.in_flight):
                group.create_task(_send(client, requests, tally) if is_send else _receive(client, receive, tally))
    return tally.result()


async def _begin_group(address: str) -> None:
    """Have the group exist before messages are sent, because a new group begins at the end of the topic."""
    async with _connected(address, "begin", _CONSUMER) as client:
        async for _ in _received(client, _receive_request(_POLL_S)):
            pass


async def _clients(arguments: argparse.Namespace) -> None:
    request, holds = _receive_request(_HELD_POLL_S), []
    async with AsyncExitStack() as stack:
        for number in range(arguments.count):
            client = await stack.enter_async_context(_connected(arguments.address, f"client-{number}", _CONSUMER))
            holds.append(asyncio.create_task(_hold(client, request)))
        for hold in holds:
            if hold.done():
                hold.result()       # raises the error that ended it: a measurement with fewer clients does not count
        print("open", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        for hold in holds:
            hold.cancel()
        await asyncio.gather(*holds, return_exceptions=True)


async def _hold(client: _Client, request: bytes) -> None:
    while True:
        async for _ in _received(client, request):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("begin", "send", "receive", "clients"))
    parser.add_argument("--address", default="127.0.0.1:8081")
    parser.add_argument("--count", type=int, default=20_000, help="number of messages, or of clients")
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--pids", default="", help="processes of the server, whose CPU time is measured")
    parser.add_argument("--without-settings", action="store_true", help="for a server without telemetry")
    arguments = parser.parse_args()
    if arguments.what == "clients":
        asyncio.run(_clients(arguments))
    elif arguments.what == "begin":
        asyncio.run(_begin_group(arguments.address))
    else:
        pids = [int(pid) for pid in arguments.pids.split(",") if pid]
        print(json.dumps(asyncio.run(_load(arguments, pids))))


if __name__ == "__main__":
    main()
