"""How a client of RocketMQ 5 keeps in touch with its servers: signatures, TLS, settings, throttling, restarts."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
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
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.consuming.grpc_receiver import GrpcReceiver
from regulus.client.grpc.session import CHANNELS_MAX, QUESTIONS_MAX, Session, _failure, _mend
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    SendFailed,
    Throttled,
)
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code
from tests.certificates import make_certificate
from tests.unit.client.both_protocols import BothProtocols, both_protocols
from tests.unit.client.grpc.scripted import Script, served

LATE_S_MAX = 10.0
"""What a rest may be longer on a machine that has much else to do."""
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
        with pytest.raises(ConnectFailed, match=r"tls_client_trust_cert_path says whose certificates are believed$"):
            await Producer(broker.address("grpc"), "senders", ProducerConfig(tls=distrusting)).start()


_NOT_REACHED = "failed to connect to all addresses; last error: "
_START = "start one with `regulus up` or `regulus proxy`, or correct the address (grpc://host:port)"
_NO_TLS = "that port speaks no TLS, or wants a certificate of its clients; its server's log says which"


@pytest.mark.parametrize(("speaks_tls", "words", "mend"), [
    (False, "it says nothing", _START),
    (False, _NOT_REACHED + "UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused", _START),
    (False, "the users are not known here yet: broker a answered 16: check signature failed.", "its log says more"),
    (False, _NOT_REACHED + "UNAVAILABLE: ipv4:127.0.0.1:9876: Socket closed",
     ("that port takes TLS only (tls_enable), or is not the one of RocketMQ 5 clients, which is 8081 unless it was set "
      "otherwise")),
    (True, _NOT_REACHED + "UNAVAILABLE: ipv4:127.0.0.1:8081: Handshake read failed (Socket closed)", _NO_TLS),
    (True, _NOT_REACHED + "UNAVAILABLE: ipv4:127.0.0.1:8081: Socket closed", _NO_TLS),
    (True, _NOT_REACHED + ("UNKNOWN: ipv4:127.0.0.1:8081: Custom verification check failed with error: "
                           "UNAUTHENTICATED: Hostname Verification Check failed."),
     "use an address that the certificate names"),
])
def test_who_does_not_tell_its_settings_is_told_with_what_to_do(speaks_tls: bool, words: str, mend: str) -> None:
    """The words are those of grpcio."""
    assert _mend(words, TlsConfig(tls_enable=speaks_tls)) == mend


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    tls = TlsConfig(tls_enable=True, tls_client_trust_cert_path=str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigError, match=r"tls\.client\.trustCertPath: .*ca\.pem has no certificates"):
        Session("127.0.0.1:1", ProducerConfig(tls=tls), ClientType.PRODUCER, messages.Settings, _nothing, 1_000)


@pytest.mark.parametrize("tls", [{"tls_client_auth_server": False}, {"tls_client_check_host": False},
                                 {"tls_client_key_password": "x"}, {"tls_client_trust_cert_path": "/nowhere"}])
def test_what_grpc_cannot_have_is_said(tls: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(tls))):
        Session("127.0.0.1:1", ProducerConfig(tls=TlsConfig(tls_enable=True, **tls)), ClientType.PRODUCER,
                messages.Settings, _nothing, 1_000)


async def _nothing(command: Any, target: str) -> None:
    """Answers no question."""


# --- a server by a script --------------------------------------------------------------------------------------------


async def test_a_server_that_fails_is_asked_again_at_once() -> None:
    script = Script(Code.INTERNAL_SERVER_ERROR, Code.INTERNAL_SERVER_ERROR)
    async with served(script) as address, Producer(address, "senders") as producer:
        await producer.send(Message("orders", b"tea"))
    assert len(script.sends) == 3
    assert script.sends[2] - script.sends[0] < 0.9


async def test_a_send_waits_for_a_server_that_is_started_again() -> None:
    before, after = Script(), Script()
    async with AsyncExitStack() as stack:
        async with served(before) as address:
            producer = await stack.enter_async_context(
                Producer(address, "senders", ProducerConfig(send_msg_timeout=20_000)))
            await producer.send(Message("orders", b"tea"))
        sending = asyncio.create_task(producer.send(Message("orders", b"tea")))
        async with asyncio.timeout(60):
            while producer._queues.back_off.is_idle and not sending.done():   # until one attempt was refused
                await asyncio.sleep(0.01)
        await stack.enter_async_context(served(after, before.port))
        await sending
        assert (len(before.sends), len(after.sends)) == (1, 1)


async def test_a_server_that_stays_away_is_waited_for_as_long_as_the_send_may_take() -> None:
    async with AsyncExitStack() as stack:
        async with served(Script()) as address:
            producer = await stack.enter_async_context(
                Producer(address, "senders", ProducerConfig(send_msg_timeout=1_000)))
            await producer.send(Message("orders", b"tea"))
        with pytest.raises(SendFailed, match=r"failed after .* attempts in") as failed:
            await producer.send(Message("orders", b"tea"))
        assert failed.value.elapsed_ms > 700


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
    assert 0.95 <= first < 1 + LATE_S_MAX
    assert 1.6 * 0.8 - 0.05 <= second < 1.6 * 1.2 + LATE_S_MAX


async def test_a_rest_that_is_longer_than_the_calls_time_is_told_at_once() -> None:
    script = Script(*[int(Code.TOO_MANY_REQUESTS)] * 9)
    config = ProducerConfig(send_msg_timeout=60_000)
    async with served(script) as address, Producer(address, "senders", config) as producer:
        server, long_ago = address.removeprefix("grpc://"), steady_ms() - 1_000_000
        for number in range(10):        # it has throttled that often, and rests for two minutes the next time
            producer._queues.back_off.throttled(server, long_ago + 100_000 * number, 0)
        begun = time.monotonic()
        with pytest.raises(Throttled, match="is busy and rests for"):
            await producer.send(Message("orders", b"tea"))
    assert len(script.sends) == 1
    assert time.monotonic() - begun < 30


async def test_settings_name_what_is_subscribed_and_are_told_anew_when_that_changes() -> None:
    script = Script()
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "hot"}) as consumer:
        consumer.subscribe("drinks", "a > 1", "SQL92")
        async with asyncio.timeout(60):
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
        async with asyncio.timeout(60):
            while len(script.told) < 2:
                await asyncio.sleep(0.01)
    assert [command.WhichOneof("command") for command in script.told[:2]] == ["settings", "settings"]


async def test_it_tells_where_its_threads_are_when_it_is_asked() -> None:
    script = Script()
    command = messages.TelemetryCommand()
    command.print_thread_stack_trace_command.nonce = "n1"
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}):
        script.to_ask.put_nowait(command)
        async with asyncio.timeout(60):
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
            async with asyncio.timeout(60):
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


# --- ends and beginnings ---------------------------------------------------------------------------------------------


async def test_the_server_is_told_that_it_ends() -> None:
    script = Script()
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}):
        pass
    assert script.ended_groups == ["kitchen"]


async def test_one_that_is_started_anew_tells_its_settings_anew() -> None:
    script = Script()
    async with served(script) as address:
        consumer = SimpleConsumer(address, "kitchen", {"orders": "*"})
        for times in (1, 2):
            async with consumer:
                assert len(script.told) == times


async def test_a_call_that_the_end_cuts_off_says_so_and_cancels_nobody() -> None:
    script = Script()
    async with served(script) as address:
        consumer = SimpleConsumer(address, "kitchen", {"orders": "*"})
        await consumer.start()
        receiving = asyncio.ensure_future(consumer.receive(1, 10_000))
        async with asyncio.timeout(60):
            while not script.receives:
                await asyncio.sleep(0.01)
        await consumer.shutdown()
        with pytest.raises(ClientClosed):
            await receiving


async def test_a_receive_that_is_cancelled_while_it_ends_stays_cancelled() -> None:
    script = Script()
    async with served(script) as address:
        consumer = SimpleConsumer(address, "kitchen", {"orders": "*"})
        await consumer.start()
        receiving = asyncio.ensure_future(consumer.receive(1, 10_000))
        async with asyncio.timeout(60):
            while not script.receives:
                await asyncio.sleep(0.01)
        ending = asyncio.ensure_future(consumer.shutdown())
        await asyncio.sleep(0)
        receiving.cancel()
        await ending
        with pytest.raises(asyncio.CancelledError):
            await receiving


# --- servers that want too much --------------------------------------------------------------------------------------


async def test_routes_may_not_have_any_number_of_addresses_greeted() -> None:
    script = Script()
    script.endpoints = [("127.0.0.1", 1 + number) for number in range(3 * CHANNELS_MAX)]
    async with served(script) as address:
        session = Session(address.removeprefix("grpc://"), ProducerConfig(), ClientType.PRODUCER, _no_settings,
                          _nothing, 1_000)
        await session.start()
        await session.route("orders")
        assert len(session.streams) <= CHANNELS_MAX
        script.endpoints = []
        session.forget_route("orders")
        await session.route("orders")
        assert session.streams == {f"127.0.0.1:{script.port}"}    # what no route names any more is left
        await session.close()


def _no_settings() -> Any:
    made = messages.Settings()
    made.publishing.SetInParent()
    return made


async def test_many_calls_ask_for_a_route_once() -> None:
    script = Script()
    async with served(script) as address, Producer(address, "senders") as producer:
        await asyncio.gather(*(producer.send(Message("orders", b"tea")) for _ in range(50)))
    assert script.routes == 1


async def test_no_more_questions_are_answered_at_once_than_the_limit() -> None:
    script = Script()
    under_way = most = 0
    opened = asyncio.Event()

    async def answer(command: Any, target: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await opened.wait()
        under_way -= 1

    async with served(script) as address:
        session = Session(address.removeprefix("grpc://"), ProducerConfig(), ClientType.PRODUCER, _no_settings,
                          answer, 1_000)
        await session.start()
        for number in range(3 * QUESTIONS_MAX):
            command = messages.TelemetryCommand()
            command.verify_message_command.nonce = str(number)
            script.to_ask.put_nowait(command)
        last = messages.TelemetryCommand()
        last.settings.backoff_policy.max_attempts = 77
        script.to_ask.put_nowait(last)
        async with asyncio.timeout(60):
            while session.told.backoff_policy.max_attempts != 77:
                await asyncio.sleep(0.01)
        assert most == QUESTIONS_MAX
        opened.set()
        await session.close()


async def test_a_stream_that_stands_still_gathers_nothing() -> None:
    """However often the settings change, they are told once, as they are then."""
    script = Script()
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}) as consumer:
        for number in range(200):
            consumer.subscribe(f"topic-{number}")
        async with asyncio.timeout(60):
            while len(script.told) < 2 or len(script.told[-1].settings.subscription.subscriptions) < 201:
                await asyncio.sleep(0.01)
        assert len(script.told) < 5


@pytest.mark.parametrize(("words", "kind"), [
    ("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused", ConnectRefused),
    ("DNS resolution failed for nowhere:8081: C-ares status is not ARES_SUCCESS", ConnectRefused),
    ("Stream removed (recvmsg:Connection reset by peer (104))", ConnectionLost),
    ("Stream removed (Socket closed)", ConnectionLost),
])
def test_only_what_never_left_counts_as_a_refused_connection(words: str, kind: type[ClientError]) -> None:
    """The others may have been done: a half message is not sent again after them."""
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), words)
    assert type(_failure(error, "127.0.0.1:8081", 3_000)) is kind
