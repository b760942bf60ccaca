"""A guarded broker and name server on their ports: whatever a stranger sends, nothing of it is done."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regulus.access.credentials import Credentials, sign_as
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import NO_REPLY
from regulus.broker.request_table import needs_of
from regulus.errors import ConfigError
from regulus.model.broker_role import BrokerRole
from regulus.model.message import Message
from regulus.model.peer import Peer
from regulus.model.topics import TopicConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server import master_documents
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.door import Door
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire import message_batch
from regulus.wire.bodies import HeartbeatData, ProducerData
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import CheckTransactionStateRequest, EndTransactionRequest, SendMessageRequest
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand

HOST = "127.0.0.1"
OPERATOR = Credentials("operator", "secret-of-the-operator")
BILLING = Credentials("billing", "secret-of-billing")
INNER = '{"accessKey":"brokers","secretKey":"secret-of-brokers"}'
ACCOUNTS = """
accounts:
- accessKey: operator
  secretKey: secret-of-the-operator
  admin: true
- accessKey: billing
  secretKey: secret-of-billing
  topicPerms: [orders=PUB|SUB, invoices=SUB]
  groupPerms: [billing=SUB]
"""


def home(path: Path, text: str = ACCOUNTS) -> str:
    (path / "conf").mkdir(exist_ok=True)
    (path / "conf" / "plain_acl.yml").write_text(text)
    return str(path)


def broker_config(path: Path, **fields: object) -> BrokerConfig:
    return BrokerConfig(listen_port=0, acl_enable=True, rocketmq_home=home(path), **fields)


def store_config(path: Path) -> MessageStoreConfig:
    return small_store(path / "store")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Regulus]:
    config = broker_config(tmp_path)
    server = Regulus(config, store_config(tmp_path), NamesrvConfig(
        listen_port=0, bind_address=HOST, acl_enable=True, rocketmq_home=config.rocketmq_home),
        transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def broker(server: Regulus) -> AsyncIterator[Connection]:
    connection = await connect(HOST, server.broker_server.port)
    yield connection
    connection.close()
    await connection.wait_closed()


@pytest.fixture
async def name_server(server: Regulus) -> AsyncIterator[Connection]:
    connection = await connect(HOST, server.name_server.port)
    yield connection
    connection.close()
    await connection.wait_closed()


def request(code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, by: Credentials | None = None,
            **fields: object) -> RemotingCommand:
    made = RemotingCommand.request(int(code), dict(ext or {}), body, **fields)
    sign_as(made, by)
    return made


def send(topic: str, by: Credentials | None, **fields: object) -> RemotingCommand:
    header = SendMessageRequest("PG", topic, queue_id=0, properties={"UNIQ_KEY": "K1"}, born_timestamp=1)
    return request(Code.SEND_MESSAGE_V2, header.ext(), b"body", by=by, **fields)


def batch(topic: str, by: Credentials | None) -> RemotingCommand:
    header = SendMessageRequest("PG", topic, queue_id=0, properties={}, born_timestamp=1, batch=True)
    return request(Code.SEND_BATCH_MESSAGE, header.ext(),
                   message_batch.encode([Message(topic, b"one"), Message(topic, b"two")]), by=by)


def stored(server: Regulus) -> int:
    return server.broker_server.store.commit_log_max_offset()


@pytest.mark.parametrize("serialize_type", [0, ROCKETMQ])
async def test_a_send_needs_a_signature_and_a_permission(server, broker, serialize_type):
    """In both headers: each has a straight way, which must not lead past the door."""
    wrong = Credentials("billing", "another secret")
    for by, topic in ((None, "orders"), (wrong, "orders"), (BILLING, "invoices"), (BILLING, "others")):
        answer = await broker.request(send(topic, by, serialize_type=serialize_type), 60_000)
        assert answer.code == 1
        assert answer.remark.startswith("org.apache.rocketmq.acl.common.AclException: ")
    assert stored(server) == 0
    answer = await broker.request(send("orders", BILLING, serialize_type=serialize_type), 60_000)
    assert answer.code == 0, answer.remark
    assert stored(server) > 0


async def test_a_batch_is_checked_as_a_send_is(server, broker):
    for by, topic in ((None, "orders"), (BILLING, "invoices")):
        assert (await broker.request(batch(topic, by), 60_000)).code == 1
    assert stored(server) == 0
    assert (await broker.request(batch("orders", BILLING), 60_000)).code == 0


async def test_others_half_messages_are_shown_to_nobody_and_ended_by_nobody(tmp_path):
    """Mallory may sign and has no right at all. She says that the producer group is hers, and names in her request what
    she has guessed or heard."""
    mallory = Credentials("mallory", "secret-of-mallory")
    text = f"{ACCOUNTS}- accessKey: mallory\n  secretKey: secret-of-mallory\n"
    config = BrokerConfig(listen_port=0, acl_enable=True, rocketmq_home=home(tmp_path, text), transaction_time_out=0,
                          transaction_check_interval=50)
    server = Regulus(config, store_config(tmp_path), NamesrvConfig(listen_port=0, bind_address=HOST),
                     transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    asked: dict[str, list[RemotingCommand]] = {"mallory": [], "billing": []}
    hers = await connect(HOST, server.broker_server.port, lambda _, commands: asked["mallory"].extend(commands))
    ours = await connect(HOST, server.broker_server.port, lambda _, commands: asked["billing"].extend(commands))
    try:
        for connection, by, group in ((hers, mallory, "PG"), (hers, mallory, "orders"), (ours, BILLING, "PG")):
            heard = HeartbeatData(client_id=by.access_key, producer_data_set=[ProducerData(group_name=group)])
            answer = await connection.request(request(Code.HEART_BEAT, body=heard.encode(), by=by), 60_000)
            assert answer.code == 0
        for group in ("PG", "orders"):     # clients of RocketMQ 5 send halves under the name of their topic
            header = SendMessageRequest(
                group, "orders", queue_id=0, sys_flag=4, born_timestamp=int(time.time() * 1000),
                properties={"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": f"K-{group}"})
            sent = await ours.request(request(Code.SEND_MESSAGE_V2, header.ext(), b"private", by=BILLING), 60_000)
            assert sent.code == 0
        async with asyncio.timeout(60):
            while len(asked["billing"]) < 3:
                await asyncio.sleep(0.01)
        question = CheckTransactionStateRequest.decode(asked["billing"][-1])
        end = EndTransactionRequest(
            producer_group="PG", tran_state_table_offset=question.tran_state_table_offset, msg_id=question.msg_id,
            commit_log_offset=question.commit_log_offset, commit_or_rollback=12, from_transaction_check=True)
        assert (await hers.request(request(Code.END_TRANSACTION, end.ext(), by=mallory), 60_000)).code == 1
        assert (await ours.request(request(Code.END_TRANSACTION, end.ext(), by=BILLING), 60_000)).code == 0
        assert {command.code for command in asked["billing"]} == {Code.CHECK_TRANSACTION_STATE}
        assert asked["mallory"] == []
    finally:
        hers.close()
        ours.close()
        await server.stop()


async def test_a_one_way_request_that_is_denied_is_dropped_and_told(server, broker, caplog):
    broker.send_soon(send("orders", None, oneway=True))
    broker.send_soon(send("invoices", BILLING, oneway=True))
    assert (await broker.request(request(Code.GET_BROKER_CONFIG, by=BILLING), 60_000)).code == 0    # behind them
    assert stored(server) == 0
    with caplog.at_level(logging.WARNING, "regulus.server.event_log"):
        server.broker_server._events.tell()
    (line,) = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
    assert "SEND_MESSAGE_V2 of 127.0.0.1:" in line
    assert "the request has no AccessKey" in line
    assert "topicPerms invoices=SUB of billing" in line
    assert "secret" not in line


async def test_a_long_answer_and_an_unknown_code_do_not_pass(broker):
    for code in (Code.HEART_BEAT, Code.GET_BROKER_CONFIG, Code.GET_CONSUME_STATS, Code.READ_COMMIT_LOG, 9999):
        assert (await broker.request(request(code, by=None), 60_000)).code == 1, code
    assert (await broker.request(request(9999, by=OPERATOR), 60_000)).code == 1


async def test_an_operators_request_needs_admin(server, broker):
    topic = {"topic": "made", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "defaultTopic": "TBW102",
             "topicFilterType": "SINGLE_TAG"}
    assert (await broker.request(request(Code.UPDATE_AND_CREATE_TOPIC, topic, by=BILLING), 60_000)).code == 1
    assert server.broker_server.broker.topics.get("made") is None
    assert (await broker.request(request(Code.UPDATE_AND_CREATE_TOPIC, topic, by=OPERATOR), 60_000)).code == 0
    assert server.broker_server.broker.topics.get("made") is not None


async def test_accounts_are_changed_and_hold_at_once(server, broker, tmp_path):
    account = {"accessKey": "newcomer", "secretKey": "secret-of-newcomer", "admin": "false",
               "topicPerms": "orders=PUB,others=DENY", "defaultGroupPerm": "SUB"}
    newcomer = Credentials("newcomer", "secret-of-newcomer")
    path = tmp_path / "conf" / "plain_acl.yml"
    assert (await broker.request(request(50, account, by=BILLING), 60_000)).code == 1
    assert path.read_text() == ACCOUNTS
    answer = await broker.request(request(50, account, by=OPERATOR), 60_000)
    assert answer.code == 0, answer.remark
    assert path.stat().st_mode & 0o777 == 0o600
    assert (await broker.request(send("orders", newcomer), 60_000)).code == 0
    assert (await broker.request(request(51, {"accessKey": "newcomer"}, by=OPERATOR), 60_000)).code == 0
    assert (await broker.request(send("orders", newcomer), 60_000)).code == 1
    assert (await broker.request(request(51, {"accessKey": "newcomer"}, by=OPERATOR), 60_000)).code == 210


async def test_a_change_that_cannot_be_is_refused_and_changes_nothing(broker, tmp_path):
    path = tmp_path / "conf" / "plain_acl.yml"
    for code, ext, refusal in ((50, {"accessKey": "newcomer", "secretKey": "short"}, 209),
                               (50, {"accessKey": "newcomer", "secretKey": "long enough", "topicPerms": "a"}, 209),
                               (53, {"globalWhiteAddrs": "10.0"}, 211),
                               (53, {"globalWhiteAddrs": "*", "aclFileFullPath": str(tmp_path / "other.yml")}, 211),
                               (53, {"globalWhiteAddrs": "*", "aclFileFullPath": "/etc/passwd"}, 211)):
        answer = await broker.request(request(code, ext, by=OPERATOR), 60_000)
        assert answer.code == refusal, ext
        assert "short" not in answer.remark
    assert path.read_text() == ACCOUNTS
    assert list(tmp_path.glob("*.yml")) == []


async def test_a_white_address_lets_everything_in(server, broker):
    assert (await broker.request(request(53, {"globalWhiteAddrs": "127.0.0.1"}, by=OPERATOR), 60_000)).code == 0
    assert (await broker.request(send("orders", None), 60_000)).code == 0


async def test_settings_show_no_secret(broker):
    text = (await broker.request(request(Code.GET_BROKER_CONFIG, by=OPERATOR), 60_000)).body.decode()
    assert "aclEnable=true" in text
    assert "innerClientAuthenticationCredentials=******\n" in text


# --- name server -----------------------------------------------------------------------------------------------------


def registration(by: Credentials | None) -> RemotingCommand:
    return request(Code.REGISTER_BROKER, {
        "brokerName": "broker-a", "brokerAddr": "10.6.6.6:10911", "clusterName": "DefaultCluster", "brokerId": "0",
        "haServerAddr": "10.6.6.6:10912", "compressed": "false", "bodyCrc32": "0"}, by=by)


async def test_a_stranger_cannot_take_a_brokers_name(server, name_server):
    """Its clients would be sent to him."""
    for by in (None, BILLING, Credentials("brokers", "a guess of it")):
        assert (await name_server.request(registration(by), 60_000)).code == 1
    route = await name_server.request(request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}), 60_000)
    assert route.code == 0
    assert b"10.6.6.6" not in route.body
    assert f":{server.broker_server.port}".encode() in route.body


async def test_the_broker_in_the_same_process_must_sign_too(server):
    assert server.name_server.ask(registration(None)).code == 1


@pytest.mark.parametrize("code", [Code.UNREGISTER_BROKER, Code.WIPE_WRITE_PERM_OF_BROKER, Code.DELETE_TOPIC_IN_NAMESRV,
                                  Code.PUT_KV_CONFIG, Code.UPDATE_NAMESRV_CONFIG, 9999])
async def test_a_stranger_changes_nothing_at_a_name_server(name_server, code):
    assert (await name_server.request(request(code, {"topic": "TBW102", "brokerName": "broker-a"}), 60_000)).code == 1


async def test_an_operator_may(name_server):
    key = {"namespace": "N", "key": "k", "value": "v"}
    assert (await name_server.request(request(Code.PUT_KV_CONFIG, key, by=OPERATOR), 60_000)).code == 0


@pytest.mark.parametrize(("inner", "is_known"), [(INNER, True), ("", False),
                                                 ('{"accessKey":"brokers","secretKey":"another"}', False)])
async def test_a_broker_elsewhere_registers_by_its_signature(tmp_path, inner, is_known, caplog):
    server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST, acl_enable=True, rocketmq_home=home(tmp_path),
                                      inner_client_authentication_credentials=INNER))
    await server.start()
    broker = BrokerServer(BrokerConfig(listen_port=0, namesrv_addr=f"{HOST}:{server.port}",
                                       inner_client_authentication_credentials=inner),
                          store_config(tmp_path), transport_config=TransportConfig(bind_address=HOST))
    await broker.start()
    try:
        async with asyncio.timeout(60):
            while not server.state.routes.route("TBW102") and "does not know this broker" not in caplog.text:
                await asyncio.sleep(0.01)
        assert (server.state.routes.route("TBW102") is not None) is is_known
        assert ("(innerClientAuthenticationCredentials is to be the same" in caplog.text) is not is_known
    finally:
        await broker.stop()
        await server.stop()
    assert "secret-of-brokers" not in caplog.text


async def test_accounts_that_cannot_be_read_stop_a_start_before_anything_is_taken(tmp_path):
    config = broker_config(tmp_path)
    home(tmp_path, "accounts:\n- accessKey: operator\n")
    server = BrokerServer(config, store_config(tmp_path), transport_config=TransportConfig(bind_address=HOST))
    with pytest.raises(ConfigError, match=r"plain_acl\.yml:2: the secretKey of 'operator' has 0 characters"):
        await server.start()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("fields", [{"acl_enable": True}, {"inner_client_authentication_credentials": "secret"},
                                    {"inner_client_authentication_credentials": '{"accessKey":"abcdefg"}'},
                                    {"inner_client_authentication_credentials":
                                         '{"accessKey":"abcdefg","secretKey":"secret"}'}])
def test_settings_that_guard_nothing_are_refused_without_being_shown(fields):
    for config in (BrokerConfig, NamesrvConfig):
        with pytest.raises(ConfigError) as caught:
            config(**fields)
        assert "secret\"" not in str(caught.value)


# --- brokers among each other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slaves", "is_known"), [
    (INNER, True), ('{"accessKey":"brokers","secretKey":"another"}', False)])
async def test_a_slave_asks_its_master_by_its_signature(tmp_path, monkeypatch, caplog, slaves, is_known):
    monkeypatch.setattr(master_documents, "INTERVAL_S", 0.05)
    loopback = TransportConfig(bind_address=HOST)
    name_server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST))
    await name_server.start()
    named = {"listen_port": 0, "namesrv_addr": f"{HOST}:{name_server.port}", "acl_enable": True,
             "rocketmq_home": home(tmp_path)}
    master = BrokerServer(BrokerConfig(broker_role=BrokerRole.ASYNC_MASTER,
                                       inner_client_authentication_credentials=INNER, **named),
                          small_store(tmp_path / "master"), transport_config=loopback)
    slave = BrokerServer(BrokerConfig(broker_role=BrokerRole.SLAVE, broker_id=1,
                                      inner_client_authentication_credentials=slaves, **named),
                         small_store(tmp_path / "slave"), transport_config=loopback)
    await master.start()
    master.broker.topics.put(TopicConfig(topic_name="Made"), 1)
    await slave.start()
    try:
        async with asyncio.timeout(60):
            while slave.broker.topics.get("Made") is None and "offsets of the master" not in caplog.text:
                await asyncio.sleep(0.01)
        assert (slave.broker.topics.get("Made") is not None) is is_known
        assert is_known or "Check signature failed for accessKey=brokers" in caplog.text
    finally:
        await slave.stop()
        await master.stop()
        await name_server.stop()


async def test_a_broker_without_accounts_has_no_door(tmp_path):
    """So that it costs nothing."""
    server = BrokerServer(BrokerConfig(listen_port=0), store_config(tmp_path),
                          transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    try:
        assert server._requests._handle is request_table.handle
    finally:
        await server.stop()


@pytest.mark.parametrize("serialize_type", [0, ROCKETMQ])
async def test_a_send_that_was_denied_is_denied_again(server: Regulus, broker: Connection,
                                                      serialize_type: int) -> None:
    """What is kept of a connection is what it may do, not what it tried."""
    before = stored(server)
    for _ in range(3):
        answer = await broker.request(send("invoices", BILLING, serialize_type=serialize_type), 60_000)
        assert answer.code == 1
        assert "No default permission for topic:invoices" in answer.remark
    assert stored(server) == before


@pytest.mark.parametrize("serialize_type", [0, ROCKETMQ])
async def test_who_may_send_to_a_retry_topic_may_not_send_to_the_topic_with_the_name_of_its_group(
        server: Regulus, broker: Connection, serialize_type: int) -> None:
    await broker.request(send("%RETRY%billing", BILLING, serialize_type=serialize_type), 60_000)
    before = stored(server)
    answer = await broker.request(send("billing", BILLING, serialize_type=serialize_type), 60_000)
    assert "No default permission for topic:billing" in answer.remark
    assert stored(server) == before


def test_a_one_way_request_that_is_denied_is_not_answered() -> None:
    door = Door(lambda: PlainRules(WhiteAddresses(), {}), needs_of)
    guarded = door.guard(lambda *_: pytest.fail("it was let in"))
    peer = Peer(1, b"", b"", "10.0.0.5:1")
    assert guarded(send("orders", BILLING, oneway=True), peer, None, 0) is NO_REPLY
    assert guarded(send("orders", BILLING), peer, None, 0).answer.code == 1
