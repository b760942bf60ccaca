"""A broker with users and policies on its port: changes hold at once, are saved before a yes, and reach slaves."""

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regulus.access.credentials import Credentials, sign_as
from regulus.broker.config import BrokerConfig
from regulus.errors import ConfigError, StoreNotWritable
from regulus.model.broker_role import BrokerRole
from regulus.nameserver.config import NamesrvConfig
from regulus.server import master_documents
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.name_server import NameServer
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import NotificationRequest, PopMessageRequest, PullMessageRequest, SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.waiting import until

HOST = "127.0.0.1"
ROOT = Credentials("root", "secret-of-root")
ALICE = Credentials("alice", "secret-of-alice")
INNER = '{"accessKey":"brokers","secretKey":"secret-of-brokers"}'
USERS = {"authentication_enabled": True, "authorization_enabled": True,
         "init_authentication_user": '{"username":"root","password":"secret-of-root"}'}
LOOPBACK = TransportConfig(bind_address=HOST)
NO_PERMISSION = 16


def make(path: Path) -> Regulus:
    return Regulus(BrokerConfig(listen_port=0, **USERS), small_store(path / "store"),
                   NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=LOOPBACK)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Regulus]:
    server = make(tmp_path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def broker(server: Regulus) -> AsyncIterator[Connection]:
    connection = await connect(HOST, server.broker_server.port)
    yield connection
    connection.close()
    await connection.wait_closed()


async def ask(connection: Connection, code: int, ext: dict[str, str] | None = None, body: object = None, *,
              by: Credentials | None = ROOT) -> RemotingCommand:
    request = RemotingCommand.request(int(code), dict(ext or {}), json.dumps(body).encode() if body else b"")
    sign_as(request, by)
    return await connection.request(request, 60_000)


async def create(connection: Connection, who: Credentials = ALICE, by: Credentials | None = ROOT, **fields: str) -> int:
    answer = await ask(connection, Code.AUTH_CREATE_USER, {"username": who.access_key},
                       {"password": who.secret_key, **fields}, by=by)
    return answer.code


async def update(connection: Connection, by: Credentials | None = ROOT, name: str = "alice", **fields: str) -> int:
    return (await ask(connection, Code.AUTH_UPDATE_USER, {"username": name}, fields, by=by)).code


async def allow(connection: Connection, resource: str, *actions: str, decision: str = "Allow", name: str = "alice",
                source_ips: tuple[str, ...] = ()) -> int:
    entry = {"resource": resource, "actions": list(actions), "decision": decision, "sourceIps": list(source_ips)}
    answer = await ask(connection, Code.AUTH_CREATE_ACL, {"subject": f"User:{name}"},
                       {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]})
    return answer.code


async def send(connection: Connection, topic: str = "orders", by: Credentials | None = ALICE) -> RemotingCommand:
    header = SendMessageRequest("PG", topic, queue_id=0, properties={"UNIQ_KEY": "K1"}, born_timestamp=1)
    request = RemotingCommand.request(int(Code.SEND_MESSAGE_V2), header.ext(), b"body")
    sign_as(request, by)
    return await connection.request(request, 60_000)


def document(path: Path) -> Path:
    return path / "store" / "config" / "regulusAccess.json"


async def test_the_first_user_is_made_and_a_stranger_does_nothing(server, broker):
    assert (await send(broker, by=ROOT)).code == 0
    for by in (None, ALICE, Credentials("root", "a guess of it")):
        answer = await send(broker, by=by)
        assert answer.code == NO_PERMISSION
        assert "secret" not in answer.remark
    assert server.broker_server.broker.topics.get("orders") is not None


async def test_a_policy_holds_from_its_answer_on(broker):
    assert await create(broker) == 0
    denied = await send(broker)
    assert (denied.code, denied.remark) == (
        NO_PERMISSION, "User:alice has no permission to access Topic:orders from 127.0.0.1, no matched policies.")
    assert await allow(broker, "Topic:ord*", "Pub") == 0
    assert (await send(broker)).code == 0
    assert await allow(broker, "Topic:orders", "Pub", decision="Deny") == 0
    assert (await send(broker)).code == NO_PERMISSION
    assert (await ask(broker, Code.AUTH_DELETE_ACL, {"subject": "User:alice", "resource": "Topic:orders"})).code == 0
    assert (await send(broker)).code == 0
    assert await allow(broker, "Topic:ord*", "Pub", source_ips=("10.0.0.0/8",)) == 0
    assert (await send(broker)).code == NO_PERMISSION


async def test_an_old_secret_stops_at_once(broker):
    """Also on a connection whose sends went the straight way with it."""
    await create(broker)
    await allow(broker, "Topic:orders", "Pub")
    for _ in range(3):
        assert (await send(broker)).code == 0
    assert await update(broker, password="another-secret") == 0
    assert (await send(broker)).remark == "check signature failed."
    assert (await send(broker, by=Credentials("alice", "another-secret"))).code == 0


async def test_a_disabled_user_stops_at_once(broker):
    await create(broker)
    await allow(broker, "Topic:orders", "Pub")
    assert (await send(broker)).code == 0
    assert await update(broker, userStatus="disable") == 0
    assert (await send(broker)).remark == "User:alice is disabled."
    assert await update(broker, userStatus="enable") == 0
    assert (await send(broker)).code == 0


LONG_MS = 300_000
HELD = {
    "pull": (Code.PULL_MESSAGE, PullMessageRequest("readers", "orders", 0, 0, sys_flag=6, subscription="*",
                                                   suspend_timeout_millis=LONG_MS)),
    "pop": (Code.POP_MESSAGE, PopMessageRequest(consumer_group="readers", topic="orders", queue_id=-1, max_msg_nums=1,
                                                invisible_time=60_000, poll_time=LONG_MS, born_time=0, init_mode=0)),
    "notification": (Code.NOTIFICATION, NotificationRequest(consumer_group="readers", topic="orders", queue_id=-1,
                                                            poll_time=LONG_MS, born_time=0))}


@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("change", ["deleted", "disabled", "other secret", "policy gone"])
async def test_who_may_no_longer_read_waits_for_nothing_more(server, broker, how, change):
    """However long the client wants to wait: it could have been held for five minutes, and brought a message then."""
    await create(broker)
    assert await allow(broker, "Topic:orders", "Pub", "Sub") == 0
    assert await allow(broker, "Group:readers", "Sub") == 0
    assert (await send(broker)).code == 0
    code, header = HELD[how]
    ext = header.ext()
    if "bornTime" in ext:
        ext["bornTime"] = str(int(time.time() * 1000))
    if how == "pull":
        ext["queueOffset"] = "1"        # behind what is there
    else:
        drained = await ask(broker, Code.POP_MESSAGE, {**HELD["pop"][1].ext(), "pollTime": "0"}, by=ALICE)
        assert drained.code == 0
    held = asyncio.ensure_future(ask(broker, code, ext, by=ALICE))
    await until(lambda: len(server.broker_server.broker.held_requests) == 1)
    if change == "deleted":
        assert (await ask(broker, Code.AUTH_DELETE_USER, {"username": "alice"})).code == 0
    elif change == "policy gone":
        gone = {"subject": "User:alice", "resource": "Topic:orders"}
        assert (await ask(broker, Code.AUTH_DELETE_ACL, gone)).code == 0
    else:
        fields = {"userStatus": "disable"} if change == "disabled" else {"password": "another-secret"}
        assert await update(broker, **fields) == 0
    async with asyncio.timeout(10):
        assert (await held).code == NO_PERMISSION


async def test_policies_go_with_their_user(broker):
    await create(broker)
    await allow(broker, "Topic:orders", "Pub")
    assert (await ask(broker, Code.AUTH_DELETE_USER, {"username": "alice"})).code == 0
    assert (await send(broker)).remark == "User:alice is not found."
    assert await create(broker) == 0
    assert (await send(broker)).code == NO_PERMISSION
    assert (await ask(broker, Code.AUTH_GET_ACL, {"subject": "User:alice"})).body == b""


async def test_users_and_policies_are_read_back(broker):
    await create(broker, userType="Super")
    await allow(broker, "Topic:ord*", "Pub", "Sub", source_ips=("10.0.0.1",))
    user = await ask(broker, Code.AUTH_GET_USER, {"username": "alice"})
    assert json.loads(user.body) == {"username": "alice", "password": "secret-of-alice", "userType": "Super",
                                     "userStatus": "enable"}
    acl = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:ord*", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"}]}]}
    assert json.loads((await ask(broker, Code.AUTH_GET_ACL, {"subject": "User:alice"})).body) == acl
    assert json.loads((await ask(broker, Code.AUTH_LIST_ACL)).body) == [acl]
    assert (await ask(broker, Code.AUTH_LIST_ACL, {"resourceFilter": "Group"})).body == b""
    assert (await ask(broker, Code.AUTH_LIST_ACL, {"subjectFilter": "bob"})).body == b""
    listed = await ask(broker, Code.AUTH_LIST_USER)
    assert [each["username"] for each in json.loads(listed.body)] == ["alice", "root"]
    assert (await ask(broker, Code.AUTH_LIST_USER, {"filter": "bob"})).body == b""
    assert (await ask(broker, Code.AUTH_GET_USER, {"username": "bob"})).body == b""


async def test_only_a_super_user_touches_one_or_sees_a_password(broker):
    await create(broker)
    await create(broker, Credentials("bob", "secret-of-bob"))
    await allow(broker, "Cluster:*", "All")
    assert await create(broker, Credentials("eve", "secret-of-eve"), by=ALICE, userType="Super") == NO_PERMISSION
    assert await update(broker, by=ALICE, userType="Super") == NO_PERMISSION
    assert await update(broker, by=ALICE, name="root", password="taken") == NO_PERMISSION
    assert (await ask(broker, Code.AUTH_DELETE_USER, {"username": "root"}, by=ALICE)).code == NO_PERMISSION
    assert await create(broker, Credentials("eve", "secret-of-eve"), by=ALICE) == 0
    assert b"secret" not in (await ask(broker, Code.AUTH_LIST_USER, by=ALICE)).body
    assert b"secret" not in (await ask(broker, Code.AUTH_GET_USER, {"username": "bob"}, by=ALICE)).body
    assert (await send(broker, by=ROOT)).code == 0


async def test_a_user_without_a_policy_of_the_cluster_learns_nothing_of_users(broker):
    await create(broker)
    for code in range(3001, 3011):
        answer = await ask(broker, code, {"username": "root", "subject": "User:root"}, {"password": "x"}, by=ALICE)
        assert (answer.code, answer.body) == (NO_PERMISSION, b""), code


@pytest.mark.parametrize(("code", "ext", "body", "fault"), [
    (3001, {"username": "root"}, {"password": "x"}, "exists already"),
    (3001, {"username": "bob"}, {"userType": "Normal"}, "the password of bob cannot be taken"),
    (3001, {"username": "b\nb"}, {"password": "x"}, "printable"),
    (3001, {"username": "bob"}, {"password": "x", "userType": "King"}, "'King' is not a UserType"),
    (3002, {"username": "bob"}, {"password": "x"}, "there is no user bob"),
    (3006, {"subject": "User:bob"}, {"subject": "User:bob", "policies": [{"entries": [
        {"resource": "*", "actions": ["Pub"], "decision": "Allow"}]}]}, "there is no user bob"),
    (3006, {"subject": "User:root"}, {"subject": "User:root", "policies": []}, "no policies"),
    (3006, {"subject": "Role:root"}, {"subject": "Role:root", "policies": [{"entries": [
        {"resource": "*", "actions": ["Pub"], "decision": "Allow"}]}]}, "is not a subject"),
    (3008, {"subject": "User:root"}, None, "has no policies"),
    (3009, {"subject": "User:bob"}, None, "there is no user bob")])
async def test_what_cannot_be_is_refused(broker, code, ext, body, fault):
    answer = await ask(broker, code, ext, body)
    assert answer.code == NO_PERMISSION
    assert fault in answer.remark


async def test_users_outlive_the_broker_in_a_file_that_nobody_else_reads(tmp_path):
    server = make(tmp_path)
    await server.start()
    connection = await connect(HOST, server.broker_server.port)
    await create(connection)
    await allow(connection, "Topic:orders", "Pub")
    assert "secret-of-alice" in document(tmp_path).read_text()      # before the answer
    assert {stat.S_IMODE(path.stat().st_mode) for path in document(tmp_path).parent.glob("regulusAccess.json*")} \
        == {0o600}
    connection.close()
    await server.stop()
    again = make(tmp_path)
    await again.start()
    connection = await connect(HOST, again.broker_server.port)
    try:
        assert (await send(connection)).code == 0
        assert (await send(connection, "other")).code == NO_PERMISSION
    finally:
        connection.close()
        await again.stop()


async def test_no_yes_before_a_user_is_saved(server, broker, monkeypatch):
    def full(name: str, pieces: object) -> None:
        raise StoreNotWritable("no room is left")

    monkeypatch.setattr(server.broker_server.store.configs, "save", full)
    answer = await ask(broker, Code.AUTH_CREATE_USER, {"username": "alice"}, {"password": "secret-of-alice"})
    assert answer.code != 0
    assert "no room is left" in answer.remark


async def test_settings_and_logs_show_no_secret(broker, caplog):
    await create(broker)
    text = (await ask(broker, Code.GET_BROKER_CONFIG)).body.decode()
    assert "initAuthenticationUser=******" in text
    assert "secret-of" not in text + caplog.text


async def test_a_stranger_changes_nothing_at_the_name_server_of_the_same_process(server):
    connection = await connect(HOST, server.name_server.port)
    try:
        key = {"namespace": "N", "key": "k", "value": "v"}
        assert (await ask(connection, Code.PUT_KV_CONFIG, key, by=None)).code == NO_PERMISSION
        assert (await ask(connection, Code.PUT_KV_CONFIG, key)).code == 0
        assert (await ask(connection, Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}, by=None)).code == 0
    finally:
        connection.close()


async def test_without_users_nobody_makes_one(tmp_path):
    server = BrokerServer(BrokerConfig(listen_port=0), small_store(tmp_path), transport_config=LOOPBACK)
    await server.start()
    connection = await connect(HOST, server.port)
    try:
        answer = await ask(connection, Code.AUTH_CREATE_USER, {"username": "alice"}, {"password": "x"}, by=None)
        assert answer.code == 1
        assert "authenticationEnabled=true" in answer.remark
    finally:
        connection.close()
        await server.stop()


@pytest.mark.parametrize("settings", [{}, {"init_authentication_user": USERS["init_authentication_user"]}])
async def test_a_broker_that_lets_nobody_in_says_so_at_its_start(tmp_path, caplog, settings):
    server = BrokerServer(BrokerConfig(listen_port=0, authentication_enabled=True, **settings), small_store(tmp_path),
                          transport_config=LOOPBACK)
    await server.start()
    await server.stop()
    told = [record.getMessage() for record in caplog.records if "all requests are refused" in record.getMessage()]
    assert len(told) == (not settings)
    assert all("set initAuthenticationUser" in text for text in told)


async def test_a_heartbeat_that_needs_no_signature_makes_a_client_that_is_asked_for_transactions(tmp_path):
    broker_server = BrokerServer(BrokerConfig(
        listen_port=0, authentication_enabled=True, init_authentication_user=USERS["init_authentication_user"],
        authentication_whitelist=str(int(Code.HEART_BEAT))), small_store(tmp_path / "store"), transport_config=LOOPBACK)
    await broker_server.start()
    connection = await connect(HOST, broker_server.port)
    heard = {"clientID": "c", "producerDataSet": [{"groupName": "PG"}]}
    assert (await ask(connection, Code.HEART_BEAT, body=heard, by=None)).code == 0
    assert (await send(connection, by=None)).code == NO_PERMISSION
    (client,) = broker_server.broker.clients.producer_group("PG")
    assert (client.user, broker_server.broker.may_end(client, "orders")) == ("", True)
    connection.close()
    await connection.wait_closed()
    await broker_server.stop()


async def test_a_slave_has_the_users_of_its_master(tmp_path, monkeypatch):
    monkeypatch.setattr(master_documents, "INTERVAL_S", 0.05)
    monkeypatch.setattr(master_documents, "HURRY_S", 0.05)
    name_server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST))
    await name_server.start()
    named = {"listen_port": 0, "namesrv_addr": f"{HOST}:{name_server.port}",
             "inner_client_authentication_credentials": INNER, **USERS}
    master = BrokerServer(BrokerConfig(broker_role=BrokerRole.ASYNC_MASTER, **named), small_store(tmp_path / "master"),
                          transport_config=LOOPBACK)
    slave = BrokerServer(BrokerConfig(broker_role=BrokerRole.SLAVE, broker_id=1, **named),
                         small_store(tmp_path / "slave"), transport_config=LOOPBACK)
    await master.start()
    await slave.start()
    at_master, at_slave = await connect(HOST, master.port), await connect(HOST, slave.port)
    try:
        await create(at_master)
        await until(lambda: slave.broker.users.get("alice") is not None)
        assert await create(at_slave, Credentials("bob", "secret-of-bob")) == 14
        denied = await ask(at_slave, Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}, by=ALICE)
        assert denied.code == NO_PERMISSION
        await ask(at_master, Code.AUTH_DELETE_USER, {"username": "alice"})
        await until(lambda: slave.broker.users.get("alice") is None)
    finally:
        at_master.close()
        at_slave.close()
        await slave.stop()
        await master.stop()
        await name_server.stop()


async def test_users_are_not_given_to_whoever_asks(tmp_path):
    """A broker without a door keeps a document of users that it had before to itself."""
    server = make(tmp_path)
    await server.start()
    await server.stop()
    open_again = BrokerServer(BrokerConfig(listen_port=0), small_store(tmp_path / "store"), transport_config=LOOPBACK)
    await open_again.start()
    connection = await connect(HOST, open_again.port)
    try:
        answer = await ask(connection, Code.GET_DOCUMENT, {"name": "regulusAccess", "version": ""}, by=None)
        assert (answer.code, answer.body) == (0, b"")
    finally:
        connection.close()
        await open_again.stop()


@pytest.mark.parametrize(("fields", "fault"), [
    ({"authorization_enabled": True}, "believe any name"),
    ({"authentication_enabled": True, "acl_enable": True, "rocketmq_home": "/x"}, "set one of them"),
    ({"init_authentication_user": "secret"}, "cannot be read"),
    ({"init_authentication_user": '{"username":"secret"}'}, "cannot be read"),
    ({"authentication_whitelist": "10,eleven"}, "'eleven'")])
def test_settings_that_cannot_be(fields, fault):
    with pytest.raises(ConfigError, match=fault) as caught:
        BrokerConfig(**fields)
    assert "secret" not in str(caught.value)
