"""Brokers that answer by a table, and a client that calls the front over a real connection."""

import asyncio
import hmac
from collections.abc import Callable
from typing import Any

import grpc

from regulus.model.peer import Origin
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.proxy.brokers import OnRequest
from regulus.wire import json_fields
from regulus.wire.bodies import ClusterInfo, TopicRouteData
from regulus.wire.bodies.topic_route_data import BrokerData, QueueData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc import definitions, messages
from regulus.wire.remoting_command import RemotingCommand

Answer = Callable[[RemotingCommand], RemotingCommand]
METADATA = (("x-mq-client-id", "client-1"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.0.7"))


def signed_by(user: str, client_id: str = "client-1") -> tuple[tuple[str, str], ...]:
    """The metadata of a call of a user whose secret is the name."""
    signature = hmac.digest(user.encode(), b"today", "sha1").hex()
    return (("x-mq-client-id", client_id), ("x-mq-date-time", "today"),
            ("authorization", f"MQv2-HMAC-SHA1 Credential={user}, Signature={signature}"))


class ScriptedBrokers:
    """One broker `a` with the topics of `topics` (name -> message.type), and a table of answers by request code."""

    def __init__(self, topics: dict[str, str | None]) -> None:
        self.on_request: OnRequest | None = None
        self.topics = topics
        self.ordered = False
        self.asked: list[RemotingCommand] = []
        self.answers: dict[int, Answer] = {}
        self.withdrawn: list[RemotingCommand] = []
        self.held: asyncio.Event | None = None      # pops wait for it
        self.dead = ""      # a broker that answers nothing
        self.ready = True
        self.silent: set[int] = set()       # codes that nothing answers

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int,
                  origin: Origin | None = None) -> RemotingCommand:
        self.asked.append(command)
        await asyncio.sleep(0)
        if command.code in self.silent or (broker and broker == self.dead):
            await asyncio.Event().wait()
        if command.code == RequestCode.POP_MESSAGE and self.held is not None:
            await self.held.wait()
        if command.code in self.answers:
            return self.answers[command.code](command)
        return self._known(command)

    def is_ready(self) -> bool:
        return self.ready

    def withdraw(self, broker: str, command: RemotingCommand) -> None:
        self.withdrawn.append(command)

    def asked_for(self, code: int) -> list[dict[str, str]]:
        return [command.ext for command in self.asked if command.code == code]

    def _known(self, command: RemotingCommand) -> RemotingCommand:
        data = BrokerData(broker_name="a", broker_addrs={0: "10.0.0.9:10911"})
        topic = command.ext.get("topic", "")
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return command.response(0, body=ClusterInfo(broker_addr_table={"a": data}).encode())
        if command.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
            config = SubscriptionGroupConfig(group_name=command.ext["group"], consume_message_orderly=self.ordered)
            return command.response(0, body=json_fields.encode(config))
        if topic not in self.topics and command.code in (RequestCode.GET_ROUTEINFO_BY_TOPIC,
                                                         RequestCode.GET_TOPIC_CONFIG):
            return command.response(ResponseCode.TOPIC_NOT_EXIST, "no topic")
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            queues = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)
            return command.response(0, body=TopicRouteData(queue_datas=[queues], broker_datas=[data]).encode())
        if command.code == RequestCode.GET_TOPIC_CONFIG:
            kind = self.topics[topic]
            config_of = TopicConfig(topic_name=topic, attributes={} if kind is None else {"message.type": kind})
            return command.response(0, body=json_fields.encode(config_of))
        return command.response(0)


class Caller:
    """`method(request)` -> response, for each method; over plain text unless `channel` is another."""

    def __init__(self, port: int, channel: Any = None) -> None:
        self.channel = channel or grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    async def call(self, method: str, request: Any, metadata: tuple[tuple[str, str], ...] = METADATA,
                   within_s: float = 60) -> Any:
        response_type = getattr(messages.MessagingService, method).response
        call = self.channel.unary_unary(f"/{definitions.SERVICE}/{method}",
                                        request_serializer=lambda each: each.SerializeToString(),
                                        response_deserializer=response_type.FromString)
        return await call(request, metadata=metadata, timeout=within_s)

    async def raw(self, method: str, data: bytes) -> bytes:
        return await self.channel.unary_unary(f"/{definitions.SERVICE}/{method}")(data, metadata=METADATA, timeout=60)

    def receive(self, request: Any, timeout: float = 10, metadata: tuple[tuple[str, str], ...] = METADATA) -> Any:
        call = self.channel.unary_stream(f"/{definitions.SERVICE}/ReceiveMessage",
                                         request_serializer=lambda each: each.SerializeToString(),
                                         response_deserializer=messages.ReceiveMessageResponse.FromString)
        return call(request, metadata=metadata, timeout=timeout)

    def telemetry(self, metadata: tuple[tuple[str, str], ...] = METADATA) -> Any:
        call = self.channel.stream_stream(f"/{definitions.SERVICE}/Telemetry",
                                          request_serializer=lambda each: each.SerializeToString(),
                                          response_deserializer=messages.TelemetryCommand.FromString)
        return call(metadata=metadata, timeout=60)
