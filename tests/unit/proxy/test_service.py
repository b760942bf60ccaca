"""Calls over a real connection, before brokers that answer by a table."""

import asyncio
import random
from typing import Any

import grpc
import pytest

from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import CallRefused
from regulus.model import message_properties
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.proxy import caller, service
from regulus.proxy.access import CallAccess
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.proxy.service import CHECKED_A_STEP, Service, _Receiving
from regulus.proxy.telemetry_streams import TelemetryStreams
from regulus.record import message_record
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc import definitions, messages
from regulus.wire.grpc.codes import Code
from regulus.wire.headers import PopMessageResponse
from regulus.wire.headers.send_message import SendMessageResponse
from regulus.wire.http2.grpc_messages import Packed
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import METADATA, Caller, ScriptedBrokers, signed_by

HOST = host_bytes("10.0.0.9", 10911)


def resource(name: str) -> Any:
    return messages.Resource(name=name)


def message(topic: str = "normal", **system: Any) -> Any:
    made = messages.Message(topic=resource(topic), body=b"body")
    made.system_properties.message_id = "01AB"
    for name, value in system.items():
        setattr(made.system_properties, name, value)
    return made


def stored_at(command: RemotingCommand) -> RemotingCommand:
    ext = SendMessageResponse("0A00000900002A9F0000000000000100", 1, 7, "01AB").ext()
    return command.response(0, ext=ext)


def popped(*bodies: bytes, reconsume_times: int = 0, tag: str = "", tags: tuple[str, ...] = (),
           sys_flag: int = 0) -> Any:
    """The broker's answer to a pop of queue 0 from offset 0. All have one tag, or each that of its place in `tags`."""
    def answer(command: RemotingCommand) -> RemotingCommand:
        if not bodies:
            return command.response(ResponseCode.POLLING_TIMEOUT)
        records = b""
        for offset, body in enumerate(bodies):
            own_tag = tags[offset] if tags else tag
            properties = {message_properties.UNIQUE_KEY: f"01{offset:02}"} | ({"TAGS": own_tag} if own_tag else {})
            records += message_record.encode(MessageExt(
                "normal", body, properties, queue_offset=offset, physical_offset=100 * offset, born_host=HOST,
                store_host=HOST, reconsume_times=reconsume_times, sys_flag=sys_flag))
        header = PopMessageResponse(pop_time=command_now(), invisible_time=int(command.ext["invisibleTime"]),
                                    revive_qid=3, rest_num=0, start_offset_info="0 0 0",
                                    msg_offset_info="0 0 " + ",".join(map(str, range(len(bodies)))))
        return command.response(0, ext=header.ext(), body=records)
    return answer


def command_now() -> int:
    from regulus.proxy.server import now_ms
    return now_ms()


def receive_request(topic: str = "normal", **fields: Any) -> Any:
    made = messages.ReceiveMessageRequest(group=resource("g"), batch_size=8, **fields)
    made.message_queue.topic.name = topic
    made.message_queue.broker.name = "a"
    if not made.auto_renew:
        made.invisible_duration.seconds = 15
    made.long_polling_timeout.seconds = 5
    return made


async def test_a_route_names_the_address_that_the_client_used(caller: Caller, front: ProxyServer) -> None:
    response = await caller.call("QueryRoute", messages.QueryRouteRequest(topic=resource("fifo")))
    assert response.status.code == 20000
    assert [(each.id, each.permission, list(each.accept_message_types)) for each in response.message_queues] == [
        (0, 4, [2]), (1, 4, [2])]
    address = response.message_queues[0].broker.endpoints.addresses[0]
    assert (address.host, address.port) == ("127.0.0.1", front.port)
    response = await caller.call("QueryRoute", messages.QueryRouteRequest(topic=resource("any")))
    assert list(response.message_queues[0].accept_message_types) == [1, 2, 3, 4]


async def test_what_a_client_calls_us_does_not_swell_in_the_answer(caller: Caller) -> None:
    """It stands in the answer once for each queue, of which a topic may have thousands."""
    request = messages.QueryRouteRequest(topic=resource("normal"))
    request.endpoints.addresses.add(host="h" * 2_100)
    response = await caller.call("QueryRoute", request)
    assert (response.status.code, "2048 are the most" in response.status.message) == (40000, True)
    unknown = b"\xfa\x01\xc4\x13" + bytes(2_500)      # field 31, which no client writes
    endpoints = messages.Endpoints.FromString(unknown)
    response = await caller.call("QueryRoute", messages.QueryRouteRequest(topic=resource("normal"),
                                                                          endpoints=endpoints))
    assert response.status.code == 40000
    swollen = messages.Resource.FromString(resource("normal").SerializeToString() + unknown)
    response = await caller.call("QueryRoute", messages.QueryRouteRequest(topic=swollen))
    assert (response.status.code, response.message_queues[0].topic) == (20000, resource("normal"))
    response = await caller.call("QueryAssignment", messages.QueryAssignmentRequest(topic=swollen, group=resource("g")))
    assert (response.status.code, response.assignments[0].message_queue.topic) == (20000, resource("normal"))


@pytest.mark.parametrize(("topic", "code"), [("unknown", 40402), ("TBW102", 40002), ("", 40002)])
async def test_a_topic_that_is_not_there_or_may_not_be_named(caller: Caller, topic: str, code: int) -> None:
    response = await caller.call("QueryRoute", messages.QueryRouteRequest(topic=resource(topic)))
    assert response.status.code == code


async def test_who_calls_must_have_a_name(caller: Caller) -> None:
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(), metadata=())
    assert response.status.code == 40017
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(), metadata=(("x-mq-client-id", "c" * 256),))
    assert response.status.code == 43100


async def test_methods_that_no_client_calls_are_not_implemented(caller: Caller) -> None:
    for method in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.raw(method, b"")
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    response = await caller.call("SyncLiteSubscription", messages.SyncLiteSubscriptionRequest())
    assert response.status.code == 50100


async def test_heartbeats_of_clients_that_are_not_known_are_answered(caller: Caller) -> None:
    async def code(**fields: Any) -> int:
        return (await caller.call("Heartbeat", messages.HeartbeatRequest(**fields))).status.code

    assert await code(client_type=1) == 20000
    metadata = (("x-mq-client-id", "client-2"),)
    request = messages.HeartbeatRequest(client_type=2, group=resource("g"))
    assert (await caller.call("Heartbeat", request, metadata)).status.code == 20000
    for kind in (0, 4, 5, 99):
        request = messages.HeartbeatRequest(client_type=kind)
        response = await caller.call("Heartbeat", request, (("x-mq-client-id", f"c{kind}"),))
        assert response.status.code == 40015
    bad = messages.HeartbeatRequest(client_type=3, group=resource("a/b"))
    assert (await caller.call("Heartbeat", bad, (("x-mq-client-id", "client-4"),))).status.code == 40003


async def test_a_send_is_answered_with_where_it_lies(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=[message()]))
    assert response.status.code == 20000
    (entry,) = response.entries
    assert (entry.status.code, entry.message_id, entry.offset) == (20000, "01AB", 7)


@pytest.mark.parametrize(("topic", "system", "code"), [
    ("normal", {"message_group": "g"}, 40014), ("fifo", {}, 40014), ("normal", {"message_type": 4}, 40014),
    ("unknown", {}, 40402), ("normal", {"tag": "|"}, 40004)])
async def test_a_send_that_is_refused_reaches_no_broker(caller: Caller, brokers: ScriptedBrokers, topic: str,
                                                        system: dict[str, Any], code: int) -> None:
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=[message(topic, **system)]))
    assert (response.status.code, len(response.entries)) == (code, 0)
    assert brokers.asked_for(RequestCode.SEND_MESSAGE_V2) == []


async def test_each_message_of_a_send_is_told_what_became_of_it(caller: Caller, brokers: ScriptedBrokers) -> None:
    """The second of a group fails: it must not be told of the first, and the third must not overtake it."""
    made = [message("fifo", message_group="g", message_id=f"0{number}") for number in range(3)]
    codes = iter((0, 2, 0))

    def answer(command: RemotingCommand) -> RemotingCommand:
        response = stored_at(command)
        response.code = next(codes)
        return response

    brokers.answers[RequestCode.SEND_MESSAGE_V2] = answer
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=made))
    assert (response.status.code, [(each.status.code, each.message_id) for each in response.entries]) == (
        30000, [(20000, "00"), (42900, "01"), (42900, "02")])
    assert len(brokers.asked_for(RequestCode.SEND_MESSAGE_V2)) == 2


async def test_a_send_of_more_than_a_broker_takes_at_once_goes_in_parts(caller: Caller,
                                                                        brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_BATCH_MESSAGE] = stored_at
    large = message()
    large.body = bytes(1 << 20)
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=[large] * 8))
    assert (response.status.code, [each.offset for each in response.entries]) == (20000, [7, 8, 9, 7, 8, 9, 7, 8])
    sizes = [len(command.body) for command in brokers.asked if command.code == RequestCode.SEND_BATCH_MESSAGE]
    assert len(sizes) == 3
    assert max(sizes) <= 4 << 20


async def test_no_message_is_a_corrupted_send(caller: Caller) -> None:
    assert (await caller.call("SendMessage", messages.SendMessageRequest())).status.code == 40016


@pytest.mark.parametrize(("answered", "code"), [(2, 42900), (10, 50401), (11, 50002), (12, 50402), (1, 50001),
                                                (16, 40300), (3, 50100)])
async def test_what_a_broker_says_of_a_send(caller: Caller, brokers: ScriptedBrokers, answered: int, code: int) -> None:
    def answer(command: RemotingCommand) -> RemotingCommand:
        response = stored_at(command)
        response.code = answered
        return response

    brokers.answers[RequestCode.SEND_MESSAGE_V2] = answer
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=[message()]))
    assert response.status.code == code


async def test_a_transaction_id_says_where_the_half_message_lies(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    sent = await caller.call("SendMessage", messages.SendMessageRequest(messages=[message("trans", message_type=4)]))
    (entry,) = sent.entries
    assert entry.transaction_id == "01AB@a@7@256"
    request = messages.EndTransactionRequest(topic=resource("trans"), message_id="01AB", resolution=1,
                                             transaction_id=entry.transaction_id, source=2)
    assert (await caller.call("EndTransaction", request)).status.code == 20000
    (ext,) = brokers.asked_for(RequestCode.END_TRANSACTION)
    assert (ext["producerGroup"], ext["tranStateTableOffset"], ext["commitLogOffset"], ext["commitOrRollback"],
            ext["fromTransactionCheck"], ext["transactionId"]) == ("trans", "7", "256", "8", "true", "01AB")
    request.resolution = 0
    assert (await caller.call("EndTransaction", request)).status.code == 20000
    assert len(brokers.asked_for(RequestCode.END_TRANSACTION)) == 1
    for forged in ("", "01AB", "01AB@a@7@x", "01AB@a@-7@1", "@a@7@1"):
        request.transaction_id = forged
        assert (await caller.call("EndTransaction", request)).status.code == 40008


async def received(caller: Caller, request: Any, within_s: float = 60) -> tuple[int, list[Any]]:
    code, found, ends = 0, [], 0
    async for element in caller.receive(request, within_s):
        kind = element.WhichOneof("content")
        if kind == "status":
            code = element.status.code
        elif kind == "message":
            found.append(element.message)
        else:
            ends += 1
    assert ends == 1
    return code, found


async def test_messages_are_received_acknowledged_and_kept_invisible(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two")
    code, found = await received(caller, receive_request())
    assert (code, [each.body for each in found]) == (20000, [b"one", b"two"])
    (ext,) = brokers.asked_for(RequestCode.POP_MESSAGE)
    assert (ext["queueId"], ext["maxMsgNums"], ext["invisibleTime"], ext["initMode"], ext["order"], ext["exp"]) == (
        "-1", "8", "15000", "1", "false", "*")
    handles = [each.system_properties.receipt_handle for each in found]
    entries = [messages.AckMessageEntry(message_id="1", receipt_handle=handles[0]),
               messages.AckMessageEntry(message_id="2", receipt_handle="forged")]
    response = await caller.call("AckMessage", messages.AckMessageRequest(
        group=resource("g"), topic=resource("normal"), entries=entries))
    assert (response.status.code, [each.status.code for each in response.entries]) == (30000, [20000, 40013])
    (ext,) = brokers.asked_for(RequestCode.ACK_MESSAGE)
    assert (ext["topic"], ext["queueId"], ext["offset"]) == ("normal", "0", "0")
    assert handles[0].startswith(ext["extraInfo"])

    brokers.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda command: command.response(
        0, ext={"popTime": "5", "invisibleTime": command.ext["invisibleTime"], "reviveQid": "6"})
    request = messages.ChangeInvisibleDurationRequest(group=resource("g"), topic=resource("normal"),
                                                      receipt_handle=handles[1])
    request.invisible_duration.seconds = 30
    response = await caller.call("ChangeInvisibleDuration", request)
    assert (response.status.code, response.receipt_handle) == (20000, "1 5 30000 6 0 a 0 1 100")


async def test_a_change_that_is_refused_gives_the_handle_back(caller: Caller) -> None:
    request = messages.ChangeInvisibleDurationRequest(group=resource("g"), topic=resource("normal"),
                                                      receipt_handle="forged")
    response = await caller.call("ChangeInvisibleDuration", request)
    assert (response.status.code, response.receipt_handle) == (40013, "forged")
    request.invisible_duration.seconds = 12 * 3600 + 1
    assert (await caller.call("ChangeInvisibleDuration", request)).status.code == 40011


@pytest.mark.parametrize(("answered", "code"), [(208, 40013), (13, 40013), (1, 50001), (2, 42900), (17, 40402)])
async def test_a_receipt_that_its_broker_does_not_take_is_given_up(caller: Caller, brokers: ScriptedBrokers,
                                                                   answered: int, code: int) -> None:
    handle = f"0 {command_now()} 60000 3 0 a 0 0 0"
    brokers.answers[RequestCode.ACK_MESSAGE] = lambda command: command.response(answered, "no")
    brokers.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = brokers.answers[RequestCode.ACK_MESSAGE]
    response = await caller.call("AckMessage", messages.AckMessageRequest(
        group=resource("g"), topic=resource("normal"), entries=[messages.AckMessageEntry(receipt_handle=handle)]))
    assert (response.status.code, response.entries[0].status.code) == (code, code)
    request = messages.ChangeInvisibleDurationRequest(group=resource("g"), topic=resource("normal"),
                                                      receipt_handle=handle)
    assert (await caller.call("ChangeInvisibleDuration", request)).status.code == code


async def test_nothing_to_receive_and_what_may_not_be_asked_for(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = popped()
    assert await received(caller, receive_request()) == (40401, [])
    short = receive_request()
    short.invisible_duration.seconds = 9
    assert await received(caller, short) == (40011, [])
    tagged = receive_request(filter_expression=messages.FilterExpression(type=1, expression=" || "))
    assert await received(caller, tagged) == (40010, [])
    empty = receive_request(filter_expression=messages.FilterExpression(type=2, expression=" "))
    assert await received(caller, empty) == (40010, [])
    assert await received(caller, receive_request("unknown")) == (40402, [])
    brokers.answers[RequestCode.POP_MESSAGE] = lambda command: command.response(23, "column 3: nothing begins so")
    assert await received(caller, receive_request()) == (40010, [])


async def test_a_poll_ends_before_its_client_gives_up(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = popped()
    request = receive_request()
    request.long_polling_timeout.seconds = 40
    await received(caller, request, 43)
    await received(caller, request, 8)
    polls = [int(ext["pollTime"]) for ext in brokers.asked_for(RequestCode.POP_MESSAGE)]
    assert polls[0] == 20_000
    assert 6_000 <= polls[1] <= 7_100       # gRPC rounds a time up
    born = [ext["bornTime"] for ext in brokers.asked_for(RequestCode.POP_MESSAGE)]
    assert born == ["0", "0"]               # when it reaches the broker, whose clock may be another


async def test_what_failed_too_often_becomes_a_dead_letter(caller: Caller, brokers: ScriptedBrokers) -> None:
    record = message_record.encode(MessageExt("normal", b"one", {}, born_host=HOST, store_host=HOST))
    brokers.answers[RequestCode.VIEW_MESSAGE_BY_ID] = lambda command: command.response(0, body=record)
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", reconsume_times=16)
    assert (await received(caller, receive_request()))[0] == 20000
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", reconsume_times=17)
    assert await received(caller, receive_request()) == (40401, [])
    (ext,) = brokers.asked_for(RequestCode.CONSUMER_SEND_MSG_BACK)
    assert (ext["delayLevel"], ext["group"], ext["offset"], ext["originMsgId"]) == ("-1", "g", "0", "0100")
    assert len(brokers.asked_for(RequestCode.ACK_MESSAGE)) == 1


async def test_what_has_another_tag_is_acknowledged_and_not_delivered(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", tag="B")
    request = receive_request(filter_expression=messages.FilterExpression(type=1, expression="A"))
    assert await received(caller, request) == (40401, [])
    assert len(brokers.asked_for(RequestCode.ACK_MESSAGE)) == 1


async def test_a_handle_that_names_another_message_makes_no_dead_letter_of_it(caller: Caller,
                                                                              brokers: ScriptedBrokers) -> None:
    """A broker copies whatever lies at the place that it is told."""
    record = message_record.encode(MessageExt("secrets", b"secret", {}, born_host=HOST, store_host=HOST))
    brokers.answers[RequestCode.VIEW_MESSAGE_BY_ID] = lambda command: command.response(0, body=record)
    request = messages.ForwardMessageToDeadLetterQueueRequest(
        group=resource("g"), topic=resource("normal"), receipt_handle="0 1 2 3 0 a 0 0 4711", message_id="1")
    assert (await caller.call("ForwardMessageToDeadLetterQueue", request)).status.code == 40013
    assert brokers.asked_for(RequestCode.CONSUMER_SEND_MSG_BACK) == []
    request.receipt_handle = "0 1 2 3 0 a 0 0"
    assert (await caller.call("ForwardMessageToDeadLetterQueue", request)).status.code == 40013


async def test_what_is_popped_for_a_client_that_is_gone_is_given_back(caller: Caller,
                                                                     brokers: ScriptedBrokers) -> None:
    released = asyncio.Event()

    def changed(command: RemotingCommand) -> RemotingCommand:
        released.set()
        return command.response(0, ext={"popTime": "5", "invisibleTime": "1000", "reviveQid": "6"})

    brokers.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = changed
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    brokers.held = asyncio.Event()
    call = caller.receive(receive_request())
    reading = asyncio.ensure_future(call.read())
    while not brokers.asked_for(RequestCode.POP_MESSAGE):
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await asyncio.sleep(0.1)
    brokers.held.set()
    await asyncio.wait_for(released.wait(), 60)
    (ext,) = brokers.asked_for(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    assert (ext["invisibleTime"], ext["suspend"]) == ("0", "true")


async def test_a_push_consumer_that_ends_leaves_its_messages_to_others(caller: Caller, front: ProxyServer,
                                                                       brokers: ScriptedBrokers) -> None:
    """Those of the group that it names: access control looked at no other."""
    brokers.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda command: command.response(
        0, ext={"popTime": "5", "invisibleTime": "1000", "reviveQid": "6"})
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two")
    _, found = await received(caller, receive_request(auto_renew=True))
    (ext,) = brokers.asked_for(RequestCode.POP_MESSAGE)
    assert ext["invisibleTime"] == "60000"
    entry = messages.AckMessageEntry(receipt_handle=found[0].system_properties.receipt_handle)
    await caller.call("AckMessage", messages.AckMessageRequest(group=resource("g"), topic=resource("normal"),
                                                               entries=[entry]))
    for group in (None, resource("another")):
        leaving = messages.NotifyClientTerminationRequest(group=group)
        assert (await caller.call("NotifyClientTermination", leaving)).status.code == 20000
    leaving = messages.NotifyClientTerminationRequest(group=resource("g"))
    assert (await caller.call("NotifyClientTermination", leaving)).status.code == 20000
    await front._renewing.finish()
    (ext,) = brokers.asked_for(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
    assert (ext["offset"], ext["invisibleTime"]) == ("1", "1000")


async def test_assignments(caller: Caller, brokers: ScriptedBrokers) -> None:
    request = messages.QueryAssignmentRequest(topic=resource("normal"), group=resource("g"))
    response = await caller.call("QueryAssignment", request)
    assert [each.message_queue.id for each in response.assignments] == [-1]
    brokers.ordered = True
    request.group.name = "in-order"
    response = await caller.call("QueryAssignment", request)
    assert [each.message_queue.id for each in response.assignments] == [0, 1]


async def test_settings_are_merged_and_come_back(caller: Caller) -> None:
    stream = caller.telemetry()
    told = messages.Settings(client_type=1)
    told.publishing.topics.add(name="trans")
    await stream.write(messages.TelemetryCommand(settings=told))
    answer = await stream.read()
    assert (answer.status.code, answer.settings.publishing.max_body_size) == (20000, 4 << 20)
    assert answer.settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert (answer.settings.backoff_policy.max_attempts, answer.settings.metric.on) == (3, False)
    told = messages.Settings(client_type=2)
    told.subscription.group.name = "g"
    await stream.write(messages.TelemetryCommand(settings=told))
    answer = (await stream.read()).settings
    assert (answer.subscription.receive_batch_size, answer.subscription.long_polling_timeout.seconds) == (32, 20)
    assert answer.backoff_policy.max_attempts == 17
    assert [each.seconds for each in answer.backoff_policy.customized_backoff.next][:3] == [1, 5, 10]
    assert len(answer.backoff_policy.customized_backoff.next) == 18
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() == grpc.StatusCode.OK


async def test_a_transaction_that_nobody_ended_is_asked_for(caller: Caller, brokers: ScriptedBrokers) -> None:
    stream = caller.telemetry()
    told = messages.Settings(client_type=1)
    told.publishing.topics.add(name="trans")
    await stream.write(messages.TelemetryCommand(settings=told))
    await stream.read()
    half = MessageExt("RMQ_SYS_TRANS_HALF_TOPIC", b"half", {
        "UNIQ_KEY": "01AB", "REAL_TOPIC": "trans", "PGROUP": "trans", "TRAN_MSG": "true"}, born_host=HOST,
        store_host=HOST)
    command = RemotingCommand.request(39, {"tranStateTableOffset": "7", "commitLogOffset": "256"},
                                      message_record.encode(half), oneway=True)
    assert brokers.on_request is not None
    await brokers.on_request("a", command)
    asked = (await stream.read()).recover_orphaned_transaction_command
    assert (asked.transaction_id, asked.message.body, asked.message.topic.name) == ("01AB@a@7@256", b"half", "trans")
    assert asked.message.system_properties.message_type == 4
    stream.cancel()


async def test_how_a_telemetry_stream_ends_that_says_what_it_may_not(caller: Caller) -> None:
    stream = caller.telemetry()
    await stream.write(messages.TelemetryCommand(settings=messages.Settings(client_type=1)))
    assert await stream.code() == grpc.StatusCode.INVALID_ARGUMENT
    stream = caller.telemetry(metadata=())
    await stream.write(messages.TelemetryCommand(settings=messages.Settings(client_type=1)))
    assert (await stream.read()).status.code == 40017
    assert await stream.code() == grpc.StatusCode.OK


async def test_bytes_that_are_no_message_are_refused_and_the_server_lives_on(caller: Caller) -> None:
    chance = random.Random(1)
    for method in ("QueryRoute", "SendMessage", "AckMessage", "EndTransaction", "ChangeInvisibleDuration"):
        response_type = getattr(messages.MessagingService, method).response
        for _ in range(200):
            data = chance.randbytes(chance.randrange(60))
            assert response_type.FromString(await caller.raw(method, data)).status.code >= 40000
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1))
    assert response.status.code == 20000


def valid_requests() -> dict[str, Any]:
    """One of each method, which a front before scripted brokers takes."""
    topic, group = resource("normal"), resource("g")
    handle = f"0 {command_now()} 60000 1 0 a 0 0 0"
    invisible = messages.ChangeInvisibleDurationRequest(group=group, topic=topic, receipt_handle=handle)
    invisible.invisible_duration.seconds = 30
    return {
        "QueryRoute": messages.QueryRouteRequest(topic=topic),
        "Heartbeat": messages.HeartbeatRequest(client_type=2, group=group),
        "SendMessage": messages.SendMessageRequest(messages=[message(tag="T")]),
        "QueryAssignment": messages.QueryAssignmentRequest(topic=topic, group=group),
        "AckMessage": messages.AckMessageRequest(group=group, topic=topic, entries=[
            messages.AckMessageEntry(message_id="1", receipt_handle=handle)]),
        "ForwardMessageToDeadLetterQueue": messages.ForwardMessageToDeadLetterQueueRequest(
            group=group, topic=topic, receipt_handle=handle, message_id="1"),
        "EndTransaction": messages.EndTransactionRequest(topic=topic, resolution=1, transaction_id="01AB@a@7@256"),
        "NotifyClientTermination": messages.NotifyClientTerminationRequest(group=group),
        "ChangeInvisibleDuration": invisible,
        "RecallMessage": messages.RecallMessageRequest(topic=resource("any"), recall_handle="djEgYSAxIDE="),
        "ReceiveMessage": receive_request()}


@pytest.mark.parametrize("seed", range(4))
async def test_no_request_that_was_damaged_breaks_the_server(caller: Caller, brokers: ScriptedBrokers,
                                                             caplog: pytest.LogCaptureFixture, seed: int) -> None:
    """A refusal names what is wrong with a request; an exception that nobody expected would be in the log."""
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    brokers.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda command: command.response(
        0, ext={"popTime": "5", "invisibleTime": "1000", "reviveQid": "6"})
    record = message_record.encode(MessageExt("normal", b"one", {}, born_host=HOST, store_host=HOST))
    brokers.answers[RequestCode.VIEW_MESSAGE_BY_ID] = lambda command: command.response(0, body=record)
    brokers.answers[RequestCode.RECALL_MESSAGE] = lambda command: command.response(0, ext={"msgId": "1"})
    chance = random.Random(seed)
    for method, request in valid_requests().items():
        for _ in range(40):
            data = bytearray(request.SerializeToString())
            for _ in range(chance.randrange(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            if method == "ReceiveMessage":
                [_ async for _ in caller.channel.unary_stream(f"/{definitions.SERVICE}/{method}")(
                    bytes(data), metadata=METADATA, timeout=60)]
            else:
                assert await caller.raw(method, bytes(data))
        stream = caller.channel.stream_stream(f"/{definitions.SERVICE}/Telemetry")(metadata=METADATA, timeout=60)
        await stream.write(bytes(data))
        await stream.done_writing()
        await stream.code()
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


async def test_headers_that_are_too_large_end_a_call_and_nothing_else(caller: Caller) -> None:
    request = messages.HeartbeatRequest(client_type=1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await caller.call("Heartbeat", request, (*METADATA, ("x-large", "x" * (20 << 10))))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await caller.call("Heartbeat", request)).status.code == 20000


async def test_a_client_that_does_not_read_its_stream_is_cut_off(caller: Caller, front: ProxyServer) -> None:
    """What gRPC buffers for it comes first, then what waits here, and then its stream ends."""
    stream = caller.telemetry()
    told = messages.Settings(client_type=1)
    told.user_agent.hostname = "h" * 100_000
    told.publishing.validate_message_type = True

    async def write() -> None:
        while True:
            await stream.write(messages.TelemetryCommand(settings=told))

    writing = asyncio.ensure_future(write())
    streams = front._service._streams._open
    async with asyncio.timeout(60):
        while not streams:
            await asyncio.sleep(0.01)
        while streams:
            await asyncio.sleep(0.01)
    assert (await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1))).status.code == 20000
    writing.cancel()
    stream.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_more_calls_than_may_be_under_way_are_told_to_wait(brokers: ScriptedBrokers) -> None:
    config = ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", calls_max=2, receive_streams_max=1,
                         telemetry_streams_max=1)
    front = ProxyServer(config, brokers, TransportConfig())
    await front.start()
    caller = Caller(front.port)
    try:
        brokers.held = asyncio.Event()
        first = asyncio.ensure_future(received(caller, receive_request()))
        while not brokers.asked_for(RequestCode.POP_MESSAGE):
            await asyncio.sleep(0.01)
        elements = [each async for each in caller.receive(receive_request())]
        assert [each.status.code for each in elements] == [42900]
        brokers.answers[RequestCode.POP_MESSAGE] = popped()
        brokers.held.set()
        assert (await first)[0] == 40401
        stream, other = caller.telemetry(), None
        await stream.write(messages.TelemetryCommand())
        await stream.initial_metadata()
        other = caller.telemetry()
        assert (await other.read()).status.code == 42900
        stream.cancel()
    finally:
        await caller.channel.close()
        await front.stop()


async def test_calls_with_one_answer_are_bounded_and_each_gives_its_place_back(brokers: ScriptedBrokers) -> None:
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", calls_max=1), brokers,
                        TransportConfig())
    await front.start()
    caller = Caller(front.port)

    async def heart_beat() -> int:
        return int((await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1))).status.code)

    try:
        brokers.silent.add(RequestCode.SEND_MESSAGE_V2)
        sending = asyncio.ensure_future(caller.call("SendMessage", messages.SendMessageRequest(messages=[message()])))
        async with asyncio.timeout(20):
            while not brokers.asked_for(RequestCode.SEND_MESSAGE_V2):
                await asyncio.sleep(0.01)
            assert await heart_beat() == 42900
            sending.cancel()        # as its client does that waits no more
            while await heart_beat() != 20000:
                await asyncio.sleep(0.01)
        for _ in range(2):      # what is refused has had a place, too
            assert (await caller.call("SendMessage", messages.SendMessageRequest())).status.code != 20000
            assert await heart_beat() == 20000
    finally:
        await caller.channel.close()
        await front.stop()


async def test_requests_under_way_have_a_size_in_all(brokers: ScriptedBrokers) -> None:
    config = ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", calls_size_max=10_000)
    front = ProxyServer(config, brokers, TransportConfig())
    await front.start()
    caller = Caller(front.port)
    brokers.held = asyncio.Event()
    brokers.answers[RequestCode.POP_MESSAGE] = popped()
    polling = [asyncio.ensure_future(received(caller, receive_request()))]
    while not brokers.asked_for(RequestCode.POP_MESSAGE):
        await asyncio.sleep(0.01)
    assert 2_048 + len(receive_request().SerializeToString()) < front._server.held < 4_000     # and its headers
    wanting = receive_request(filter_expression=messages.FilterExpression(type=1, expression="T" * 10_000))
    large = message()
    large.body = bytes(10_001)
    sending = caller.call("SendMessage", messages.SendMessageRequest(messages=[large]))
    for refused in (received(caller, wanting), sending):
        with pytest.raises(grpc.aio.AioRpcError, match="callsSizeMax") as error:
            await refused
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    brokers.held.set()
    assert (await polling[0])[0] == 40401
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1), (("x-mq-client-id", "c"),))
    assert response.status.code == 20000
    assert front._server.held == 0
    await caller.channel.close()
    await front.stop()


def test_the_metadata_of_these_tests_names_a_client() -> None:
    assert dict(METADATA)["x-mq-client-id"] == "client-1"


# --- requests that their client compressed ---------------------------------------------------------------------------


async def compressed(port: int, method: str, data: bytes, metadata: tuple[tuple[str, str], ...] = METADATA,
                     *, is_stream: bool = False) -> Any:
    """The first answer, or gRPC's own status."""
    response_type = getattr(messages.MessagingService, method).response
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            if is_stream:
                call = channel.unary_stream(f"/{definitions.SERVICE}/{method}")(
                    data, metadata=metadata, timeout=60, compression=grpc.Compression.Gzip)
                answer = await call.read()
            else:
                answer = await channel.unary_unary(f"/{definitions.SERVICE}/{method}")(
                    data, metadata=metadata, timeout=60, compression=grpc.Compression.Gzip)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return response_type.FromString(answer)


async def test_a_request_that_its_client_compressed_is_served(front: ProxyServer, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    largest = message("normal")
    largest.body = bytes(4 << 20)
    sent = await compressed(front.port, "SendMessage", messages.SendMessageRequest(messages=[largest])
                            .SerializeToString())
    assert sent.status.code == 20000
    brokers.answers[RequestCode.POP_MESSAGE] = popped()
    received = await compressed(front.port, "ReceiveMessage", receive_request().SerializeToString(), is_stream=True)
    assert received.status.code == 40401


@pytest.mark.parametrize(("method", "size"), [("SendMessage", 5 << 20), ("QueryRoute", 1 << 20),
                                              ("AckMessage", 1 << 20)])
async def test_what_its_client_compressed_becomes_no_more_than_its_request_may_carry(front: ProxyServer, method: str,
                                                                                    size: int) -> None:
    """Not parsed at all: a field of zeros is none."""
    assert (await compressed(front.port, method, bytes(size))).status.code == 40000
    assert await compressed(front.port, method, bytes(size + 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_nothing_is_inflated_for_who_has_not_signed(guarded: ProxyServer,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Packed, "inflated", None)
    bomb = bytes(50 << 20)
    for metadata in (METADATA, signed_by("nobody"), (*METADATA, ("authorization", "rubbish"))):
        assert (await compressed(guarded.port, "SendMessage", bomb, metadata)).status.code == 40100
        assert (await compressed(guarded.port, "QueryRoute", bomb, metadata)).status.code == 40100
    answer = await compressed(guarded.port, "ReceiveMessage", bomb, is_stream=True)
    assert answer.status.code == 40100


async def test_who_has_signed_may_compress(guarded: ProxyServer, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    large = message("normal")
    large.body = bytes(100_000)
    request = messages.SendMessageRequest(messages=[large]).SerializeToString()
    assert (await compressed(guarded.port, "SendMessage", request, signed_by("stranger"))).status.code == 20000
    assert (await compressed(guarded.port, "SendMessage", request, signed_by("consumer", "client-2"))
            ).status.code == 40100


async def test_a_receive_that_has_ended_is_not_broken_off_in_its_last_words() -> None:
    """It says how it ended while all are looked at, and others have a turn between."""
    service = Service.__new__(Service)
    service._access = CallAccess(lambda: PlainRules(WhiteAddresses(), {}))
    service._streams = TelemetryStreams.__new__(TelemetryStreams)
    service._streams._open = {}
    request = receive_request()
    service._receiving = {_Receiving(request, caller.Caller(), None): None for _ in range(CHECKED_A_STEP)}
    has_ended, says = asyncio.Event(), asyncio.Event()

    async def receive() -> str:
        mine = _Receiving(request, caller.Caller(), asyncio.current_task())
        service._receiving[mine] = None
        await has_ended.wait()
        del service._receiving[mine]
        await says.wait()
        return "said"

    task = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    has_ended.set()
    await service.decide_anew()
    says.set()
    assert await task == "said"


@pytest.mark.parametrize("is_ended_by_client", [False, True])
async def test_a_receive_that_its_client_ends_as_it_is_refused_just_ends(is_ended_by_client: bool) -> None:
    """Whoever cancels it, its client or the server that stops, must not wait for a refusal to be sent."""
    waiting: asyncio.Future[_Receiving] = asyncio.get_running_loop().create_future()

    async def receive() -> bool:
        receiving = _Receiving(None, caller.Caller(), asyncio.current_task())
        waiting.set_result(receiving)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return receiving.is_refused()
        return False

    task = asyncio.ensure_future(receive())
    (await waiting).refuse(CallRefused(Code.UNAUTHORIZED, "no"))
    (await waiting).refuse(CallRefused(Code.UNAUTHORIZED, "no, once more"))
    if is_ended_by_client:
        task.cancel()
    assert await task is not is_ended_by_client


async def test_receives_that_end_while_others_are_decided_anew_keep_none_from_it(
        front: ProxyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CHECKED_A_STEP", 1)
    receiving = front._service._receiving
    asked: list[str] = []

    class Access:
        rules = object()

        def check(self, method: str, request: Any, caller: caller.Caller) -> str:
            asked.append(request)
            raise CallRefused(Code.UNAUTHORIZED, "no")

    monkeypatch.setattr(front._service, "_access", Access())
    for name in ("first", "second", "third"):
        receiving[_Receiving(name, caller.Caller(), None)] = None
    deciding = asyncio.ensure_future(front._service.decide_anew())
    await asyncio.sleep(0)
    receiving.clear()
    await deciding
    assert asked == ["first"]
