"""The service grpc.reflection: tools ask it which services and messages the server has. Calls need no signature.

RocketMQ's proxy serves it as `v1alpha`, and newer tools ask for `v1`. The messages of both are equal, so those of `v1`
are used for both. The answers are public: they are the definitions in `wire/grpc/proto`.

Source: GRPC Server Reflection Protocol, ProtoReflectionService.
"""

import asyncio
from contextlib import aclosing, suppress

from regulus.errors import GrpcRefused
from regulus.proxy import small_requests
from regulus.transport.http2.grpc_call import Conversation, GrpcCall, Method
from regulus.wire.grpc import definitions
from regulus.wire.grpc.reflection_messages import ServerReflectionRequest, ServerReflectionResponse
from regulus.wire.http2.grpc_messages import GrpcStatus

STREAMS_MAX = 100
"""Open streams; the next one is refused."""
SILENT_S_MAX = 60.0
"""Time after which a stream ends that asks nothing or does not read its answer, to make room for others."""


class Reflection:
    """Serves reflection; `methods` has the methods by path."""

    def __init__(self) -> None:
        self._streams = 0
        self.methods: dict[str, Method] = {
            f"/{service}/ServerReflectionInfo": Conversation(self._serve) for service in definitions.REFLECTIONS}

    async def _serve(self, call: GrpcCall) -> None:
        if self._streams >= STREAMS_MAX:
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, f"{STREAMS_MAX} streams of reflection are under way")
        self._streams += 1
        try:
            await _answer_all(call)
        finally:
            self._streams -= 1


async def _answer_all(call: GrpcCall) -> None:
    async with aclosing(call.messages(small_requests.REQUEST_SIZE_MAX)) as asked:
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(SILENT_S_MAX):
                    if not await call.has_message():
                        return
                    request = small_requests.parsed(ServerReflectionRequest, await anext(asked))
                    await call.send(answer_to(request).SerializeToString())


def answer_to(request: ServerReflectionRequest) -> ServerReflectionResponse:
    """The answer to one request; NOT_FOUND in it for an unknown name or kind of request."""
    answer = ServerReflectionResponse(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    try:
        if kind == "list_services":
            for name in (definitions.SERVICE, definitions.HEALTH, *definitions.REFLECTIONS):
                answer.list_services_response.service.add().name = name
        elif kind == "file_by_filename":
            answer.file_descriptor_response.file_descriptor_proto.extend(
                definitions.file_named(request.file_by_filename))
        elif kind == "file_containing_symbol":
            answer.file_descriptor_response.file_descriptor_proto.extend(
                definitions.file_of(request.file_containing_symbol))
        elif kind == "all_extension_numbers_of_type" and definitions.is_message(request.all_extension_numbers_of_type):
            answer.all_extension_numbers_response.base_type_name = request.all_extension_numbers_of_type
        else:       # a request for an extension among others: the files define none
            _set_error(answer, GrpcStatus.NOT_FOUND, "this server defines nothing of that name")
    except KeyError:
        _set_error(answer, GrpcStatus.NOT_FOUND, "this server defines nothing of that name")
    return answer


def _set_error(answer: ServerReflectionResponse, code: GrpcStatus, text: str) -> None:
    answer.error_response.error_code, answer.error_response.error_message = int(code), text
