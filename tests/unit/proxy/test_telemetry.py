"""Telemetry streams: whose they are, what they may say, and how long they may be silent."""

from typing import Any

import grpc

from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.proxy.server import ProxyServer
from regulus.record import message_record
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers, signed_by

HOST = host_bytes("10.0.0.9", 10911)


def sends_to(*topics: str) -> Any:
    told = messages.Settings(client_type=1)
    for topic in topics:
        told.publishing.topics.add(name=topic)
    return messages.TelemetryCommand(settings=told)


def check_of(topic: str) -> RemotingCommand:
    half = MessageExt("RMQ_SYS_TRANS_HALF_TOPIC", b"half", {
        "UNIQ_KEY": "01AB", "REAL_TOPIC": topic, "PGROUP": topic, "TRAN_MSG": "true"}, born_host=HOST, store_host=HOST)
    return RemotingCommand.request(RequestCode.CHECK_TRANSACTION_STATE, {
        "tranStateTableOffset": "7", "commitLogOffset": "256"}, message_record.encode(half), oneway=True)


async def test_nobody_gets_half_messages_by_the_id_of_another_users_client(guarded: ProxyServer,
                                                                           brokers: ScriptedBrokers) -> None:
    """Settings of a topic that the stranger may send to, with the client id of one that sends to another topic: the
    latest stream of a client is the one that is asked."""
    caller = Caller(guarded.port)
    stream = caller.telemetry(signed_by("sender"))
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    thief = caller.telemetry(signed_by("stranger"))
    await thief.write(sends_to("normal"))
    assert (await thief.read()).status.code == 40100
    assert await thief.code() == grpc.StatusCode.OK
    assert brokers.on_request is not None
    await brokers.on_request("a", check_of("trans"))
    assert (await stream.read()).recover_orphaned_transaction_command.message.body == b"half"
    stream.cancel()
    await caller.channel.close()


async def test_no_call_goes_by_the_id_of_another_users_client(guarded: ProxyServer) -> None:
    caller = Caller(guarded.port)
    stream = caller.telemetry(signed_by("sender"))
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    leaving = messages.NotifyClientTerminationRequest()
    response = await caller.call("NotifyClientTermination", leaving, signed_by("stranger"))
    assert (response.status.code, "another user" in response.status.message) == (40100, True)
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1), signed_by("stranger"))
    assert response.status.code == 40100
    assert (await caller.call("NotifyClientTermination", leaving, signed_by("sender"))).status.code == 20000
    response = await caller.call("Heartbeat", messages.HeartbeatRequest(client_type=1), signed_by("stranger"))
    assert response.status.code == 20000        # the client is gone, and its id is free
    stream.cancel()
    await caller.channel.close()
