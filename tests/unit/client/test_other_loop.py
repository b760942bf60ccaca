"""An asyncio client in another event loop than the one it was started in: one sentence says what to do."""

import asyncio
import socket

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.config import ProducerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer
from regulus.errors import ClientError, NoNameServer
from regulus.model.message import Message
from regulus.testing.running_server import ServerProcess, free_ports

PROTOCOLS = ("rocketmq", "grpc")
SAYS = "was started in another event loop"


async def listen(messages, context):
    raise AssertionError("there are no messages")


def subscribed(consumer):
    consumer.subscribe("T")
    return consumer


CLIENTS = {
    "producer": (lambda address: Producer(address, "PG"), lambda client: client.send(Message("T", b"x"))),
    "batch": (lambda address: Producer(address, "PG"), lambda client: client.send_batch([Message("T", b"x")])),
    "gathering": (lambda address: Producer(address, "PG", ProducerConfig(auto_batch=True)),
                  lambda client: client.send(Message("T", b"x"))),
    "keeping": (lambda address: Producer(address, "PG", on_send_failed=lambda failed: True),
                lambda client: client.send(Message("T", b"x"))),
    "transactions": (lambda address: TransactionProducer(address, "TG"),
                     lambda client: client.send_half(Message("T", b"x"))),
    "simple consumer": (lambda address: subscribed(SimpleConsumer(address, "SG")),
                        lambda client: client.receive(await_duration_ms=100)),
    "push consumer": (lambda address: subscribed(PushConsumer(address, "CG", listen)), None),
    "admin": (lambda address: Admin(address), lambda client: client.list_groups()),
}


@pytest.fixture(scope="module")
def address_of(tmp_path_factory):
    [port] = free_ports(1)
    with ServerProcess(tmp_path_factory.mktemp("store"), "--grpc-port", str(port)) as server:
        addresses = {"rocketmq": server.name_server_address, "grpc": f"grpc://127.0.0.1:{port}"}
        yield addresses.__getitem__


@pytest.mark.parametrize(("kind", "protocol"), [
    (kind, protocol) for kind in CLIENTS for protocol in PROTOCOLS if (kind, protocol) != ("admin", "grpc")])
@pytest.mark.parametrize("is_closed", [True, False], ids=["the first loop is closed", "the first loop rests"])
def test_a_client_in_another_loop_says_so_in_one_sentence(address_of, protocol, kind, is_closed):
    make, use = CLIENTS[kind]
    client = make(address_of(protocol))

    async def begin():
        await client.start()
        if use is not None:
            await use(client)

    first = asyncio.Runner()
    first.run(begin())
    if is_closed:
        first.close()
    is_started_again = kind == "admin" or kind.endswith("consumer")
    calls = [lambda: use(client)] * (use is not None) + [client.start] * is_started_again + [client.shutdown]
    for call in calls:
        async def elsewhere(call=call):
            async with asyncio.timeout(30):
                with pytest.raises(ClientError, match=SAYS) as raised:
                    await call()
            assert raised.type is ClientError
        asyncio.run(elsewhere())
    if not is_closed:
        if kind == "admin":
            first.run(use(client))      # a shutdown that was refused has not ended it
        first.run(client.shutdown())
        first.close()


def test_a_producer_may_be_shut_down_and_started_in_one_loop_after_another(address_of):
    producer = Producer(address_of("rocketmq"), "PG")

    async def send():
        async with producer:
            return await producer.send(Message("T", b"x"))

    assert len({asyncio.run(send()).message_id for _ in range(3)}) == 3


def test_an_admin_client_that_asked_nothing_yet_belongs_to_the_loop_of_its_start(address_of):
    admin = Admin(address_of("rocketmq"))
    with asyncio.Runner() as first:
        first.run(admin.start())
        for call in (admin.list_groups, admin.start, admin.shutdown):
            with pytest.raises(ClientError, match=SAYS):
                asyncio.run(call())
        first.run(admin.shutdown())


def test_an_admin_client_may_be_shut_down_and_started_in_one_loop_after_another(address_of):
    admin = Admin(address_of("rocketmq"))

    async def live():
        async with admin:
            await admin.start()     # a second start in the same loop changes nothing
            return await admin.cluster_info()

    assert all(asyncio.run(live()).cluster_addr_table for _ in range(3))


@pytest.mark.parametrize("kind", ["simple consumer", "push consumer"])
def test_a_consumer_may_be_shut_down_and_started_in_one_loop_after_another(address_of, kind):
    consumer = CLIENTS[kind][0](address_of("rocketmq"))

    async def live():
        async with consumer:
            return consumer.client_id

    assert all(asyncio.run(live()) for _ in range(3))


@pytest.mark.parametrize("kind", ["simple consumer", "push consumer"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_whose_start_is_under_way_in_another_loop_says_so(kind, protocol):
    """Who waited for it would wait for ever: that loop rests."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = CLIENTS[kind][0](f"{protocol}://127.0.0.1:{silent.getsockname()[1]}")
        starts = []

        async def begin():
            starts.append(asyncio.create_task(client.start()))
            await asyncio.sleep(0.1)

        async def elsewhere(call):
            async with asyncio.timeout(30):
                with pytest.raises(ClientError, match=SAYS):
                    await call()

        async def give_up():
            starts[0].cancel()
            await asyncio.wait(starts)

        with asyncio.Runner() as first:
            first.run(begin())
            for call in (client.start, client.shutdown):
                asyncio.run(elsewhere(call))
            assert not starts[0].done()
            first.run(give_up())
        asyncio.run(client.shutdown())      # it has no home any more


def test_a_consumer_whose_start_failed_belongs_to_no_loop():
    for kind in ("simple consumer", "push consumer"):
        consumer = CLIENTS[kind][0]("rocketmq://127.0.0.1:1")
        for _ in range(2):
            with pytest.raises(NoNameServer):
                asyncio.run(consumer.start())
