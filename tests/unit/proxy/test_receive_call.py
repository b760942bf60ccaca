"""What is popped and does not reach its client."""

import asyncio

import pytest

from regulus.proxy.server import ProxyServer
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers
from tests.unit.proxy.test_service import popped, receive_request

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
