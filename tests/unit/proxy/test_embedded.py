"""The front in the broker's own process."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from regulus.broker.config import BrokerConfig
from regulus.errors import ConnectionLost, RequestTimeout
from regulus.model.message_id import host_address, host_bytes, host_text
from regulus.model.store_rules import FlushDiskType
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.proxy.embedded import RegulusWithFront
from regulus.proxy.receipt_handle import parse
from regulus.proxy.server import now_ms
from regulus.record import message_record
from regulus.server.assembly import Regulus
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import METADATA, Caller

HOST = "127.0.0.1"
TRANSPORT = TransportConfig(bind_address=HOST)
DATE = "20240102T030405Z"
ACCOUNTS = """
accounts:
- accessKey: producer
  secretKey: producer-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [Orders=PUB]
"""
USERS = {"authentication_enabled": True, "authorization_enabled": True,
         "init_authentication_user": '{"username":"admin","password":"admin-secret"}'}
Make = Callable[..., Any]


async def make_topic(server: RegulusWithFront, topic: str, kind: str) -> None:
    """As an operator does, by a request in the process."""
    ask = server.front._brokers.ask
    answer = await ask("broker-a", RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": f"+message.type={kind}"}), 60_000)
    assert answer.code == 0, answer


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    started: list[RegulusWithFront] = []

    async def start(flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH, host: str = HOST,
                    **settings: Any) -> RegulusWithFront:
        regulus = Regulus(BrokerConfig(listen_port=0, **settings, flush_disk_type=flush),
                          small_store(tmp_path / "store"),
                          NamesrvConfig(listen_port=0, bind_address=host, acl_enable=settings.get("acl_enable", False),
                                        rocketmq_home=settings.get("rocketmq_home", "")),
                          transport_config=TransportConfig(bind_address=host))
        server = RegulusWithFront(regulus, ProxyConfig(grpc_server_port=0, bind_address=host), TRANSPORT)
        await server.start()
        started.append(server)
        await make_topic(server, "Orders", "NORMAL")
        await make_topic(server, "trans", "TRANSACTION")
        return server

    yield start
    for each in started:
        await each.stop()


def send_request(topic: str = "Orders", **system: Any) -> Any:
    request = messages.SendMessageRequest()
    message = request.messages.add(body=b"body")
    message.topic.name = topic
    message.system_properties.message_id = "01AB"
    for name, value in system.items():
        setattr(message.system_properties, name, value)
    return request


@pytest.mark.parametrize("flush", [FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH])
async def test_what_is_sent_by_grpc_is_stored(make: Make, flush: FlushDiskType) -> None:
    server = await make(flush)
    caller = Caller(server.front.port)
    response = await caller.call("SendMessage", send_request(tag="A"))
    assert (response.status.code, response.entries[0].status.code) == (20000, 20000), response
    stored = server.regulus.broker_server.store
    assert sum(stored.max_offset("Orders", queue) for queue in range(2)) == 1
    await caller.channel.close()


def stored(server: RegulusWithFront, topic: str) -> list[Any]:
    """All records of a topic."""
    store = server.regulus.broker_server.store
    return [store.look_message(unit.physical_offset)
            for queue in range(2) for unit in store.queue_units(topic, queue, 0, 100)]


async def seen_at(store_host: bytes, physical_offset: int) -> bytes:
    """The body of the message that an offset id names, as `mqadmin queryMsgById` looks at it."""
    connection = await connect(*host_address(store_host))
    answer = await connection.request(
        RemotingCommand.request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(physical_offset)}), 60_000)
    connection.close()
    return message_record.decode(answer.body).body


@pytest.mark.parametrize(("bound", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "::1")])
async def test_a_message_is_born_at_its_client_and_stored_where_it_can_be_seen(
        make: Make, bound: str, host: str) -> None:
    """Also as one of several, as a half, and as a dead letter."""
    server = await make(host=bound)
    shown = f"[{host}]" if ":" in host else host
    caller = Caller(server.front.port, grpc.aio.insecure_channel(f"{shown}:{server.front.port}"))
    two = send_request()
    two.messages.append(two.messages[0])
    for request in (send_request(), two, send_request("trans", message_type=4)):
        assert (await caller.call("SendMessage", request)).status.code == 20000
    receive = receive_request()
    found = [each.message async for each in caller.receive(receive, 10) if each.HasField("message")]
    (connection,) = server.front._server.connections
    assert {each.system_properties.born_host for each in found} == {connection.peer}
    handle = found[0].system_properties.receipt_handle
    dead = messages.ForwardMessageToDeadLetterQueueRequest(group=receive.group, topic=receive.message_queue.topic,
                                                           receipt_handle=handle, message_id="01AB")
    assert (await caller.call("ForwardMessageToDeadLetterQueue", dead)).status.code == 20000
    records = [*stored(server, "Orders"), *stored(server, "RMQ_SYS_TRANS_HALF_TOPIC"), *stored(server, "%DLQ%g")]
    assert len(records) == 5
    for record in records:
        assert host_text(record.born_host) == connection.peer
        assert record.store_host == host_bytes(host, server.regulus.broker_server.port)
        assert await seen_at(record.store_host, record.physical_offset) == b"body"
    await caller.channel.close()


async def test_the_longest_tag_that_can_be_sent_can_be_subscribed_to(make: Make) -> None:
    server = await make()
    caller = Caller(server.front.port)
    tag = "t" * (16 << 10)
    for each in (tag, tag[1:]):
        assert (await caller.call("SendMessage", send_request(tag=each))).status.code == 20000
    assert (await caller.call("SendMessage", send_request(tag=tag + "t"))).status.code == 43101
    request = receive_request()
    request.filter_expression.type, request.filter_expression.expression = 1, tag
    request.batch_size = 16
    found = [each.message async for each in caller.receive(request, 10) if each.HasField("message")]
    assert [each.system_properties.tag for each in found] == [tag]
    await caller.channel.close()


async def test_a_broker_that_has_gone_is_asked_no_more(make: Make) -> None:
    brokers = (await make()).front._brokers
    assert brokers.is_ready()
    await brokers.stop()
    assert not brokers.is_ready()


async def test_a_client_without_a_born_host_is_known_by_its_address_and_port(make: Make) -> None:
    """As RocketMQ's proxy writes it; a born host that a client names stays as it is named."""
    server = await make()
    caller = Caller(server.front.port)
    for request in (send_request(), send_request(born_host="client-1")):
        assert (await caller.call("SendMessage", request)).status.code == 20000
    (connection,) = server.front._server.connections
    assert {each.properties["__BORNHOST"] for each in stored(server, "Orders")} == {connection.peer, "client-1"}
    await caller.channel.close()


async def test_a_transaction_without_an_end_is_asked_for_and_committed(make: Make) -> None:
    server = await make(transaction_time_out=100, transaction_check_interval=200)
    caller = Caller(server.front.port)
    stream = caller.telemetry()
    told = messages.Settings(client_type=1)
    told.publishing.topics.add(name="trans")
    await stream.write(messages.TelemetryCommand(settings=told))
    await stream.read()
    sent = await caller.call("SendMessage", send_request("trans", message_type=4))
    assert sent.status.code == 20000
    asked = (await asyncio.wait_for(stream.read(), 60)).recover_orphaned_transaction_command
    assert asked.message.body == b"body"
    # Where the half message lies now: it is put back each time that nobody could be asked.
    assert asked.transaction_id.startswith("01AB@broker-a@")
    assert sent.entries[0].transaction_id.startswith("01AB@broker-a@")
    end = messages.EndTransactionRequest(transaction_id=asked.transaction_id, message_id="01AB", resolution=1, source=2)
    end.topic.name = "trans"
    for _ in range(2):      # a client that did not hear the first answer says it again
        assert (await caller.call("EndTransaction", end)).status.code == 20000
    store = server.regulus.broker_server.store
    assert sum(store.max_offset("trans", queue) for queue in range(2)) == 1
    end.resolution = 2
    assert (await caller.call("EndTransaction", end)).status.code == 50001
    end.transaction_id = "01AB@broker-a@0@123456789"
    assert (await caller.call("EndTransaction", end)).status.code == 50001
    end.transaction_id = "01AB@broker-z@0@0"
    assert (await caller.call("EndTransaction", end)).status.code == 40000
    stream.cancel()
    await caller.channel.close()


async def test_accounts_of_the_broker_are_those_of_the_front(make: Make, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    server = await make(acl_enable=True, rocketmq_home=str(tmp_path))
    caller = Caller(server.front.port)
    signature = hmac.digest(b"producer-secret", DATE.encode(), "sha1").hex()
    authorization = f"MQv2-HMAC-SHA1 Credential=producer, SignedHeaders=x-mq-date-time, Signature={signature}"
    signed = (*METADATA, ("x-mq-date-time", DATE), ("authorization", authorization))
    assert (await caller.call("SendMessage", send_request())).status.code == 40100
    assert (await caller.call("SendMessage", send_request(), signed)).status.code == 20000
    assert (await caller.call("SendMessage", send_request("trans"), signed)).status.code == 40100
    receive = messages.QueryAssignmentRequest(topic=messages.Resource(name="Orders"), group=messages.Resource(name="g"))
    assert (await caller.call("QueryAssignment", receive, signed)).status.code == 40100
    await caller.channel.close()


async def test_a_forged_handle_acknowledges_nothing(make: Make) -> None:
    """Of a place that was never popped, of another queue and revive queue, and of one that was popped by another group:
    the message comes all the same."""
    server = await make()
    caller = Caller(server.front.port)
    orders, group = messages.Resource(name="Orders"), messages.Resource(name="g")

    async def receive(group_name: str) -> list[Any]:
        request = messages.ReceiveMessageRequest(group=messages.Resource(name=group_name), batch_size=8)
        request.message_queue.topic.name, request.message_queue.broker.name = "Orders", "broker-a"
        request.invisible_duration.seconds = 60
        return [each.message async for each in caller.receive(request, 3) if each.HasField("message")]

    for name in ("g", "other"):     # a new group begins at the end
        assert await receive(name) == []
    assert (await caller.call("SendMessage", send_request())).status.code == 20000
    (others,) = await receive("other")
    now = now_ms()
    forged = [f"{offset} {popped} 60000 {revive} {retry} broker-a {queue} {offset} {physical}"
              for offset in (0, 1, 5) for popped in (now, now - 30_000) for revive in (0, 7, 99) for retry in (0, 1)
              for queue in (0, 1, 9) for physical in (0, -1)]
    forged += [others.system_properties.receipt_handle, "9" * 600, "0 1 2 3 4 broker-a 0 0", ""]
    for start in range(0, len(forged), 100):
        entries = [messages.AckMessageEntry(message_id="1", receipt_handle=each)
                   for each in forged[start:start + 100]]
        await caller.call("AckMessage", messages.AckMessageRequest(group=group, topic=orders, entries=entries))
    (message,) = await receive("g")
    assert message.body == b"body"
    await caller.channel.close()


async def test_in_order_a_new_handle_counts_as_long_as_its_message_is_hidden(make: Make) -> None:
    server = await make()
    orderly = json.dumps({"groupName": "g", "consumeMessageOrderly": True}).encode()
    connection = server.regulus.broker_server.connect(lambda command: _nothing())
    answer = await connection.ask(RemotingCommand.request(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=orderly), 60_000)
    assert answer.code == 0
    caller = Caller(server.front.port)
    request = messages.ReceiveMessageRequest(group=messages.Resource(name="g"), batch_size=1)
    request.message_queue.topic.name, request.message_queue.broker.name = "Orders", "broker-a"
    request.invisible_duration.seconds = 10
    assert [each.message async for each in caller.receive(request, 3) if each.HasField("message")] == []
    assert (await caller.call("SendMessage", send_request())).status.code == 20000
    (message,) = [each.message async for each in caller.receive(request, 10) if each.HasField("message")]
    orders, group = messages.Resource(name="Orders"), messages.Resource(name="g")
    first = message.system_properties.receipt_handle
    popped_ms = parse(first).receipt.pop_time
    while now_ms() <= popped_ms + 50:
        await asyncio.sleep(0.01)
    change = messages.ChangeInvisibleDurationRequest(group=group, topic=orders, receipt_handle=first)
    change.invisible_duration.seconds = 20
    before_ms = now_ms()
    changed = await caller.call("ChangeInvisibleDuration", change)
    assert changed.status.code == 20000
    assert 20_000 <= parse(changed.receipt_handle).visible_at_ms - before_ms <= now_ms() - before_ms + 20_000
    entry = messages.AckMessageEntry(receipt_handle=changed.receipt_handle)
    response = await caller.call("AckMessage", messages.AckMessageRequest(group=group, topic=orders, entries=[entry]))
    assert response.status.code == 20000
    connection.close()
    await caller.channel.close()


async def test_users_of_the_broker_are_those_of_the_front(make: Make) -> None:
    server = await make(authentication_enabled=True, authorization_enabled=True,
                        init_authentication_user='{"username":"admin","password":"admin-secret"}')
    caller = Caller(server.front.port)
    signature = hmac.digest(b"admin-secret", DATE.encode(), "sha1").hex()
    authorization = f"MQv2-HMAC-SHA1 Credential=admin, SignedHeaders=x-mq-date-time, Signature={signature}"
    assert (await caller.call("SendMessage", send_request())).status.code == 40100
    signed = (*METADATA, ("x-mq-date-time", DATE), ("authorization", authorization))
    assert (await caller.call("SendMessage", send_request(), signed)).status.code == 20000
    wrong = (*METADATA, ("x-mq-date-time", "20240102T030406Z"), ("authorization", authorization))
    assert (await caller.call("SendMessage", send_request(), wrong)).status.code == 40100
    await caller.channel.close()


def signed(name: str, client_id: str = "client-1", secret: str = "") -> tuple[tuple[str, str], ...]:
    signature = hmac.digest((secret or f"{name}-secret").encode(), DATE.encode(), "sha1").hex()
    authorization = f"MQv2-HMAC-SHA1 Credential={name}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return (("x-mq-client-id", client_id), ("x-mq-date-time", DATE), ("authorization", authorization))


async def operate(server: RegulusWithFront, code: int, ext: dict[str, str], body: object = None) -> None:
    command = RemotingCommand.request(code, ext, json.dumps(body).encode() if body else b"")
    assert (await server.front._brokers.ask("broker-a", command, 60_000)).code == 0


async def make_user(server: RegulusWithFront, name: str) -> None:
    """One who may receive messages of Orders in group g."""
    await operate(server, RequestCode.AUTH_CREATE_USER, {"username": name}, {"password": f"{name}-secret"})
    entries = [{"resource": resource, "actions": ["Sub"], "decision": "Allow", "sourceIps": []}
               for resource in ("Topic:Orders", "Group:g")]
    await operate(server, RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{name}"}, {
        "subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": entries}]})


def receive_request(*, renew: bool = False) -> Any:
    request = messages.ReceiveMessageRequest(group=messages.Resource(name="g"), batch_size=1, auto_renew=renew)
    request.message_queue.topic.name, request.message_queue.broker.name = "Orders", "broker-a"
    request.long_polling_timeout.seconds = 20
    if not renew:
        request.invisible_duration.seconds = 60
    return request


async def until_held(server: RegulusWithFront, count: int = 1) -> None:
    """So many receives wait at the broker."""
    async with asyncio.timeout(60):
        while len(server.regulus.broker_server.broker.held_requests) < count:
            await asyncio.sleep(0.01)


async def test_who_may_no_longer_receive_waits_for_nothing_more(make: Make) -> None:
    server = await make(**USERS)
    callers, first = {name: Caller(server.front.port) for name in ("alice", "bob")}, {}
    for name, caller in callers.items():
        await make_user(server, name)
        first[name] = asyncio.ensure_future(anext(aiter(caller.receive(receive_request(), 40, signed(name)))))
    await until_held(server, 2)
    await operate(server, RequestCode.AUTH_DELETE_USER, {"username": "alice"})
    async with asyncio.timeout(10):
        assert (await first["alice"]).status.code == 40100
    assert not first["bob"].done()
    assert len(server.regulus.broker_server.broker.held_requests) == 1
    for caller in callers.values():
        await caller.channel.close()
    await asyncio.gather(*first.values(), return_exceptions=True)


async def test_a_held_receive_gives_nothing_to_a_user_who_was_deleted_before(
        make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before all receives are looked at again; the next who receives the message is the first to do so."""
    monkeypatch.setattr("regulus.proxy.server.TICK_S", 3_600.0)
    server = await make(**USERS)
    for name in ("alice", "bob"):
        await make_user(server, name)
    caller = Caller(server.front.port)
    waiting = asyncio.ensure_future(anext(aiter(caller.receive(receive_request(), 40, signed("alice")))))
    await until_held(server)
    await operate(server, RequestCode.AUTH_DELETE_USER, {"username": "alice"})
    assert (await caller.call("SendMessage", send_request(), signed("admin", "other"))).status.code == 20000
    assert (await asyncio.wait_for(waiting, 20)).status.code == 40100
    found = [each.message async for each in caller.receive(receive_request(), 40, signed("bob"))
             if each.HasField("message")]
    assert [each.system_properties.delivery_attempt for each in found] == [1]
    await caller.channel.close()


async def consumer_stream(caller: Caller, name: str, secret: str = "") -> Any:
    stream = caller.telemetry(signed(name, secret=secret))
    told = messages.Settings(client_type=2)
    told.subscription.group.name = "g"
    told.subscription.subscriptions.add().topic.name = "Orders"
    await stream.write(messages.TelemetryCommand(settings=told))
    assert (await stream.read()).status.code == 20000
    return stream


@pytest.mark.parametrize("code", [RequestCode.AUTH_DELETE_USER, RequestCode.AUTH_DELETE_ACL])
async def test_a_telemetry_stream_does_not_outlive_the_right_to_it(make: Make, code: int) -> None:
    """Nor is what its client has in hand renewed any more."""
    server = await make(**USERS)
    for name in ("alice", "bob"):
        await make_user(server, name)
    caller = Caller(server.front.port)
    stream, other = await consumer_stream(caller, "alice"), await consumer_stream(caller, "bob")
    receiving = caller.receive(receive_request(renew=True), 40, signed("alice"))
    assert (await caller.call("SendMessage", send_request(), signed("admin", "other"))).status.code == 20000
    assert len([each async for each in receiving if each.HasField("message")]) == 1
    assert len(server.front._renewing) == 1
    await operate(server, code, {"username": "alice", "subject": "User:alice"})
    assert (await asyncio.wait_for(stream.read(), 20)).status.code == 40100
    assert await stream.read() is grpc.aio.EOF
    assert (len(server.front._renewing), [user for user, _ in server.front._clients._clients]) == (0, ["bob"])
    assert len(server.front._service._streams._open) == 1
    other.cancel()
    await caller.channel.close()


async def test_a_client_lives_on_by_the_stream_that_it_opened_with_its_new_secret(
        make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.server.TICK_S", 3_600.0)
    server = await make(**USERS)
    await make_user(server, "alice")
    caller = Caller(server.front.port)
    old = await consumer_stream(caller, "alice")
    await operate(server, RequestCode.AUTH_UPDATE_USER, {"username": "alice"}, {"password": "new-secret"})
    new = await consumer_stream(caller, "alice", "new-secret")
    await server.front._service.decide_anew()
    assert (await asyncio.wait_for(old.read(), 20)).status.code == 40100
    assert server.front._clients.knows(("alice", "client-1"))
    new.cancel()
    await caller.channel.close()


async def test_questions_to_a_broker_that_stops_or_does_not_answer_end(make: Make) -> None:
    server = await make()
    connection = server.regulus.broker_server.connect(lambda command: _nothing())
    hold = {"consumerGroup": "g", "topic": "Orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1",
            "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "60000", "subVersion": "0",
            "subscription": "*", "expressionType": "TAG"}
    with pytest.raises(RequestTimeout, match="did not answer request 11 within 50 ms"):
        await connection.ask(RemotingCommand.request(RequestCode.PULL_MESSAGE, hold), 50)
    waiting = asyncio.ensure_future(connection.ask(
        RemotingCommand.request(RequestCode.PULL_MESSAGE, hold), 60_000))
    await asyncio.sleep(0.05)
    connection.close()
    with pytest.raises(ConnectionLost):
        await waiting
    with pytest.raises(ConnectionLost):
        await connection.ask(RemotingCommand.request(RequestCode.PULL_MESSAGE, hold), 50)


async def _nothing() -> None:
    return None


async def test_a_port_that_is_taken_stops_only_a_front_that_was_asked_for(make: Make, tmp_path: Path) -> None:
    taken = (await make()).front.port
    for may_lack in (True, False):
        regulus = Regulus(BrokerConfig(listen_port=0), small_store(tmp_path / "other"),
                          NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TRANSPORT)
        server = RegulusWithFront(regulus, ProxyConfig(grpc_server_port=taken, bind_address=HOST), TRANSPORT,
                                  may_lack_front=may_lack)
        if not may_lack:
            with pytest.raises(OSError, match="already in use"):
                await server.start()
            continue
        await server.start()
        assert server.missing == f"{HOST}:{taken}: Address already in use"
        await server.stop()


async def test_a_poll_ends_at_the_broker_when_its_client_goes_away(make: Make) -> None:
    server = await make()
    held = server.regulus.broker_server.broker.held_requests
    caller = Caller(server.front.port)
    request = messages.ReceiveMessageRequest(group=messages.Resource(name="g"), batch_size=1)
    request.message_queue.topic.name, request.message_queue.broker.name = "Orders", "broker-a"
    request.invisible_duration.seconds = 15
    for _ in range(20):
        call = caller.receive(request, 30)
        reading = asyncio.ensure_future(call.read())
        async with asyncio.timeout(60):
            while not len(held):
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            while len(held) or server.front._receive.left_behind:
                await asyncio.sleep(0.01)
    assert (await caller.call("SendMessage", send_request())).status.code == 20000
    found = [each.message async for each in caller.receive(request, 10) if each.HasField("message")]
    assert [each.system_properties.delivery_attempt for each in found] == [1]
    assert found[0].system_properties.receipt_handle.split(" ")[4] == "0"      # nobody had it before
    await caller.channel.close()
