"""The compiled definitions of all gRPC messages and services, in a descriptor pool of their own.

The official Python client registers the same names in protobuf's default pool. With a separate pool, both can be loaded
into one process. `definitions.binpb` is a FileDescriptorSet of the files in `proto` and all that they import.

Source: apache/rocketmq/v2/definition.proto, service.proto; grpc/health/v1/health.proto,
grpc/reflection/v1/reflection.proto, grpc/reflection/v1alpha/reflection.proto.
"""

import pkgutil
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

FILE = "definitions.binpb"
SERVICE = "apache.rocketmq.v2.MessagingService"
HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True, eq=False)
class Rpc(Generic[Request, Response]):
    """One method of a service: its path, and the types of its request and its response. There is one object a method,
    compared by identity, so that it is a cheap key."""

    name: str
    path: str
    request: type[Request]
    response: type[Response]


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    data = pkgutil.get_data(__package__, FILE)
    assert data is not None, f"the package's loader reads no files such as {FILE}"
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _pool()


def named(package: str, name: str) -> type:
    """The class of a message, or a class with an `Rpc` for each method of a service. Raises AttributeError for a name
    that the package does not define."""
    full_name = f"{package}.{name}"
    if is_message(full_name):
        return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(full_name))
    try:
        return type(name, (), _rpcs(full_name))
    except KeyError:
        raise AttributeError(f"{package} has no message and no service {name}") from None


def _rpcs(service: str) -> dict[str, Rpc[Message, Message]]:
    """The methods of a service by name. Raises KeyError for an unknown service."""
    return {method.name: Rpc(method.name, f"/{service}/{method.name}",
                             message_factory.GetMessageClass(method.input_type),
                             message_factory.GetMessageClass(method.output_type))
            for method in _POOL.FindServiceByName(service).methods}


def enum_values(full_name: str) -> dict[str, int]:
    """The numbers of an enumeration by name. Raises KeyError for an unknown enumeration."""
    return {value.name: value.number for value in _POOL.FindEnumTypeByName(full_name).values}


def file_of(symbol: str) -> list[bytes]:
    """The serialized descriptors of the file that defines a symbol, and of all files that it imports.

    The symbol is the full name of a message, enumeration, service, method or field. Raises KeyError for an unknown
    one."""
    try:
        return _with_imports(_POOL.FindFileContainingSymbol(symbol))
    except KeyError:        # the pool does not find methods and fields by name
        owner, _, name = symbol.rpartition(".")
    if is_message(owner):
        message = _POOL.FindMessageTypeByName(owner)
        members, file = list(message.fields_by_name), message.file
    else:
        service = _POOL.FindServiceByName(owner)
        members, file = list(service.methods_by_name), service.file
    if name not in members:
        raise KeyError(symbol)
    return _with_imports(file)


def file_named(name: str) -> list[bytes]:
    """The serialized descriptors of a file and of all files that it imports. Raises KeyError for an unknown name."""
    return _with_imports(_POOL.FindFileByName(name))


def is_message(full_name: str) -> bool:
    try:
        _POOL.FindMessageTypeByName(full_name)
    except KeyError:
        return False
    return True


def _with_imports(file: FileDescriptor) -> list[bytes]:
    """Descriptors of a file and its imports: the file first, and each only once."""
    found = {file.name: file}
    waiting = [file]
    while waiting:
        for each in waiting.pop().dependencies:
            if found.setdefault(each.name, each) is each:
                waiting.append(each)
    return [each.serialized_pb for each in found.values()]
