"""Calls with one answer: what reaches the broker, and what does not."""

from typing import Any

import pytest

from regulus.model.message import MessageExt
from regulus.proxy.server import ProxyServer
from regulus.record import message_record
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers
from tests.unit.proxy.test_service import HOST, command_now, message, popped, receive_request, received, resource

CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


def changed(command: RemotingCommand) -> RemotingCommand:
    return command.response(0, ext={"popTime": "5", "invisibleTime": command.ext["invisibleTime"], "reviveQid": "6"})


async def test_a_transaction_is_ended_by_the_unique_key_of_its_id(caller: Caller, brokers: ScriptedBrokers) -> None:
    """With access control brokers look at it: whatever else the call names must not stand in for it."""
    request = messages.EndTransactionRequest(topic=resource("trans"), message_id="another", resolution=1,
                                             transaction_id="01AB@a@7@256")
    assert (await caller.call("EndTransaction", request)).status.code == 20000
    (ext,) = brokers.asked_for(RequestCode.END_TRANSACTION)
    assert (ext["msgId"], ext["transactionId"], ext["topic"]) == ("01AB", "01AB", "trans")


async def test_a_send_of_which_nothing_was_stored_has_no_entries(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = lambda command: command.response(2, "busy")
    made = [message("fifo", message_group="g", message_id=f"0{number}") for number in range(2)]
    response = await caller.call("SendMessage", messages.SendMessageRequest(messages=made))
    assert (response.status.code, len(response.entries)) == (42900, 0)
    assert len(brokers.asked_for(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_a_handle_whose_time_is_over_is_asked_of_no_broker(caller: Caller, brokers: ScriptedBrokers) -> None:
    """A broker says yes to it, and the message comes again."""
    handle = f"0 {command_now() - 60_001} 60000 3 0 a 0 0 0"
    response = await caller.call("AckMessage", messages.AckMessageRequest(
        group=resource("g"), topic=resource("normal"), entries=[messages.AckMessageEntry(receipt_handle=handle)]))
    assert response.status.code == 40013
    request = messages.ChangeInvisibleDurationRequest(group=resource("g"), topic=resource("normal"),
                                                      receipt_handle=handle)
    assert (await caller.call("ChangeInvisibleDuration", request)).status.code == 40013
    assert brokers.asked_for(RequestCode.ACK_MESSAGE) == brokers.asked_for(CHANGE) == []


@pytest.mark.parametrize(("count", "code"), [(1_024, 40013), (1_025, 40000)])
async def test_one_call_acknowledges_so_many_messages(caller: Caller, count: int, code: int) -> None:
    entries = [messages.AckMessageEntry(receipt_handle="forged")] * count
    response = await caller.call("AckMessage", messages.AckMessageRequest(
        group=resource("g"), topic=resource("normal"), entries=entries))
    assert (response.status.code, len(response.entries)) == (code, count if code == 40013 else 0)


async def test_a_client_that_leaves_a_group_that_is_not_its_own_is_there_still(caller: Caller, front: ProxyServer,
                                                                               brokers: ScriptedBrokers) -> None:
    """Access control has looked at the group that is named, and at no other."""
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    assert (await received(caller, receive_request(auto_renew=True)))[0] == 20000
    for group, left in (("other", 1), ("g", 0)):
        request = messages.NotifyClientTerminationRequest(group=resource(group))
        assert (await caller.call("NotifyClientTermination", request)).status.code == 20000
        assert (front._clients.knows(("", "client-1")), len(front._renewing)) == (bool(left), left)


@pytest.mark.parametrize(("client_type", "language", "asked_ms"), [(2, 8, 1_000), (3, 8, 3), (2, 2, 3)])
async def test_a_push_consumer_of_node_js_gets_a_failed_message_after_a_second(
        caller: Caller, brokers: ScriptedBrokers, client_type: int, language: int, asked_ms: int) -> None:
    """It takes the seconds of its policy for ms."""
    told = messages.Settings(client_type=client_type)
    told.subscription.group.name, told.user_agent.language = "g", language
    stream = caller.telemetry()
    await stream.write(messages.TelemetryCommand(settings=told))
    assert (await stream.read()).status.code == 20000
    brokers.answers[CHANGE] = changed
    request = messages.ChangeInvisibleDurationRequest(group=resource("g"), topic=resource("normal"),
                                                      receipt_handle=f"0 {command_now()} 60000 3 0 a 0 0 0")
    request.invisible_duration.nanos = 3_000_000
    assert (await caller.call("ChangeInvisibleDuration", request)).status.code == 20000
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == [str(asked_ms)]
    stream.cancel()


# --- dead letters ----------------------------------------------------------------------------------------------------


def forward(handle: str) -> Any:
    return messages.ForwardMessageToDeadLetterQueueRequest(group=resource("g"), topic=resource("normal"),
                                                           receipt_handle=handle, message_id="1")


@pytest.mark.parametrize(("queue_id", "queue_offset", "code"), [(1, 5, 20000), (0, 5, 40013), (1, 4, 40013)])
async def test_only_the_message_of_the_handle_becomes_a_dead_letter(
        caller: Caller, brokers: ScriptedBrokers, queue_id: int, queue_offset: int, code: int) -> None:
    record = message_record.encode(MessageExt("normal", b"one", {}, queue_id=queue_id, queue_offset=queue_offset,
                                              born_host=HOST, store_host=HOST))
    brokers.answers[RequestCode.VIEW_MESSAGE_BY_ID] = lambda command: command.response(0, body=record)
    response = await caller.call("ForwardMessageToDeadLetterQueue", forward("5 1 2 3 0 a 1 5 4711"))
    assert response.status.code == code
    assert len(brokers.asked_for(RequestCode.CONSUMER_SEND_MSG_BACK)) == (code == 20000)


async def test_a_handle_that_does_not_say_where_its_message_lies_is_asked_of_no_broker(
        caller: Caller, brokers: ScriptedBrokers) -> None:
    response = await caller.call("ForwardMessageToDeadLetterQueue", forward("5 1 2 3 0 a 1 5"))
    assert response.status.code == 40013
    assert brokers.asked_for(RequestCode.VIEW_MESSAGE_BY_ID) == []
