"""A front by itself before a broker with accounts: who may do what is for the front to say."""

import asyncio
import hmac
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regulus.access.plain_acl import PlainAcl
from regulus.broker.config import BrokerConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.proxy.standalone import standalone
from regulus.server import access_files
from regulus.server.assembly import Regulus
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, signed_by
from tests.unit.proxy.test_embedded import send_request

HOST = "127.0.0.1"
TRANSPORT = TransportConfig(bind_address=HOST)
AT_THE_BROKER = """
accounts:
- {accessKey: our-front, secretKey: front-secret, admin: true}
"""
AT_THE_FRONT = """
accounts:
- {accessKey: producer, secretKey: producer, defaultTopicPerm: DENY, defaultGroupPerm: DENY, topicPerms: [Orders=PUB]}
- {accessKey: consumer, secretKey: consumer, defaultTopicPerm: DENY, defaultGroupPerm: DENY, topicPerms: [Orders=SUB],
   groupPerms: [g=SUB]}
"""


def home(path: Path, accounts: str) -> str:
    (path / "conf").mkdir(parents=True)
    (path / "conf" / "plain_acl.yml").write_text(accounts)
    return str(path)


@pytest.fixture
async def regulus(tmp_path: Path) -> AsyncIterator[Regulus]:
    broker_home = home(tmp_path / "broker", AT_THE_BROKER)
    made = Regulus(BrokerConfig(listen_port=0, acl_enable=True, rocketmq_home=broker_home),
                   small_store(tmp_path / "store"),
                   NamesrvConfig(listen_port=0, bind_address=HOST, acl_enable=True, rocketmq_home=broker_home),
                   transport_config=TRANSPORT)
    await made.start()
    yield made
    await made.stop()


async def front_before(regulus: Regulus, **settings: object) -> ProxyServer:
    config = ProxyConfig(namesrv_addr=f"{HOST}:{regulus.name_server.port}", grpc_server_port=0, bind_address=HOST,
                         access_key="our-front", **settings)     # type: ignore[arg-type]
    front = standalone(config, TRANSPORT)
    await front.start()
    return front


async def make_topic(front: ProxyServer) -> int:
    answer = await front._brokers.ask("broker-a", RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, {
        "topic": "Orders", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+message.type=NORMAL"}), 60_000)
    return answer.code


def receive_request() -> messages.ReceiveMessageRequest:
    request = messages.ReceiveMessageRequest(group=messages.Resource(name="g"), batch_size=8)
    request.message_queue.topic.name, request.message_queue.broker.name = "Orders", "broker-a"
    request.invisible_duration.seconds = 15
    return request


async def test_accounts_of_the_front_say_what_its_clients_may(regulus: Regulus, tmp_path: Path) -> None:
    front = await front_before(regulus, secret_key="front-secret", acl_enable=True,
                               rocketmq_home=home(tmp_path / "front", AT_THE_FRONT))
    assert await make_topic(front) == 0
    caller = Caller(front.port)
    sender, reader = signed_by("producer", "c1"), signed_by("consumer", "c2")
    as_front = _signed("our-front", "front-secret")

    async def received(metadata: tuple[tuple[str, str], ...]) -> list[int]:
        return [each.status.code async for each in caller.receive(receive_request(), 3, metadata)
                if each.HasField("status")]

    assert await received(reader) == [40401]
    assert [(await caller.call("SendMessage", send_request(), each)).status.code
            for each in (sender, reader, as_front, (("x-mq-client-id", "c3"),))] == [20000, 40100, 40100, 40100]
    assert await received(sender) == [40100]
    assert await received(reader) == [20000]
    await caller.channel.close()
    await front.stop()


async def test_nobody_waits_while_accounts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 5,000 takes half a second."""
    folder = home(tmp_path, AT_THE_FRONT)
    monkeypatch.setattr("regulus.server.access_files.LOOK_INTERVAL_MS", 1)
    monkeypatch.setattr("regulus.proxy.standalone.TICK_S", 0.01)
    front = standalone(ProxyConfig(namesrv_addr="127.0.0.1:1", grpc_server_port=0, acl_enable=True,
                                   rocketmq_home=folder), TRANSPORT)
    read, begun, goes_on = access_files._read, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def read_slowly(path: Path) -> PlainAcl:
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(60), "the event loop stands still"
        return read(path)

    monkeypatch.setattr(access_files, "_read", read_slowly)
    (tmp_path / "conf" / "plain_acl.yml").write_text(AT_THE_BROKER)
    assert front._keep_accounts is not None
    keeping = asyncio.ensure_future(front._keep_accounts())
    await asyncio.wait([asyncio.ensure_future(begun.wait()), keeping], return_when=asyncio.FIRST_COMPLETED)
    goes_on.set()
    assert front._access is not None
    async with asyncio.timeout(60):
        while front._access._rules().secret_of("our-front") is None:
            await asyncio.sleep(0.01)
    keeping.cancel()


async def test_without_accounts_a_front_lets_all_do_what_its_own_may(regulus: Regulus) -> None:
    """docs/grpc.md says so: it starts with a warning where others reach it."""
    front = await front_before(regulus, secret_key="front-secret")
    assert await make_topic(front) == 0
    caller = Caller(front.port)
    assert (await caller.call("SendMessage", send_request())).status.code == 20000
    await caller.channel.close()
    await front.stop()


async def test_what_comes_to_a_poll_whose_client_has_gone_is_anothers_and_was_not_delivered(regulus: Regulus) -> None:
    """The broker goes on to hold the poll, which takes the message."""
    front = await front_before(regulus, secret_key="front-secret")
    assert await make_topic(front) == 0
    caller = Caller(front.port)
    call = caller.receive(receive_request(), 30)
    reading = asyncio.ensure_future(call.read())
    held = regulus.broker_server.broker.held_requests
    async with asyncio.timeout(60):
        while not len(held):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        while not front._receive.left_behind:
            await asyncio.sleep(0.01)
    assert (await caller.call("SendMessage", send_request())).status.code == 20000
    found = [each.message async for each in caller.receive(receive_request(), 10) if each.HasField("message")]
    assert [(each.body, each.system_properties.delivery_attempt) for each in found] == [(b"body", 1)]
    assert front._receive.left_behind == 0
    await caller.channel.close()
    await front.stop()


async def test_a_front_that_signs_wrongly_stores_nothing_and_says_why(regulus: Regulus) -> None:
    front = await front_before(regulus, secret_key="front-secret")
    assert await make_topic(front) == 0
    await front.stop()
    front = await front_before(regulus, secret_key="wrong")
    caller = Caller(front.port)
    response = await caller.call("SendMessage", send_request())
    assert (response.status.code, "signature" in response.status.message) == (50001, True), response
    assert sum(regulus.broker_server.store.max_offset("Orders", queue) for queue in range(2)) == 0
    await caller.channel.close()
    await front.stop()


def _signed(user: str, secret: str) -> tuple[tuple[str, str], ...]:
    signature = hmac.digest(secret.encode(), b"today", "sha1").hex()
    return (("x-mq-client-id", "c4"), ("x-mq-date-time", "today"),
            ("authorization", f"MQv2-HMAC-SHA1 Credential={user}, Signature={signature}"))
