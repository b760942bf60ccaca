"""The users of brokers elsewhere: what a front by itself knows of them, and when."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from regulus.access.credentials import Credentials
from regulus.access.decision import Denied
from regulus.access.needs import PUB, topic_need
from regulus.errors import CallRefused, ConfigError
from regulus.proxy import cluster_users
from regulus.proxy.cluster_users import ClusterUsers
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.proxy.standalone import standalone
from regulus.server.assembly import Regulus
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.bodies import ClusterInfo
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import BrokerData
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers, signed_by
from tests.unit.server.test_user_door import HOST, LOOPBACK, ROOT, allow, ask, create, make

OK, UNAUTHORIZED, TIMEOUT = 20000, 40100, 50400


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Regulus]:
    regulus = make(tmp_path)
    await regulus.start()
    yield regulus
    await regulus.stop()


@pytest.fixture
async def operator(broker: Regulus) -> AsyncIterator[Connection]:
    connection = await connect(HOST, broker.broker_server.port)
    yield connection
    connection.close()
    await connection.wait_closed()


def front_of(broker: Regulus, by: Credentials = ROOT, **fields: Any) -> ProxyServer:
    return standalone(ProxyConfig(
        namesrv_addr=f"{HOST}:{broker.name_server.port}", grpc_server_port=0, bind_address=HOST,
        authentication_enabled=True, authorization_enabled=True, access_key=by.access_key, secret_key=by.secret_key,
        **fields), TransportConfig(bind_address=HOST))


async def send(caller: Caller, by: str) -> int:
    message = messages.Message(body=b"hello")
    message.topic.name = "orders"
    message.system_properties.message_id = "01"
    return int((await caller.call("SendMessage", messages.SendMessageRequest(messages=[message]),
                                  signed_by(by))).status.code)


async def until(caller: Caller, by: str, code: int) -> None:
    async with asyncio.timeout(60):
        while await send(caller, by) != code:
            await asyncio.sleep(0.02)


async def test_users_and_policies_of_the_brokers_hold_at_a_front_by_itself(
        broker: Regulus, operator: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_users, "LOOK_S", 0.05)
    assert (await ask(operator, Code.UPDATE_AND_CREATE_TOPIC, {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})).code == 0
    assert await create(operator, Credentials("alice", "alice")) == 0
    front = front_of(broker)
    await front.start()
    caller = Caller(front.port)
    await until(caller, "alice", UNAUTHORIZED)      # she may nothing yet
    assert await allow(operator, "Topic:orders", "Pub") == 0
    await until(caller, "alice", OK)
    assert await send(caller, "root") == UNAUTHORIZED       # whose secret is another one
    assert (await ask(operator, Code.AUTH_DELETE_USER, {"username": "alice"})).code == 0
    await until(caller, "alice", UNAUTHORIZED)
    await caller.channel.close()
    await front.stop()


async def test_before_a_broker_told_its_users_nobody_is_let_in(broker: Regulus,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    front = front_of(broker, Credentials("nobody", "of them"))
    await front.start()
    caller = Caller(front.port)
    async with asyncio.timeout(60):
        while "every call is refused" not in caplog.text:
            await asyncio.sleep(0.01)
    assert await send(caller, "root") == TIMEOUT
    assert "broker broker-a answered 16" in caplog.text
    assert "of them" not in caplog.text
    assert "tick of the gRPC proxy" not in caplog.text      # it goes on, and does not end for that
    await caller.channel.close()
    await front.stop()


@pytest.mark.parametrize(("fields", "said"), [
    ({"authentication_enabled": True}, "accessKey is empty"),
    ({"authorization_enabled": True}, "without authenticationEnabled=true")])
def test_a_front_that_cannot_know_users_is_not_made(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        standalone(ProxyConfig(namesrv_addr="127.0.0.1:9", **fields), LOOPBACK)


# --- what brokers answer ---------------------------------------------------------------------------------------------


class Told(ScriptedBrokers):
    """Brokers a, b and the slave c; what each answers."""

    def __init__(self, **answers: Any) -> None:
        super().__init__({})
        self.told = answers
        self.has_name_server = True

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        self.asked.append(command)
        if command.code == Code.GET_BROKER_CLUSTER_INFO:
            if not self.has_name_server:
                raise CallRefused(TIMEOUT, "no name server answers")
            table = {name: BrokerData(broker_name=name, broker_addrs={number: f"10.0.0.1:{number}"})
                     for name, number in (("b", 0), ("a", 0), ("c", 1))}
            return command.response(0, body=ClusterInfo(broker_addr_table=table).encode())
        assert broker != "c"
        answer = self.told[broker]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return command.response(answer, "no")
        return command.response(0, body=answer[command.code == Code.AUTH_LIST_ACL].encode())


def told(*names: str, policies: str = "", **fields: str) -> tuple[str, str]:
    return json.dumps([{"username": name, "password": "secret", "userType": "Normal", "userStatus": "enable", **fields}
                       for name in names]), policies


def known(users: ClusterUsers) -> list[str]:
    return [name for name in ("ann", "bob", "cid") if users.rules().secret_of(name) == "secret"]


def may_send(users: ClusterUsers, name: str, topic: str) -> bool:
    return not isinstance(users.rules().permit(name, "127.0.0.1", (topic_need(topic, PUB),)), Denied)


GONE = CallRefused(TIMEOUT, "it is gone")
POLICIES = json.dumps([
    {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [
        {"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Allow"}]}]}
    for name, topic in (("ann", "orders"), ("gone", "orders"))])


async def test_the_first_broker_that_answers_is_believed() -> None:
    brokers = Told(a=GONE, b=told("bob"))
    users = ClusterUsers(brokers, authorizes=True)
    with pytest.raises(CallRefused, match="no broker was asked yet"):
        users.rules()
    await users.look()
    assert known(users) == ["bob"]
    for brokers.told["a"], names in ((told("ann"), ["ann"]), (told("ann", "cid"), ["ann", "cid"]), (GONE, ["bob"])):
        await users.look()
        assert known(users) == names


async def test_many_users_are_read_beside_the_loop_and_hold_at_once() -> None:
    """Calls go on meanwhile, by what was told before."""
    names = [f"user{number}" for number in range(1_000)]
    policies = json.dumps([{"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [
        {"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Allow"} for topic in "abcd"]}]}
        for name in names])
    brokers = Told(a=told("ann"), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    brokers.told["a"] = told(*names, policies=policies)
    looking = asyncio.create_task(users.look())
    seen = []
    while not looking.done():
        await asyncio.sleep(0)
        seen.append((known(users) == ["ann"], may_send(users, "user0", "a"), may_send(users, "user999", "d")))
    assert set(seen) == {(True, False, False), (False, True, True)}


async def test_rules_are_made_when_something_changed() -> None:
    brokers = Told(a=told("ann"), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    rules = users.rules()
    await users.look()
    assert users.rules() is rules
    assert not may_send(users, "ann", "orders")
    brokers.told["a"] = told("ann", policies=POLICIES)
    await users.look()
    assert may_send(users, "ann", "orders")
    assert not may_send(users, "ann", "others")


async def test_nobody_waits_while_rules_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of users take a while."""
    made, begun, goes_on = cluster_users._users, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def make_slowly(users: bytes, policies: bytes) -> Any:
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(60), "the event loop stands still"
        return made(users, policies)

    monkeypatch.setattr(cluster_users, "_users", make_slowly)
    users = ClusterUsers(Told(a=told("ann")), authorizes=True)
    looking = asyncio.ensure_future(users.look())
    await begun.wait()
    goes_on.set()
    await looking
    assert known(users) == ["ann"]


async def test_where_nothing_is_authorized_policies_are_not_asked_for() -> None:
    brokers = Told(a=told("ann"), b=GONE)
    users = ClusterUsers(brokers, authorizes=False)
    await users.look()
    assert may_send(users, "ann", "orders")
    assert brokers.asked_for(Code.AUTH_LIST_ACL) == []


async def test_a_broker_that_has_no_users_lets_nobody_in() -> None:
    users = ClusterUsers(Told(a=("", ""), b=GONE), authorizes=True)
    await users.look()
    assert known(users) == []


async def test_what_was_told_last_holds_while_nobody_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    brokers = Told(a=told("ann"), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    brokers.told["a"] = GONE
    for _ in range(3):
        await users.look()
    assert known(users) == ["ann"]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "the users of the brokers cannot be fetched: it is gone; the last known ones hold"]
    brokers.told["a"] = told("ann")
    await users.look()
    assert "are known again" in caplog.text


@pytest.mark.parametrize(("answer", "said"), [
    (int(ResponseCode.NO_PERMISSION), "broker a answered 16: no"), (("{", ""), "list of UserInfo cannot be read"),
    (("{}", ""), "list of UserInfo cannot be read"), (('["ann"]', ""), "list of UserInfo cannot be read"),
    (told("ann", password=""), "accessKey is shown no passwords: set that of a Super user"),
    (told("ann", policies="7"), "list of AclInfo cannot be read")])
async def test_what_tells_no_users_says_why_and_lets_nobody_in(answer: Any, said: str,
                                                               caplog: pytest.LogCaptureFixture) -> None:
    brokers = Told(a=answer, b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    with pytest.raises(CallRefused, match=said) as refused:
        users.rules()
    assert refused.value.code == TIMEOUT
    brokers.told["a"] = told("bob")
    await users.look()
    brokers.told["a"] = answer
    caplog.set_level(logging.INFO)
    for _ in range(2):
        caplog.clear()
        await users.look()
        assert known(users) == ["bob"]
    assert "are known again" not in caplog.text     # when it cannot be read a second time


async def test_a_user_who_cannot_be_read_keeps_no_other_who_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """RocketMQ's brokers take words that are none here, and kinds that come with its later versions."""
    brokers = Told(a=told("ann", "bob"), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    [ann], [bob] = json.loads(told("ann", userType="God")[0]), json.loads(told("bob", userStatus="sleepy")[0])
    [cid] = json.loads(told("cid")[0])
    brokers.told["a"] = (json.dumps([ann, bob, cid]), "")
    await users.look()
    assert known(users) == ["cid"]
    assert "'God' is not a UserType" in caplog.text
    assert "'sleepy' is not a UserStatus" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("odd", [None, "cid", 7, {"username": "cid", "password": {"is": "secret"}}])
async def test_what_is_no_user_keeps_no_other_who_is_gone(odd: Any, caplog: pytest.LogCaptureFixture) -> None:
    brokers = Told(a=told("ann", "bob", policies=POLICIES), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    brokers.told["a"] = (json.dumps([odd, *json.loads(told("bob")[0])]), json.dumps([odd, *json.loads(POLICIES)]))
    for _ in range(2):
        await users.look()
    assert known(users) == ["bob"]
    assert not may_send(users, "ann", "orders")
    assert caplog.text.count("UserInfo 1 of the list") == 1
    assert "secret" not in caplog.text


async def test_what_is_no_policy_keeps_none_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Told(a=told("ann", "bob", policies=POLICIES), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    brokers.told["a"] = told("ann", "bob", policies='[{"subject":"User:ann","policies":["all"]}]')
    await users.look()
    assert (known(users), may_send(users, "ann", "orders")) == (["ann", "bob"], False)
    assert "AclInfo 1 of the list" in caplog.text


async def test_whose_policies_cannot_be_read_may_nothing_and_others_what_theirs_say(
        caplog: pytest.LogCaptureFixture) -> None:
    brokers = Told(a=told("ann", "bob", policies=POLICIES), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    await users.look()
    assert may_send(users, "ann", "orders")
    acls = [{"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:*", "actions": ["Pub"], "sourceIps": sources, "decision": "Allow"}]}]}
        for name, sources in (("ann", ["10/8"]), ("bob", None))]
    brokers.told["a"] = told("ann", "bob", policies=json.dumps([{"subject": "ann"}, *acls]))
    for _ in range(2):
        await users.look()
    assert not may_send(users, "ann", "orders")
    assert may_send(users, "bob", "orders")
    assert known(users) == ["ann", "bob"]
    assert caplog.text.count("'10/8' is not an address") == 1
    assert caplog.text.count("'ann' is not a subject") == 1


async def test_users_are_asked_for_while_no_name_server_answers() -> None:
    """Else whoever was deleted would be let in as long, as calls go on by the routes that are known."""
    brokers = Told(a=told("ann", "bob"), b=GONE)
    users = ClusterUsers(brokers, authorizes=True)
    brokers.has_name_server = False
    await users.look()
    with pytest.raises(CallRefused, match="no name server"):
        users.rules()
    brokers.has_name_server = True
    await users.look()
    brokers.has_name_server = False
    brokers.told["a"] = told("bob")
    await users.look()
    assert known(users) == ["bob"]


@pytest.mark.parametrize("users", [
    '[{"username":"ann","password":"secret', '[{"username":"ann" "password":"secret"}]',
    '[{"username":"ann","password":{"is":"secret"}}]'])
async def test_a_list_that_cannot_be_read_is_shown_to_nobody(users: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither to a stranger who calls meanwhile, nor in the log."""
    known_here = ClusterUsers(Told(a=(users, ""), b=GONE), authorizes=True)
    await known_here.look()
    with pytest.raises(CallRefused, match="broker a: its list of UserInfo cannot be read") as refused:
        known_here.rules()
    assert "secret" not in str(refused.value) + caplog.text
