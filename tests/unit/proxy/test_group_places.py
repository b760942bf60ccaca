"""A consumer's settings are answered when its group has its places in the topics that they name."""

import asyncio
from typing import Any

import pytest

from regulus.proxy import group_places
from regulus.proxy.server import ProxyServer
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import Caller, ScriptedBrokers, signed_by


def receives(*topics: str, group: str = "g", kind: int = ClientType.SIMPLE_CONSUMER) -> Any:
    told = messages.Settings(client_type=kind)
    told.subscription.group.name = group
    for topic in topics:
        told.subscription.subscriptions.add().topic.name = topic
    return messages.TelemetryCommand(settings=told)


async def tell(stream: Any, told: Any) -> Any:
    await stream.write(told)
    return await asyncio.wait_for(stream.read(), 20)


def begun(brokers: ScriptedBrokers) -> list[tuple[str, str]]:
    """Takes them."""
    asked = brokers.asked_for(RequestCode.NOTIFICATION)
    brokers.asked.clear()
    for ext in asked:
        assert (ext["queueId"], ext["pollTime"], ext["initMode"]) == ("-1", "0", "1")
    return [(ext["consumerGroup"], ext["topic"]) for ext in asked]


async def test_each_topic_is_begun_once_on_a_stream(brokers: ScriptedBrokers, caller: Caller,
                                                    caplog: pytest.LogCaptureFixture) -> None:
    stream = caller.telemetry()
    assert (await tell(stream, receives("normal", "fifo", "normal", "absent"))).status.code == 20000
    assert begun(brokers) == [("g", "normal"), ("g", "fifo")]
    await tell(stream, receives("normal", "fifo", "delay"))
    assert begun(brokers) == [("g", "delay")]
    await tell(stream, receives("normal", group="h"))
    assert begun(brokers) == [("h", "normal")]
    await tell(stream, receives("normal", "delay"))     # it left that group meanwhile
    assert begun(brokers) == [("g", "normal"), ("g", "delay")]
    assert "has no offsets yet" not in caplog.text     # one that is not there will have its first message
    stream.cancel()


async def test_who_does_not_pop_begins_nowhere(brokers: ScriptedBrokers, caller: Caller) -> None:
    stream = caller.telemetry()
    await tell(stream, receives("normal", kind=ClientType.PULL_CONSUMER))
    publishing = messages.Settings(client_type=ClientType.PRODUCER)
    publishing.publishing.topics.add(name="normal")
    await tell(stream, messages.TelemetryCommand(settings=publishing))
    assert begun(brokers) == []
    stream.cancel()


async def test_who_may_not_consume_a_topic_begins_nowhere(guarded: ProxyServer, brokers: ScriptedBrokers) -> None:
    caller = Caller(guarded.port)
    for topics, code, places in ((("normal", "trans"), 40100, []), (("normal",), 20000, [("g", "normal")])):
        stream = caller.telemetry(signed_by("consumer"))
        assert (await tell(stream, receives(*topics))).status.code == code
        assert begun(brokers) == places
        stream.cancel()
    await caller.channel.close()


@pytest.mark.parametrize("code", [RequestCode.NOTIFICATION, RequestCode.GET_ROUTEINFO_BY_TOPIC])
async def test_settings_are_answered_though_nobody_answers_where_a_group_begins(
        brokers: ScriptedBrokers, caller: Caller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
        code: int) -> None:
    """And they are asked again with the next ones."""
    monkeypatch.setattr(group_places, "PLACES_S_MAX", 0.05)
    brokers.silent.add(code)
    stream = caller.telemetry()
    assert (await tell(stream, receives("normal"))).status.code == 20000
    assert "group g has no offsets yet in 1 topics" in caplog.text
    assert "before its first receive: normal" in caplog.text
    brokers.silent.clear()
    brokers.asked.clear()
    monkeypatch.setattr(group_places, "PLACES_S_MAX", 20)
    if code == RequestCode.NOTIFICATION:
        await tell(stream, receives("normal"))
        assert begun(brokers) == [("g", "normal")]
    stream.cancel()


@pytest.mark.parametrize(("code", "is_told"), [(ResponseCode.SYSTEM_ERROR, True),
                                               (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, False)])
async def test_of_a_broker_that_lets_nobody_begin_is_told_unless_it_never_does(
        brokers: ScriptedBrokers, caller: Caller, caplog: pytest.LogCaptureFixture, code: ResponseCode,
        is_told: bool) -> None:
    def refuse(command: RemotingCommand) -> RemotingCommand:
        return command.response(code, "no")

    brokers.answers[RequestCode.NOTIFICATION] = refuse
    stream = caller.telemetry()
    assert (await tell(stream, receives("normal"))).status.code == 20000
    assert ("group g has no offsets yet in 1 topics" in caplog.text) is is_told
    begun(brokers)
    await tell(stream, receives("normal"))
    assert begun(brokers) == [("g", "normal")] * is_told
    stream.cancel()
