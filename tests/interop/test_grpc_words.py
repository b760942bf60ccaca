"""What RocketMQ's own proxy 5.3.3 says in words and properties, and ours says the same: asked by bare gRPC."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from conftest import NewRun
from fronts5 import start_front

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from regulus.wire.grpc import definitions, messages
from regulus.wire.grpc.reflection_messages import ServerReflectionRequest, ServerReflectionResponse

pytestmark = pytest.mark.long
METADATA = (("x-mq-client-id", "words"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.0.7"))
WITHIN_S = 30
RAISED = "org.apache.rocketmq.proxy.common.ProxyException: "
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"


class Asker:
    def __init__(self, endpoint: str) -> None:
        self.channel = grpc.insecure_channel(endpoint)
        self._settings: Any = None

    def call(self, method: str, request: Any) -> Any:
        rpc = getattr(messages.MessagingService, method)
        call = self.channel.unary_unary(rpc.path, request_serializer=rpc.request.SerializeToString,
                                        response_deserializer=rpc.response.FromString)
        return call(request, metadata=METADATA, timeout=WITHIN_S)

    def receive(self, request: Any) -> list[Any]:
        call = self.channel.unary_stream(f"/{definitions.SERVICE}/ReceiveMessage",
                                         request_serializer=lambda each: each.SerializeToString(),
                                         response_deserializer=messages.ReceiveMessageResponse.FromString)
        return list(call(request, metadata=METADATA, timeout=WITHIN_S))

    def say_settings(self) -> None:
        """A consumer's, on a stream that stays: RocketMQ's proxy serves none whose settings it does not know."""
        settings = messages.Settings(client_type=3)
        settings.subscription.group.name = "G-words"
        settings.subscription.subscriptions.add().topic.name = "words"
        call = self.channel.stream_stream(f"/{definitions.SERVICE}/Telemetry",
                                          request_serializer=lambda each: each.SerializeToString(),
                                          response_deserializer=messages.TelemetryCommand.FromString)
        self._settings = call(_lasting([messages.TelemetryCommand(settings=settings)]), metadata=METADATA)
        assert next(self._settings).status.code == 20000

    def services(self) -> set[str]:
        call = self.channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo",
                                          request_serializer=lambda each: each.SerializeToString(),
                                          response_deserializer=ServerReflectionResponse.FromString)
        (answer,) = call(iter([ServerReflectionRequest(list_services="")]), timeout=WITHIN_S)
        return {each.name for each in answer.list_services_response.service}

    def close(self) -> None:
        if self._settings is not None:
            self._settings.cancel()
        self.channel.close()


def _lasting(commands: list[Any]) -> Iterator[Any]:
    """Then nothing, for as long as the call lasts."""
    yield from commands
    threading.Event().wait(10 * WITHIN_S)


@pytest.fixture(scope="module", params=["java-5.3.3", "regulus"])
def asker(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Asker]:
    with ExitStack() as stack:
        front = start_front(request.param, stack, new_run("grpc-words"))
        with Admin(front.name_server) as admin:
            admin.create_topic(TopicConfig(topic_name="words", read_queue_nums=1, write_queue_nums=1,
                                           attributes={"message.type": "FIFO"}))
        made = Asker(front.endpoint)
        made.say_settings()
        yield made
        made.close()


def receive_request(seconds: int) -> Any:
    request = messages.ReceiveMessageRequest(group=messages.Resource(name="G-words"), batch_size=1)
    request.message_queue.topic.name, request.message_queue.id = "words", -1
    request.filter_expression.type, request.filter_expression.expression = 1, "*"
    request.invisible_duration.seconds, request.long_polling_timeout.seconds = seconds, 10
    return request


def test_times_and_receipts_are_refused_in_the_same_words(asker: Asker) -> None:
    told = [each.status for each in asker.receive(receive_request(1)) if each.HasField("status")]
    assert [(each.code, each.message) for each in told] == [(40011, "the invisibleTime is too small. min is 10000")]
    change = messages.ChangeInvisibleDurationRequest(group=messages.Resource(name="G-words"), message_id="01",
                                                     topic=messages.Resource(name="words"),
                                                     receipt_handle="0 1 1000 0 0 broker-a 0 0 0")
    change.invisible_duration.seconds = 43_201
    refused = asker.call("ChangeInvisibleDuration", change).status
    assert (refused.code, refused.message) == (40011, "the invisibleTime is too large. max is 43200000")
    change.invisible_duration.seconds = 20
    refused = asker.call("ChangeInvisibleDuration", change).status
    assert (refused.code, refused.message) == (40013, f"{RAISED}receipt handle is expired")
    ack = messages.AckMessageRequest(group=change.group, topic=change.topic)
    ack.entries.add(message_id="01", receipt_handle=change.receipt_handle)
    (entry,) = asker.call("AckMessage", ack).entries
    assert (entry.status.code, entry.status.message) == (40013, f"{RAISED}receipt handle is expired")
    dead = messages.ForwardMessageToDeadLetterQueueRequest(group=change.group, topic=change.topic, message_id="01",
                                                           receipt_handle="0 1 1000 0 0 broker-a 0 0")
    refused = asker.call("ForwardMessageToDeadLetterQueue", dead).status
    assert (refused.code, refused.message) == (40013, f"{RAISED}commit log offset is empty")


def test_a_consumer_sees_the_same_properties(asker: Asker) -> None:
    send = messages.SendMessageRequest()
    message = send.messages.add(body=b"body", user_properties={"color": "red"})
    message.topic.name = "words"
    system = message.system_properties
    system.message_id, system.message_group, system.tag = "01" + "AB" * 16, "g", "t"
    system.body_encoding, system.message_type, system.trace_context = 1, 2, "c"
    received: list[Any] = []
    assert asker.call("SendMessage", send).status.code == 20000
    for _ in range(5):      # the real one may begin where the queue ended when it was asked first
        received += [each.message for each in asker.receive(receive_request(20)) if each.HasField("message")]
        if received:
            break
        assert asker.call("SendMessage", send).status.code == 20000
    seen = received[0]
    assert dict(seen.user_properties) == {"color": "red", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "c"}
    assert seen.system_properties.born_host.startswith("127.0.0.1:")


def test_reflection_names_the_service(asker: Asker) -> None:
    assert {definitions.SERVICE, REFLECTION} <= asker.services()
