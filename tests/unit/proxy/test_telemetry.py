"""Telemetry streams: whose they are, what they may say, and how long they may be silent."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.proxy import telemetry, telemetry_streams
from regulus.proxy.clients import TOPICS_OF_CLIENT_MAX
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.record import message_record
from regulus.transport.config import TransportConfig
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.http2.grpc_messages import Packed
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import METADATA, Caller, ScriptedBrokers, signed_by

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
    assert (await thief.read()).status.code == 20000        # a client of his own
    assert brokers.on_request is not None
    await brokers.on_request("a", check_of("trans"))
    assert (await stream.read()).recover_orphaned_transaction_command.message.body == b"half"
    await thief.write(sends_to("normal"))
    assert (await thief.read()).WhichOneof("command") == "settings"     # nothing came before that
    stream.cancel()
    thief.cancel()
    await caller.channel.close()


async def test_a_stream_that_is_refused_waits_for_its_client_to_write(guarded: ProxyServer,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is over by then breaks the write, and its client does not see why. Who never writes is told, too."""
    caller = Caller(guarded.port)
    for limit_s, writes in ((30.0, True), (0.05, False)):
        monkeypatch.setattr(telemetry_streams, "FIRST_WORDS_S_MAX", limit_s)
        stream = caller.telemetry((("x-mq-client-id", "c"), ("authorization", "nobody")))
        reading = asyncio.ensure_future(stream.read())
        if writes:
            assert await asyncio.wait([reading], timeout=0.1) == (set(), {reading})
            await stream.write(sends_to("normal"))
        assert (await asyncio.wait_for(reading, 60)).status.code == 40100
    await caller.channel.close()


async def test_nothing_is_inflated_for_who_has_not_signed_on_a_stream(guarded: ProxyServer,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    inflated: list[int] = []
    before = Packed.inflated

    def noted(self: Packed, size_max: int) -> Iterator[bytes]:
        inflated.append(size_max)
        return before(self, size_max)

    monkeypatch.setattr(Packed, "inflated", noted)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{guarded.port}", compression=grpc.Compression.Gzip)
    for metadata, count in ((METADATA, 0), (signed_by("sender"), 1)):
        stream = Caller(guarded.port, channel).telemetry(metadata)
        await stream.write(sends_to(*["trans"] * 500))
        assert (await stream.read()).status.code == (20000 if count else 40100)
        assert len(inflated) == count
        stream.cancel()
    await channel.close()


async def test_who_may_not_send_to_a_topic_any_more_is_asked_for_no_transaction(
        guarded: ProxyServer, brokers: ScriptedBrokers, caplog: pytest.LogCaptureFixture) -> None:
    caller = Caller(guarded.port)
    stream = caller.telemetry(signed_by("sender"))
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    assert guarded._access is not None
    guarded._access._rules = lambda: PlainRules(WhiteAddresses(), {})
    caplog.set_level("INFO")
    assert brokers.on_request is not None
    await brokers.on_request("a", check_of("trans"))
    assert "no producer of topic trans can be asked" in caplog.text
    stream.cancel()
    await caller.channel.close()


async def test_no_call_goes_by_the_id_of_another_users_client(guarded: ProxyServer) -> None:
    """What a stranger says of it is of a client of his own, and keeps its owner out of nothing."""
    caller = Caller(guarded.port)
    stream = caller.telemetry(signed_by("sender"))
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    leaving = messages.NotifyClientTerminationRequest()
    alive = messages.HeartbeatRequest(client_type=1)
    for user in ("stranger", "sender"):
        assert (await caller.call("Heartbeat", alive, signed_by(user))).status.code == 20000
    assert (await caller.call("NotifyClientTermination", leaving, signed_by("stranger"))).status.code == 20000
    known = [user for user, _ in guarded._clients._clients]
    assert known == ["sender"]
    assert (await caller.call("NotifyClientTermination", leaving, signed_by("sender"))).status.code == 20000
    assert len(guarded._clients) == 0
    stream.cancel()
    await caller.channel.close()


async def test_who_may_not_call_is_let_into_no_stream(guarded: ProxyServer) -> None:
    """Nobody has to say anything on a stream, so that it is looked at before."""
    caller = Caller(guarded.port)
    stream = caller.telemetry()
    assert (await stream.read()).status.code == 40100
    assert await stream.code() == grpc.StatusCode.OK
    await caller.channel.close()


async def test_a_stream_that_brings_no_settings_ends_and_one_that_has_lives(
        caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_streams, "SILENT_S_MAX", 1.5)
    telling = caller.telemetry()
    await telling.write(sends_to("trans"))
    assert (await telling.read()).status.code == 20000
    silent = caller.telemetry((("x-mq-client-id", "silent"),))
    await silent.write(messages.TelemetryCommand())
    assert await silent.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "no settings came on the stream for 1.5 s" in await silent.details()
    await telling.write(sends_to("trans"))
    assert (await telling.read()).status.code == 20000
    telling.cancel()


async def test_a_client_has_a_few_streams(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_streams, "STREAMS_OF_CLIENT_MAX", 2)
    streams = [caller.telemetry() for _ in range(2)]
    for stream in streams:
        await stream.initial_metadata()
        await stream.write(sends_to("trans"))
        await stream.read()
    third = caller.telemetry()
    assert (await third.read()).status.code == 42900
    other = caller.telemetry((("x-mq-client-id", "other"),))
    await other.write(sends_to("trans"))
    assert (await other.read()).status.code == 20000
    await streams[0].done_writing()
    assert await streams[0].read() is grpc.aio.EOF
    again = caller.telemetry()
    await again.write(sends_to("trans"))
    assert (await again.read()).status.code == 20000
    for stream in (streams[1], other, again):
        stream.cancel()


async def test_who_holds_the_streams_is_told_when_there_are_no_more(brokers: ScriptedBrokers,
                                                                    caplog: pytest.LogCaptureFixture) -> None:
    front = ProxyServer(ProxyConfig(grpc_server_port=0, bind_address="127.0.0.1", telemetry_streams_max=2), brokers,
                        TransportConfig())
    await front.start()
    caller = Caller(front.port)
    streams = [caller.telemetry((("x-mq-client-id", f"c{number}"),)) for number in range(2)]
    for stream in streams:
        await stream.write(sends_to("trans"))
        await stream.read()
    for _ in range(2):
        assert (await caller.telemetry().read()).status.code == 42900
    assert [each.getMessage() for each in caplog.records if "telemetryStreamsMax" in each.getMessage()] == [
        "2 telemetry streams are open, which is the limit (telemetryStreamsMax); most are of 127.0.0.1: 2"]
    for stream in streams:
        stream.cancel()
    await caller.channel.close()
    await front.stop()


async def test_settings_of_too_many_topics_or_bytes_end_the_stream(caller: Caller) -> None:
    many = messages.Settings(client_type=2)
    many.subscription.group.name = "g"
    for _ in range(TOPICS_OF_CLIENT_MAX + 1):
        many.subscription.subscriptions.add().topic.name = "normal"
    wrong = messages.Settings(client_type=2)
    wrong.subscription.group.name = "g"
    wrong.subscription.subscriptions.add().topic.name = "a/b"
    large = messages.Settings(client_type=2)
    large.subscription.group.name = "g"
    large.user_agent.hostname = "h" * telemetry_streams.COMMAND_SIZE_MAX
    nameless = messages.Settings(client_type=2)
    nameless.subscription.group.name = "a/b"
    for told, words in ((many, "1024 are the most"), (wrong, "a/b"),
                        (nameless, "the name of the group"), (large, "262144 are the most"),
                        (sends_to(*["trans"] * (TOPICS_OF_CLIENT_MAX + 1)).settings, "1024 are the most")):
        stream = caller.telemetry()
        await stream.write(messages.TelemetryCommand(settings=told))
        assert await stream.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert words in await stream.details()


async def test_a_client_whose_stream_has_ended_is_not_there_for_ever(caller: Caller, front: ProxyServer) -> None:
    stream = caller.telemetry()
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    client = front._clients.get(("", "client-1"))
    assert client is not None
    assert client.stream is not None
    streams = front._service._streams
    assert (len(streams._open), len(streams._joined)) == (1, 1)
    stream.cancel()
    async with asyncio.timeout(60):
        while client.stream is not None:
            await asyncio.sleep(0.01)
    assert (len(streams._open), len(streams._joined), len(streams._of_client)) == (0, 0, 0)


async def test_brokers_hear_of_no_topic_that_is_not_there(caller: Caller, front: ProxyServer) -> None:
    stream = caller.telemetry()
    await stream.write(sends_to("made-up", "trans", "made-up-too"))
    assert (await stream.read()).status.code == 20000
    assert front._clients.producer_topics() == ["trans"]
    stream.cancel()


async def test_settings_are_answered_though_nobody_tells_the_routes(caller: Caller, brokers: ScriptedBrokers,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "ROUTES_S_MAX", 0.05)
    brokers.silent.add(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    stream = caller.telemetry()
    await stream.write(sends_to("trans"))
    assert (await stream.read()).status.code == 20000
    stream.cancel()


async def test_what_was_said_on_a_stream_arrives_before_its_end(guarded: ProxyServer) -> None:
    caller = Caller(guarded.port)
    stream = caller.telemetry(signed_by("sender"))
    for _ in range(20):
        await stream.write(sends_to("trans"))
    await stream.write(sends_to("normal"))
    assert [(await stream.read()).status.code for _ in range(21)] == [20000] * 20 + [40100]
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() == grpc.StatusCode.OK
    await caller.channel.close()


async def test_node_js_is_told_its_newest_settings_again(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "NODE_JS_REPEATS_S", (1.0, 1.1))
    stream = caller.telemetry()
    told = sends_to("trans")
    told.settings.user_agent.language = 8
    await stream.write(told)
    await stream.read()
    told.settings.publishing.topics.add(name="normal")
    await stream.write(told)
    answers = [await stream.read() for _ in range(3)]
    assert [len(each.settings.publishing.topics) for each in answers] == [2, 2, 2]
    stream.cancel()
    assert dict(METADATA)["x-mq-language"] == "JAVA"      # what it says in its settings counts


@pytest.mark.parametrize("client_type", [5, 6])
async def test_a_consumer_of_lite_topics_is_told_why_it_cannot_be(front: ProxyServer, client_type: int) -> None:
    """On its stream, and by each route that it asks for then: the client for Java asks three times."""
    caller = Caller(front.port)
    route = messages.QueryRouteRequest()
    route.topic.name = "normal"
    assert (await caller.call("QueryRoute", route)).status.code == 20000
    told = messages.TelemetryCommand(settings=messages.Settings(client_type=client_type))
    told.settings.subscription.group.name = "g"
    stream = caller.telemetry()
    await stream.write(told)
    with pytest.raises(grpc.aio.AioRpcError, match="lite topics are not served here"):
        await stream.read()
    refused = (await caller.call("QueryRoute", route)).status
    assert refused.code == 50100
    assert refused.message == "lite topics are not served here, so that a consumer of them would get nothing"
    other = await caller.call("QueryRoute", route, (("x-mq-client-id", "another"),))
    assert other.status.code == 20000
    await caller.channel.close()
