"""What is popped and does not reach its client."""

import asyncio

import pytest

from regulus.proxy import server
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers
from tests.unit.proxy.test_service import message, popped, receive_request, received, stored_at

CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


def changed(command: RemotingCommand) -> RemotingCommand:
    return command.response(0, ext={"popTime": "5", "invisibleTime": "1000", "reviveQid": "6"})


async def until(brokers: ScriptedBrokers, code: int, count: int = 1) -> None:
    async with asyncio.timeout(10):
        while len(brokers.asked_for(code)) < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("reconsume_times", [0, 17])
async def test_what_is_looked_through_when_its_client_goes_away_becomes_visible_soon(
        caller: Caller, front: ProxyServer, brokers: ScriptedBrokers, reconsume_times: int) -> None:
    """The first one is on its way out, by its tag or to the dead letters, at a broker that does not answer."""
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two", tag="B", reconsume_times=reconsume_times)
    brokers.answers[CHANGE] = changed
    code = RequestCode.ACK_MESSAGE if not reconsume_times else RequestCode.VIEW_MESSAGE_BY_ID
    brokers.silent.add(code)
    request = receive_request()
    if not reconsume_times:
        request.filter_expression.type, request.filter_expression.expression = 1, "A"
    call = caller.receive(request)
    reading = asyncio.ensure_future(call.read())
    await until(brokers, code)
    call.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await until(brokers, CHANGE)
    await front._renewing.finish()
    (ext,) = brokers.asked_for(CHANGE)
    assert (ext["offset"], ext["invisibleTime"]) == ("1", "1000")


async def test_a_broker_that_answers_no_heartbeat_keeps_no_message_of_a_silent_client(
        brokers: ScriptedBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TICK_S", 0.02)
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", channel_expired_timeout=300), brokers,
                        TransportConfig())
    await front.start()
    caller = Caller(front.port)
    brokers.silent.add(RequestCode.HEART_BEAT)
    brokers.answers[RequestCode.SEND_MESSAGE_V2] = stored_at
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    brokers.answers[CHANGE] = changed
    half = messages.SendMessageRequest(messages=[message("trans", message_type=4)])
    assert (await caller.call("SendMessage", half)).status.code == 20000
    await until(brokers, RequestCode.HEART_BEAT)
    assert (await received(caller, receive_request(auto_renew=True)))[0] == 20000
    await until(brokers, CHANGE)
    await caller.channel.close()
    await front.stop()
