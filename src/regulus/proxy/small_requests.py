"""Reads requests of gRPC's own services. Their calls need no signature, so only small requests are accepted."""

from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from regulus.errors import GrpcRefused
from regulus.transport.http2.grpc_call import GrpcCall
from regulus.wire.http2.grpc_messages import GrpcStatus, Message

REQUEST_SIZE_MAX = 4_096
"""Bytes of a request, decompressed if it is compressed."""

_Request = TypeVar("_Request", bound=ProtobufMessage)


async def read(request_type: type[_Request], packed: Message, call: GrpcCall) -> _Request:
    """Decompress a request if need be, and parse it. Raises GrpcRefused."""
    return parsed(request_type, await call.unpacked(packed, REQUEST_SIZE_MAX))


def parsed(request_type: type[_Request], data: bytes) -> _Request:
    """Parse a request. Raises GrpcRefused RESOURCE_EXHAUSTED for a request that is too large, INVALID_ARGUMENT for a
    malformed one."""
    if len(data) > REQUEST_SIZE_MAX:
        raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                          f"the request has {len(data)} bytes; {REQUEST_SIZE_MAX} are the most")
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT,
                          "the request is not a valid protobuf message of its type") from error
