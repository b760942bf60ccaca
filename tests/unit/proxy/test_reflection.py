"""grpc.reflection as a client of another make asks for it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from h2.settings import SettingCodes

from regulus.proxy import reflection
from regulus.proxy.server import ProxyServer
from regulus.wire.grpc import definitions
from regulus.wire.grpc.reflection_messages import ServerReflectionRequest
from regulus.wire.http2.grpc_messages import framed
from tests.unit.transport.http2.peers import connected

VERSIONS = ("v1", "v1alpha")
DEFINITION, SERVICE = "apache/rocketmq/v2/definition.proto", "apache/rocketmq/v2/service.proto"


class Stream:
    def __init__(self, channel: Any, version: str) -> None:
        package = f"grpc.reflection.{version}"
        self.request = definitions.named(package, "ServerReflectionRequest")
        response: Any = definitions.named(package, "ServerReflectionResponse")
        self.call = channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo",
                                          request_serializer=lambda each: each.SerializeToString(),
                                          response_deserializer=response.FromString)(timeout=20)

    async def ask(self, **question: Any) -> Any:
        await self.call.write(self.request(host="here", **question))
        answer = await self.call.read()
        assert (answer.valid_host, answer.original_request) == ("here", self.request(host="here", **question))
        return answer

    async def files(self, **question: Any) -> list[str]:
        answer = await self.ask(**question)
        return [descriptor_pb2.FileDescriptorProto.FromString(each).name
                for each in answer.file_descriptor_response.file_descriptor_proto]


def methods_of(service: str, files: Sequence[bytes]) -> list[str]:
    """By the files alone that were told."""
    waiting = [descriptor_pb2.FileDescriptorProto.FromString(each) for each in files]
    pool, added = descriptor_pool.DescriptorPool(), set[str]()
    while waiting:      # a pool takes a file behind what it imports
        file = next(each for each in waiting if added.issuperset(each.dependency))
        pool.AddSerializedFile(file.SerializeToString())
        added.add(file.name)
        waiting.remove(file)
    return [method.name for method in pool.FindServiceByName(service).methods]


@pytest.fixture
async def channel(guarded: ProxyServer) -> AsyncIterator[Any]:
    """To a front whose clients sign; nobody does for this."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.port}") as made:
        yield made


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_services_are_named_and_described(channel: Any, version: str) -> None:
    stream = Stream(channel, version)
    listed = [each.name for each in (await stream.ask(list_services="")).list_services_response.service]
    assert listed == ["apache.rocketmq.v2.MessagingService", "grpc.health.v1.Health",
                      "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"]
    for name in listed:
        answer = await stream.ask(file_containing_symbol=name)
        assert methods_of(name, answer.file_descriptor_response.file_descriptor_proto)
    stream.call.cancel()


@pytest.mark.parametrize("symbol", [
    "apache.rocketmq.v2.Message", "apache.rocketmq.v2.Code", "apache.rocketmq.v2.Message.UserPropertiesEntry"])
async def test_a_file_is_found_by_its_name_and_by_what_it_has(channel: Any, symbol: str) -> None:
    stream = Stream(channel, "v1")
    times = {"google/protobuf/timestamp.proto", "google/protobuf/duration.proto"}
    for question in ({"file_containing_symbol": symbol}, {"file_by_filename": DEFINITION}):
        first, *others = await stream.files(**question)
        assert (first, set(others), len(others)) == (DEFINITION, times, 2)
    first, *others = await stream.files(file_containing_symbol="apache.rocketmq.v2.MessagingService.SendMessage")
    assert (first, set(others)) == (SERVICE, {DEFINITION, *times})
    assert (await stream.files(file_containing_symbol="apache.rocketmq.v2.Message.body"))[0] == DEFINITION
    stream.call.cancel()


async def test_what_is_not_here_is_not_found_and_the_stream_goes_on(channel: Any) -> None:
    stream = Stream(channel, "v1alpha")
    for question in ({"file_containing_symbol": "a.B"}, {"file_containing_symbol": ""},
                     {"file_containing_symbol": "apache.rocketmq.v2.MessagingService.Nothing"},
                     {"file_containing_symbol": "apache.rocketmq.v2.Message.nothing"},
                     {"file_containing_symbol": "apache.rocketmq.v2.Code.nothing"},
                     {"file_by_filename": "../../etc/passwd"},
                     {"file_containing_extension": {"containing_type": "apache.rocketmq.v2.Message",
                                                    "extension_number": 7}},
                     {"all_extension_numbers_of_type": "a.B"}, {}):
        assert (await stream.ask(**question)).error_response.error_code == 5
    told = (await stream.ask(all_extension_numbers_of_type="apache.rocketmq.v2.Message")).all_extension_numbers_response
    assert (told.base_type_name, list(told.extension_number)) == ("apache.rocketmq.v2.Message", [])
    await stream.call.done_writing()
    assert await stream.call.read() is grpc.aio.EOF
    assert await stream.call.code() is grpc.StatusCode.OK


async def test_a_question_has_a_limit(channel: Any) -> None:
    stream = Stream(channel, "v1")
    await stream.call.write(stream.request(file_by_filename="f" * 4_097))
    assert await stream.call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_streams_have_a_limit(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both versions together."""
    monkeypatch.setattr(reflection, "STREAMS_MAX", 1)
    first = Stream(channel, "v1")
    await first.ask(list_services="")
    assert await Stream(channel, "v1alpha").call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await first.call.done_writing()
    assert await first.call.code() is grpc.StatusCode.OK
    again = Stream(channel, "v1alpha")
    await again.ask(list_services="")
    again.call.cancel()


async def test_a_stream_that_asks_nothing_ends(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection, "SILENT_S_MAX", 0.05)
    silent = Stream(channel, "v1")
    assert await silent.call.read() is grpc.aio.EOF
    assert await silent.call.code() is grpc.StatusCode.OK


async def test_a_stream_whose_client_reads_no_answer_keeps_no_place(guarded: ProxyServer, channel: Any,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection, "STREAMS_MAX", 1)
    monkeypatch.setattr(reflection, "SILENT_S_MAX", 0.2)
    name = "grpc.reflection.v1.ServerReflection"
    async with connected(guarded, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as peer:
        stream_id = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(stream_id, [
            (":method", "POST"), (":scheme", "http"), (":path", f"/{name}/ServerReflectionInfo"),
            (":authority", "here"), ("te", "trailers"), ("content-type", "application/grpc")])
        peer.h2.send_data(stream_id, framed(ServerReflectionRequest(list_services="").SerializeToString()))
        peer.flush()
        await peer.until(lambda: stream_id in peer.headers)
        async with asyncio.timeout(60):
            while await Stream(channel, "v1").call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                await asyncio.sleep(0.01)
