"""Users and policies (ACL 2.0): clients and mqadmin of 5.3.3 at our broker and at the real one, with the same words."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from admin import AdminTool
from clients import JAVA, OURS, Client, ClientFailed
from conftest import NewRun, make_server
from guards import USERS, signs_as
from real_rocketmq import RealRocketMQ
from regulus_server import RegulusServer

from regulus import Admin, Message, Producer, ProducerConfig
from regulus.access.credentials import Credentials, sign_as
from regulus.client.config import ClientConfig
from regulus.transport.connector import connect, split_address
from regulus.wire.codes import RequestCode as Code
from regulus.wire.remoting_command import RemotingCommand

COUNT = 3
FOUND_WITHIN_S = 60.0
"""Brokers index a message some time after they have it."""
Guarded = RegulusServer | RealRocketMQ

COMMANDS = (
    "createUser -b {broker} -u alice -p secret-of-alice",
    "createUser -b {broker} -u bob -p secret-of-bob -t Normal",
    "createUser -b {broker} -u chief -p secret-of-chief -t Super",
    "createUser -b {broker} -u shortlived -p secret-of-shortlived",
    "createUser -b {broker} -u alice -p again",
    "getUser -b {broker} -u alice",
    "getUser -b {broker} -u nobody",
    "updateUser -b {broker} -u bob -p another-secret",
    "updateUser -b {broker} -u chief -s disable",
    "updateUser -b {broker} -u nobody -p x",
    "listUser -b {broker} -f al",
    "listUser -b {broker} -f bo",
    "createAcl -b {broker} -s User:alice -r Topic:orders,Topic:inv* -a Pub,Sub -d Allow",
    "createAcl -b {broker} -s User:alice -r Topic:inv-secret -a All -d Deny",
    "createAcl -b {broker} -s User:alice -r Group:alice* -a Sub -i 127.0.0.1,10.0.0.0/8 -d Allow",
    "createAcl -b {broker} -s User:bob -r * -a Get,List -d Allow",
    "createAcl -b {broker} -s User:bob -r Topic:far -a Pub -i 10.9.9.9 -d Allow",
    "createAcl -b {broker} -s User:bob -r Cluster:DefaultCluster -a Update -d Allow",
    "createAcl -b {broker} -s User:bob -r Topic:made* -a Create,Delete -d Allow",
    "createAcl -b {broker} -s User:bob -r Topic:made-not -a Create -d Deny",
    "createAcl -b {broker} -s User:shortlived -r Topic:orders -a Pub -d Allow",
    "createAcl -b {broker} -s User:nobody -r Topic:orders -a Pub -d Allow",
    "createAcl -b {broker} -s User:alice -r Topic:orders -a Pub -d Perhaps",
    "createAcl -b {broker} -s User:alice -r Topic:orders -a Pub -i 10.0.0.0/40 -d Allow",
    "getAcl -b {broker} -s User:alice",
    "getAcl -b {broker} -s User:chief",
    "updateAcl -b {broker} -s User:alice -r Topic:orders -a Pub -d Allow",
    "getAcl -c DefaultCluster -s User:alice",
    "listAcl -b {broker}",
    "listAcl -b {broker} -s ali",
    "listAcl -b {broker} -r Topic:made",
    "deleteAcl -b {broker} -s User:alice -r Topic:inv-secret",
    "deleteAcl -b {broker} -s User:chief",
    "getAcl -b {broker} -s User:alice",
    "createAcl -b {broker} -s User:alice -r Topic:inv-secret -a All -d Deny",
    "deleteUser -b {broker} -u shortlived",
    "deleteUser -b {broker} -u nobody",
    "getAcl -b {broker} -s User:shortlived",
    "copyUser -f {broker} -t {broker} -u bob",
    "copyAcl -f {broker} -t {broker} -s User:bob",
    "listAcl -b {broker} -s bob",
)


@pytest.fixture(scope="module")
def servers(new_run: NewRun) -> Iterator[tuple[Guarded, Guarded]]:
    """(ours, the real one)."""
    pair = [make_server(name, new_run(name), **USERS) for name in ("regulus", "java-5.3.3")]
    with ExitStack() as stack:
        def start(server: Guarded) -> None:
            stack.callback(server.kill)
            server.start()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(start, pair))
        yield pair[0], pair[1]


@pytest.fixture(scope="module")
def printed(servers, new_run) -> list[list[str]]:
    """What each command prints, at ours and at the real one."""
    def run_all(server: Guarded) -> list[str]:
        with AdminTool("5.3.3", signs_as("root", new_run("mqadmin-5.3.3")), server.name_server_address) as tool:
            return [shown(tool.run(*command.format(broker=server.broker_address).split())) for command in COMMANDS]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run_all, servers))


def shown(text: str) -> str:
    """A refusal is the code: each has its own words."""
    refusal = re.search(r"CODE: (\d+)", text)
    if refusal:
        return f"refused with {refusal[1]}"
    return re.sub(r"[ \t]+", " ", re.sub(r"127\.0\.0\.1:\d+", "<address>", text))


@pytest.mark.parametrize("place", range(len(COMMANDS)), ids=lambda place: COMMANDS[place].replace("{broker}", "B"))
def test_mqadmin_prints_what_it_prints_at_the_real_broker(printed, place):
    ours, real = (each[place] for each in printed)
    assert ours == real


def test_what_mqadmin_prints_is_what_was_asked_for(printed):
    """So that two equal failures are no agreement."""
    by_command = dict(zip(COMMANDS, printed[0], strict=True))
    assert "alice secret-of-alice Normal enable" in by_command["getUser -b {broker} -u alice"]
    assert "chief" not in by_command["listUser -b {broker} -f bo"]
    assert "User:alice Custom Topic:inv* [Pub, Sub] null Allow" in by_command["listAcl -b {broker} -s ali"]
    assert by_command["createUser -b {broker} -u alice -p again"] == "refused with 16"
    assert "success" in by_command["copyUser -f {broker} -t {broker} -u bob"]


# --- verdicts --------------------------------------------------------------------------------------------------------

PEOPLE = {"root": "secret-of-root", "alice": "secret-of-alice", "bob": "another-secret", "chief": "secret-of-chief",
          "nobody": "secret-of-nobody"}
OFFSET = {"queueId": "0"}
REQUESTS = {
    "max offset of orders": (Code.GET_MAX_OFFSET, {"topic": "orders", **OFFSET}),
    "max offset of inv-1": (Code.GET_MAX_OFFSET, {"topic": "inv-1", **OFFSET}),
    "max offset of inv-secret": (Code.GET_MAX_OFFSET, {"topic": "inv-secret", **OFFSET}),
    "members of alice-1": (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "alice-1"}),
    "members of others": (Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "others"}),
    "offset of a group": (Code.QUERY_CONSUMER_OFFSET, {"consumerGroup": "alice-1", "topic": "orders", **OFFSET}),
    "settings": (Code.GET_BROKER_CONFIG, {}),
    "delete made-1": (Code.DELETE_TOPIC_IN_BROKER, {"topic": "made-1"}),
    "delete orders-1": (Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders-1"}),
    "read a user": (Code.AUTH_GET_USER, {"username": "alice"}),
}


def send_to(topic: str) -> tuple[int, dict[str, str]]:
    return Code.SEND_MESSAGE, {
        "producerGroup": "PG", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false"}


REQUESTS |= {f"send to {topic}": send_to(topic) for topic in
             ("orders", "orders-1", "inv-1", "inv-secret", "far", "%RETRY%alice-1", "%RETRY%others")}
NO_PERMISSION = 16
DIFFERENT = {("alice", "settings"): (False, True), ("alice", "max offset of orders"): (True, False),
             ("alice", "max offset of inv-1"): (True, False)}
"""(ours, the real one). RocketMQ has no need for the settings of a broker, and asks for GET of an offset also those who
may send to or read the topic."""


async def verdicts(server: Guarded) -> dict[tuple[str, str], bool]:
    """Whether each is let in, by user and request."""
    connection = await connect(*split_address(server.broker_address))
    found = {}
    for user, secret in PEOPLE.items():
        for name, (code, ext) in REQUESTS.items():
            request = RemotingCommand.request(int(code), dict(ext), b"body")
            sign_as(request, Credentials(user, secret))
            found[user, name] = (await connection.request(request, 10_000)).code != NO_PERMISSION
    connection.close()
    return found


async def test_ours_and_the_real_broker_let_in_the_same(servers, printed):
    ours, real = [await verdicts(server) for server in servers]
    assert len(ours) == len(real) == 85
    assert {key: (ours[key], real[key]) for key in ours if ours[key] != real[key]} == DIFFERENT
    assert {name for (user, name), allowed in ours.items() if user == "alice" and allowed} == {
        "max offset of orders", "max offset of inv-1", "members of alice-1", "send to orders", "send to inv-1",
        "send to %RETRY%alice-1"}
    assert not any(allowed for (user, _), allowed in ours.items() if user in ("chief", "nobody"))
    assert all(allowed for (user, _), allowed in ours.items() if user == "root")


async def test_mqadmin_and_our_admin_find_a_message_by_its_key(servers, printed, new_run):
    """A client of RocketMQ signs one field of this request or does not, by its version."""
    for server in servers:
        signs = {"access_key": "root", "secret_key": PEOPLE["root"]}
        async with Producer(server.name_server_address, "PG", ProducerConfig(**signs)) as producer:
            sent = await producer.send(Message("orders", b"one tea", keys="tea-1"))
        async with asyncio.timeout(FOUND_WITHIN_S), Admin(server.name_server_address, ClientConfig(**signs)) as admin:
            while not (found := await admin.messages_by_key("orders", "tea-1")):
                await asyncio.sleep(0.1)
            [by_id] = await admin.messages_by_unique_key("orders", sent.message_id)
        assert [message.message_id for message in (*found, by_id)] == [sent.message_id] * 2
        with AdminTool("5.3.3", signs_as("root", new_run("mqadmin-5.3.3")), server.name_server_address) as tool:
            assert sent.message_id in tool.run("queryMsgByKey", "-t", "orders", "-k", "tea-1")
            assert "[tea-1]" in tool.run("queryMsgByUniqueKey", "-t", "orders", "-i", sent.message_id)


# --- clients ---------------------------------------------------------------------------------------------------------

ALICE = {"access_key": "alice", "secret_key": "secret-of-alice"}
CLIENTS = (JAVA["5.3.3"], OURS)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("at", [0, 1], ids=["ours", "real"])
def test_a_client_sends_and_consumes_by_its_policies(servers, printed, client: Client, at, new_run):
    server, name = servers[at].name_server_address, client.name.replace(".", "_")
    topic, home = f"inv-{name}", new_run(client.name)
    client.produce(home, namesrv=server, group="PG", topic=topic, prefix="single", count=COUNT, **ALICE)
    with client.consume(home, namesrv=server, group=f"alice-{name}", topic=topic, **ALICE) as consumer:
        consumer.wait_for_bodies([f"single-{index}" for index in range(COUNT)])
    with pytest.raises(ClientFailed, match="has no permission to access Topic:hidden"):
        client.produce(new_run(client.name), namesrv=server, group="PG", topic="hidden", prefix="x", count=1, **ALICE)
    with pytest.raises(ClientFailed, match="check signature failed"):
        client.produce(new_run(client.name), namesrv=server, group="PG", topic=topic, prefix="x", count=1,
                       access_key="alice", secret_key="another")
