"""How a client of RocketMQ 5 keeps in touch with its servers: signatures, TLS, settings, throttling, restarts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from regulus import (
    Message,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    SimpleConsumer,
    SimpleConsumerConfig,
    TlsConfig,
)
from regulus.client.grpc.receiving import GrpcReceiver
from regulus.client.grpc.session import Session
from regulus.errors import BrokerRefused, ConfigError, ConnectFailed, SendFailed, Throttled
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code
from tests.certificates import make_certificate
from tests.unit.client.both_protocols import BothProtocols, both_protocols

ACCOUNTS = """
accounts:
- accessKey: kitchen-cook
  secretKey: cook-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: the-operator
  secretKey: operator-secret
  admin: true
"""


# --- signatures and TLS, at the real broker --------------------------------------------------------------------------


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    async with both_protocols(tmp_path / "store", acl_enable=True, rocketmq_home=str(tmp_path),
                              auto_create_topic_enable=True) as made:
        yield made


async def test_a_call_is_signed_by_the_account(guarded: BothProtocols) -> None:
    signs = {"access_key": "kitchen-cook", "secret_key": "cook-secret"}
    async with Producer(guarded.name_server, "senders", ProducerConfig(**signs)) as producer:
        await producer.send(Message("orders", b"tea"))
    async with Producer(guarded.address("grpc"), "senders", ProducerConfig(**signs)) as producer:
        await producer.send(Message("orders", b"tea"))
    config = SimpleConsumerConfig(**signs)
    async with SimpleConsumer(guarded.address("grpc"), "kitchen", {"orders": "*"}, config) as consumer:
        [message] = await consumer.receive(1, 10_000)
        await consumer.ack(message)


@pytest.mark.parametrize("signs", [{}, {"access_key": "kitchen-cook", "secret_key": "wrong"},
                                   {"access_key": "nobody", "secret_key": "wrong"}])
async def test_who_does_not_sign_as_an_account_is_refused_at_the_start(guarded: BothProtocols,
                                                                       signs: dict[str, str]) -> None:
    with pytest.raises(BrokerRefused, match="access key"):
        await Producer(guarded.address("grpc"), "senders", ProducerConfig(**signs)).start()


async def test_tls_checks_who_answers(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path / "certificate")
    tls = {"tls_server_cert_path": str(pair.certificate), "tls_server_key_path": str(pair.key)}
    trusting = TlsConfig(tls_enable=True, tls_client_trust_cert_path=str(pair.certificate))
    async with both_protocols(tmp_path / "store", tls=tls) as broker:
        await broker.create_topic("orders")
        async with Producer(broker.address("grpc"), "senders", ProducerConfig(tls=trusting)) as producer:
            await producer.send(Message("orders", b"tea"))
        other = make_certificate(tmp_path / "other")
        distrusting = TlsConfig(tls_enable=True, tls_client_trust_cert_path=str(other.certificate))
        with pytest.raises(ConnectFailed, match=r"(?i)handshake|certificate|ssl"):
            await Producer(broker.address("grpc"), "senders", ProducerConfig(tls=distrusting)).start()


@pytest.mark.parametrize("tls", [{"tls_client_auth_server": False}, {"tls_client_check_host": False},
                                 {"tls_client_key_password": "x"}, {"tls_client_trust_cert_path": "/nowhere"}])
def test_what_grpc_cannot_have_is_said(tls: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(tls))):
        Session("127.0.0.1:1", ProducerConfig(tls=TlsConfig(tls_enable=True, **tls)), ClientType.PRODUCER,
                messages.Settings, _nothing, 1_000)


async def _nothing(command: Any, target: str) -> None:
    """Answers no question."""


# --- a server by a script --------------------------------------------------------------------------------------------


class Script:
    """A server whose answers to sends are given; it notes all that it is told."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.sends: list[float] = []
        self.told: list[Any] = []
        self.heartbeats = 0
        self.port = 0
        self.to_ask: asyncio.Queue[Any] = asyncio.Queue()
        self.hangs_up = asyncio.Event()

    def route(self, request: Any) -> Any:
        answer = messages.QueryRouteResponse()
        answer.status.code = int(Code.OK)
        queue = answer.message_queues.add(permission=4)
        queue.topic.name, queue.broker.name = request.topic.name, "a"
        queue.broker.endpoints.scheme = 1
        queue.broker.endpoints.addresses.add(host="127.0.0.1", port=self.port)
        return answer

    def send(self, request: Any) -> Any:
        self.sends.append(time.monotonic())
        code = self.codes.pop(0) if self.codes else int(Code.OK)
        answer = messages.SendMessageResponse()
        answer.status.code, answer.status.message = code, "as the script says"
        if code == Code.OK:
            entry = answer.entries.add(message_id=request.messages[0].system_properties.message_id, offset=1)
            entry.status.code = code
        return answer

    def ended(self, request: Any) -> Any:
        answer = messages.NotifyClientTerminationResponse()
        answer.status.code = int(Code.OK)
        return answer

    async def telemetry(self, requests: Any, context: Any) -> None:
        async def ask() -> None:
            while True:
                await context.write(await self.to_ask.get())
        async def hang_up() -> None:
            await self.hangs_up.wait()
            self.hangs_up.clear()
            listening.cancel()

        asking, hanging = asyncio.ensure_future(ask()), asyncio.ensure_future(hang_up())
        listening = asyncio.ensure_future(self._listen(requests, context))
        try:
            await asyncio.wait([listening])
        finally:
            for task in (asking, hanging, listening):
                task.cancel()

    async def _listen(self, requests: Any, context: Any) -> None:
        async for command in requests:
            self.told.append(command)
            if command.WhichOneof("command") == "settings":
                answer = messages.TelemetryCommand(settings=command.settings)
                answer.settings.backoff_policy.max_attempts = 5
                await context.write(answer)


@asynccontextmanager
async def served(script: Script) -> AsyncIterator[str]:
    server = grpc.aio.server()
    types = messages.method_types()

    def unary(name: str, answer: Callable[[Any], Any]) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            return answer(request)
        request, response = types[name]
        return grpc.unary_unary_rpc_method_handler(handle, request.FromString, response.SerializeToString)

    request, response = types["Telemetry"]
    handlers = {"QueryRoute": unary("QueryRoute", script.route), "SendMessage": unary("SendMessage", script.send),
                "NotifyClientTermination": unary("NotifyClientTermination", script.ended),
                "Telemetry": grpc.stream_stream_rpc_method_handler(script.telemetry, request.FromString,
                                                                   response.SerializeToString)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(messages.SERVICE, handlers),))
    script.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{script.port}"
    finally:
        await server.stop(None)


async def test_a_server_that_fails_is_asked_again_at_once() -> None:
    script = Script(Code.INTERNAL_SERVER_ERROR, Code.INTERNAL_SERVER_ERROR)
    async with served(script) as address, Producer(address, "senders") as producer:
        await producer.send(Message("orders", b"tea"))
    assert len(script.sends) == 3
    assert script.sends[2] - script.sends[0] < 0.9


async def test_a_refusal_that_is_for_good_is_told_at_once() -> None:
    script = Script(Code.ILLEGAL_MESSAGE_KEY)
    async with served(script) as address, Producer(address, "senders") as producer:
        with pytest.raises(BrokerRefused, match="40005"):
            await producer.send(Message("orders", b"tea"))
    assert len(script.sends) == 1


async def test_the_last_failure_is_told_with_all_that_was_tried() -> None:
    script = Script(*[int(Code.INTERNAL_SERVER_ERROR)] * 9)
    async with served(script) as address, Producer(address, "senders") as producer:
        with pytest.raises(SendFailed, match="after 3 attempts"):
            await producer.send(Message("orders", b"tea"))
    assert len(script.sends) == 3


async def test_a_server_that_asks_for_fewer_requests_rests_longer_each_time() -> None:
    script = Script(Code.TOO_MANY_REQUESTS, Code.TOO_MANY_REQUESTS)
    config = ProducerConfig(send_msg_timeout=30_000)
    async with served(script) as address, Producer(address, "senders", config) as producer:
        await producer.send(Message("orders", b"tea"))
    first, second = script.sends[1] - script.sends[0], script.sends[2] - script.sends[1]
    assert 0.95 <= first < 1.5
    assert 1.6 * 0.8 - 0.05 <= second < 1.6 * 1.2 + 0.5


async def test_a_rest_that_is_longer_than_the_calls_time_is_told_at_once() -> None:
    script = Script(*[int(Code.TOO_MANY_REQUESTS)] * 9)
    config = ProducerConfig(send_msg_timeout=800)
    async with served(script) as address, Producer(address, "senders", config) as producer:
        begun = time.monotonic()
        with pytest.raises(Throttled):
            await producer.send(Message("orders", b"tea"))
    assert time.monotonic() - begun < 0.7


async def test_settings_name_what_is_subscribed_and_are_told_anew_when_that_changes() -> None:
    script = Script()
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "hot"}) as consumer:
        consumer.subscribe("drinks", "a > 1", "SQL92")
        async with asyncio.timeout(5):
            while len(script.told) < 2:
                await asyncio.sleep(0.01)
    first, second = (command.settings for command in script.told[:2])
    assert first.client_type == ClientType.SIMPLE_CONSUMER
    assert first.subscription.group.name == "kitchen"
    assert [(each.topic.name, each.expression.type, each.expression.expression)
            for each in second.subscription.subscriptions] == [("orders", 1, "hot"), ("drinks", 2, "a > 1")]


async def test_a_stream_that_breaks_is_opened_anew_with_the_settings() -> None:
    script = Script()
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}):
        script.hangs_up.set()
        async with asyncio.timeout(10):
            while len(script.told) < 2:
                await asyncio.sleep(0.01)
    assert [command.WhichOneof("command") for command in script.told[:2]] == ["settings", "settings"]


async def test_it_tells_where_its_threads_are_when_it_is_asked() -> None:
    script = Script()
    command = messages.TelemetryCommand()
    command.print_thread_stack_trace_command.nonce = "n1"
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}):
        script.to_ask.put_nowait(command)
        async with asyncio.timeout(5):
            while len(script.told) < 2:
                await asyncio.sleep(0.01)
    answer = script.told[1].thread_stack_trace
    assert answer.nonce == "n1"
    assert "MainThread" in answer.thread_stack_trace


async def test_a_push_consumer_calls_its_listener_for_an_operator(tmp_path: Path) -> None:
    called: list[bytes] = []

    def listen(batch: Any, context: Any) -> Any:
        called.append(batch[0].body)
        if batch[0].body == b"bad":
            raise ValueError("no")
        return "CONSUME_SUCCESS"

    script = Script()
    async with served(script) as address:
        consumer = PushConsumer(address, "kitchen", listen, PushConsumerConfig())
        consumer.subscribe("orders")
        async with consumer:
            for nonce, body in (("n1", b"good"), ("n2", b"bad")):
                command = messages.TelemetryCommand()
                command.verify_message_command.nonce = nonce
                command.verify_message_command.message.body = body
                command.verify_message_command.message.topic.name = "orders"
                script.to_ask.put_nowait(command)
            async with asyncio.timeout(5):
                while len(script.told) < 3:
                    await asyncio.sleep(0.01)
    answers = {command.verify_message_result.nonce: command.status.code for command in script.told[1:3]}
    assert answers == {"n1": Code.OK, "n2": Code.FAILED_TO_CONSUME_MESSAGE}
    assert sorted(called) == [b"bad", b"good"]


async def test_what_the_server_says_of_the_group_counts() -> None:
    script = Script()
    async with served(script) as address:
        receiver = GrpcReceiver(address.removeprefix("grpc://"), "kitchen", PushConsumerConfig(), list,
                                request_timeout_ms=1_000, is_push=True)
        await receiver.start()
        assert receiver.rules.deliveries_max == 5
        assert receiver.rules.retry_delay_ms(1) == 1_000
        assert receiver.rules.retry_delay_ms(100) == 7_200_000
        await receiver.close()


def test_blocking_clients_speak_it_too(tmp_path: Path) -> None:
    from regulus.client import sync

    async def run() -> None:
        async with both_protocols(tmp_path) as broker:
            await broker.create_topic("orders")

            def work() -> bytes:
                with (sync.Producer(broker.address("grpc"), "senders") as producer,
                      sync.SimpleConsumer(broker.address("grpc"), "kitchen", {"orders": "*"}) as consumer):
                    assert consumer.receive(1, 10_000, await_duration_ms=0) == []
                    producer.send(Message("orders", b"tea"))
                    [message] = consumer.receive(1, 10_000)
                    consumer.ack(message)
                    return bytes(message.body)

            with ThreadPoolExecutor(1) as pool:
                assert await asyncio.get_running_loop().run_in_executor(pool, work) == b"tea"

    asyncio.run(run())
