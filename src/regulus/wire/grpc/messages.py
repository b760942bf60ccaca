"""The message classes of `apache.rocketmq.v2`, and of gRPC's own services, from a descriptor pool of our own.

The official Python client registers the same names in the pool of the process; here both live beside each other. The
classes are made at run time, so that nothing is known of their fields before: they are `Any` to the type checker.

Source: apache/rocketmq/v2/definition.proto, service.proto; grpc/health/v1/health.proto,
grpc/reflection/v1/reflection.proto, grpc/reflection/v1alpha/reflection.proto.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from regulus.wire.grpc.descriptors import FILE_DESCRIPTOR_SET

SERVICE = "apache.rocketmq.v2.MessagingService"
HEALTH = "grpc.health.v1.Health"
REFLECTIONS = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(bytes.fromhex(FILE_DESCRIPTOR_SET)).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


def __getattr__(name: str) -> Any:
    """The class of a message. Raises AttributeError for what the definitions do not have."""
    try:
        made = _message(f"apache.rocketmq.v2.{name}")
    except KeyError:
        raise AttributeError(f"apache.rocketmq.v2 has no message {name}") from None
    globals()[name] = made
    return made


def method_types(service_name: str = SERVICE) -> dict[str, tuple[Any, Any]]:
    """The request and response class of each method of a service."""
    service = _POOL.FindServiceByName(service_name)
    return {method.name: (message_factory.GetMessageClass(method.input_type),
                          message_factory.GetMessageClass(method.output_type)) for method in service.methods}


def enum_values(name: str) -> dict[str, int]:
    """Name -> number of an enumeration, as the definitions have them."""
    return {value.name: value.number for value in _POOL.FindEnumTypeByName(f"apache.rocketmq.v2.{name}").values}


def file_of(symbol: str) -> list[bytes]:
    """The file that defines a message, enumeration, service, method or field, and all that it imports, as descriptors.
    Raises KeyError."""
    try:
        return _with_imports(_POOL.FindFileContainingSymbol(symbol))
    except KeyError:        # the pool knows no method so, nor a field
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
    """The same of a file by its name. Raises KeyError."""
    return _with_imports(_POOL.FindFileByName(name))


def is_message(full_name: str) -> bool:
    try:
        _POOL.FindMessageTypeByName(full_name)
    except KeyError:
        return False
    return True


def _with_imports(file: Any) -> list[bytes]:
    """Each once, the file first."""
    found = {file.name: file}
    waiting = [file]
    while waiting:
        for each in waiting.pop().dependencies:
            if found.setdefault(each.name, each) is each:
                waiting.append(each)
    return [each.serialized_pb for each in found.values()]
