"""What is popped and does not reach its client."""

import asyncio

import pytest

from regulus.proxy import popping, receive_call, server
from regulus.proxy.caller import Caller as Who
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.times import set_ms
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers
from tests.unit.proxy.test_service import message, popped, receive_request, received, stored_at

CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


def changed(command: RemotingCommand) -> RemotingCommand:
    return command.response(0, ext={"popTime": "5", "invisibleTime": "1000", "reviveQid": "6"})


async def until(brokers: ScriptedBrokers, code: int, count: int = 1) -> None:
    async with asyncio.timeout(60):
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
    assert (ext["offset"], ext["invisibleTime"], ext["suspend"]) == ("1", "0", "true")


async def test_what_was_looked_through_before_its_client_went_away_becomes_visible_soon_too(
        caller: Caller, front: ProxyServer, brokers: ScriptedBrokers) -> None:
    """It was to be delivered, and waited for the one behind it."""
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two", b"three", tags=("A", "B", "A"))
    brokers.answers[CHANGE] = changed
    brokers.silent.add(RequestCode.ACK_MESSAGE)
    call = caller.receive(receive_request(filter_expression=messages.FilterExpression(type=1, expression="A")))
    reading = asyncio.ensure_future(call.read())
    await until(brokers, RequestCode.ACK_MESSAGE)
    call.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await until(brokers, CHANGE)
    await front._renewing.finish()
    assert sorted((ext["offset"], ext["invisibleTime"], ext["suspend"]) for ext in brokers.asked_for(CHANGE)) == [
        ("0", "0", "true"), ("2", "0", "true")]


async def test_a_stream_that_is_cut_short_gives_back_what_it_gave_too(front: ProxyServer,
                                                                      brokers: ScriptedBrokers) -> None:
    """A push consumer has one message of four, and gives up. It throws that away, so that nobody would acknowledge it,
    and it lives on, so that it would be renewed for hours. The others were not delivered."""
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two", b"three", b"four")
    brokers.answers[CHANGE] = changed
    who, request = Who(client_id="client-1"), receive_request(auto_renew=True)
    elements = front._receive.receive(request, who)
    assert (await anext(elements)).status.code == 20000
    assert (await anext(elements)).message.body == b"one"
    await elements.aclose()
    await until(brokers, CHANGE, 4)
    await front._renewing.finish()
    assert sorted((ext["offset"], ext["invisibleTime"], ext.get("suspend")) for ext in brokers.asked_for(CHANGE)) == [
        ("0", "1000", None), *[(str(offset), "0", "true") for offset in (1, 2, 3)]]
    assert len(front._renewing) == 0
    whole = [element async for element in front._receive.receive(request, who)]
    assert [each.WhichOneof("content") for each in whole] == ["status", *["message"] * 4, "delivery_timestamp"]
    await front._renewing.finish()
    assert (len(brokers.asked_for(CHANGE)), len(front._renewing)) == (4, 4)


async def test_a_whole_batch_is_never_given_as_one_message(caller: Caller, brokers: ScriptedBrokers) -> None:
    """A broker of RocketMQ pops a topic of queue.type=BatchCQ so."""
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two", sys_flag=0xC0)
    brokers.answers[CHANGE] = changed
    assert await received(caller, receive_request()) == (50100, [])


async def test_what_is_popped_while_the_front_stops_becomes_visible_soon(brokers: ScriptedBrokers) -> None:
    """For a poll that is held at the broker, which does not know of it yet."""
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1"), brokers, TransportConfig())
    await front.start()
    caller = Caller(front.port)
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    brokers.answers[CHANGE] = changed
    brokers.held = held = asyncio.Event()
    call = caller.receive(receive_request())
    reading = asyncio.ensure_future(call.read())
    await until(brokers, RequestCode.POP_MESSAGE)

    async def stop() -> None:
        held.set()
        await until(brokers, CHANGE)

    brokers.stop = stop     # type: ignore[method-assign]
    call.cancel()
    await front.stop()
    await asyncio.gather(reading, return_exceptions=True)
    assert [(ext["invisibleTime"], ext["suspend"]) for ext in brokers.asked_for(CHANGE)] == [("0", "true")]
    await caller.channel.close()


async def test_a_client_that_ends_while_it_waits_gets_nothing_and_others_get_it_soon(
        caller: Caller, front: ProxyServer, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one")
    brokers.answers[CHANGE] = changed
    brokers.held = asyncio.Event()
    waiting = asyncio.ensure_future(received(caller, receive_request(auto_renew=True)))
    await until(brokers, RequestCode.POP_MESSAGE)
    leaving = messages.NotifyClientTerminationRequest(group=messages.Resource(name="g"))
    assert (await caller.call("NotifyClientTermination", leaving)).status.code == 20000
    brokers.held.set()
    assert await waiting == (40401, [])
    await until(brokers, CHANGE)
    assert len(front._renewing) == 0


async def test_polls_whose_clients_have_gone_away_count_as_long_as_they_are_held(
        brokers: ScriptedBrokers) -> None:
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", receive_streams_max=2), brokers,
                        TransportConfig())
    await front.start()
    caller = Caller(front.port)
    brokers.held = asyncio.Event()
    for count in (1, 2):
        call = caller.receive(receive_request())
        reading = asyncio.ensure_future(call.read())
        await until(brokers, RequestCode.POP_MESSAGE, count)
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert [element.status.code async for element in caller.receive(receive_request())] == [42900]
    brokers.answers[RequestCode.POP_MESSAGE] = popped()
    brokers.held.set()
    async with asyncio.timeout(60):
        while front._receive.left_behind:
            await asyncio.sleep(0.01)
    assert (await received(caller, receive_request()))[0] == 40401
    await caller.channel.close()
    await front.stop()


async def test_an_answer_that_comes_too_late_is_given_back(front: ProxyServer, brokers: ScriptedBrokers,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client was told that nothing came in time."""
    monkeypatch.setattr(popping, "POP_MARGIN_MS", -4_900)
    brokers.answers[RequestCode.POP_MESSAGE] = popped(b"one", b"two")
    brokers.answers[CHANGE] = changed
    brokers.held = asyncio.Event()
    request = receive_request()
    set_ms(request.long_polling_timeout, 5_000)
    elements = [each async for each in front._receive.receive(request, Who(client_id="client-1"))]
    assert elements[0].status.code == 50400
    assert [command.code for command in brokers.withdrawn] == [RequestCode.POP_MESSAGE]
    brokers.held.set()
    await until(brokers, CHANGE, 2)
    await front._renewing.finish()
    assert sorted((ext["offset"], ext["suspend"]) for ext in brokers.asked_for(CHANGE)) == [
        ("0", "true"), ("1", "true")]


async def test_a_broker_that_holds_as_many_polls_as_it_can_is_busy(caller: Caller, brokers: ScriptedBrokers) -> None:
    brokers.answers[RequestCode.POP_MESSAGE] = lambda command: command.response(ResponseCode.POLLING_FULL, "full")
    assert await received(caller, receive_request()) == (42900, [])


async def test_in_order_the_broker_says_how_often_a_message_was_out_and_hears_of_a_repeated_attempt(
        caller: Caller, brokers: ScriptedBrokers) -> None:
    """The message's own count stays what it was, as it is delivered from its queue again."""
    def ordered(command: RemotingCommand) -> RemotingCommand:
        answer = popped(b"one", b"two")(command)
        answer.ext["orderCountInfo"] = "0 qo0%1 4;0 0 2"
        return answer

    brokers.answers[RequestCode.POP_MESSAGE] = ordered
    for is_in_order, attempts, attempt_id in ((True, [3, 5], "attempt-1"), (False, [1, 1], None)):
        brokers.ordered = is_in_order
        group = messages.Resource(name=f"g{is_in_order}")
        request = receive_request(attempt_id="attempt-1")
        request.group.CopyFrom(group)
        code, found = await received(caller, request)
        assert (code, [each.system_properties.delivery_attempt for each in found]) == (20000, attempts)
        assert brokers.asked_for(RequestCode.POP_MESSAGE)[-1].get("attemptId") == attempt_id
    brokers.ordered = True
    request = receive_request(attempt_id="a" * 129)
    request.group.name = "gTrue"
    assert await received(caller, request) == (40000, [])


async def test_who_may_not_receive_is_told_so_after_a_rest(guarded: ProxyServer) -> None:
    """Some clients ask again at once, whatever they are told."""
    caller = Caller(guarded.port)
    begun = asyncio.get_running_loop().time()
    elements = [element async for element in caller.receive(receive_request())]
    assert [element.status.code for element in elements] == [40100]
    assert asyncio.get_running_loop().time() - begun >= 0.9 * receive_call.REFUSAL_REST_S
    await caller.channel.close()


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
