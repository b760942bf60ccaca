"""Requests of gRPC's own services, which anybody may send: they are small, or no request of theirs."""

from typing import TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from regulus.errors import GrpcRefused
from regulus.transport.http2.grpc_call import GrpcCall
from regulus.wire.http2.grpc_messages import GrpcStatus, Message

REQUEST_SIZE_MAX = 4_096
"""Bytes, also of what one becomes that is compressed: nobody has signed."""

_Request = TypeVar("_Request", bound=ProtobufMessage)


async def read(request_type: type[_Request], packed: Message, call: GrpcCall) -> _Request:
    """Raises GrpcRefused."""
    return parsed(request_type, await call.unpacked(packed, REQUEST_SIZE_MAX))


def parsed(request_type: type[_Request], data: bytes) -> _Request:
    """Raises GrpcRefused."""
    if len(data) > REQUEST_SIZE_MAX:
        raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                          f"the request has {len(data)} bytes; {REQUEST_SIZE_MAX} are the most")
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT, "the request is no message of its kind") from error
