"""The message classes of `apache.rocketmq.v2`, from a descriptor pool of our own.

The official Python client registers the same names in the pool of the process; here both live beside each other. The
classes are made at run time, so that nothing is known of their fields before: they are `Any` to the type checker.

Source: apache/rocketmq/v2/definition.proto, service.proto.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from regulus.wire.grpc.descriptors import FILE_DESCRIPTOR_SET

SERVICE = "apache.rocketmq.v2.MessagingService"


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


def method_types() -> dict[str, tuple[Any, Any]]:
    """The request and response class of each method of the service."""
    service = _POOL.FindServiceByName(SERVICE)
    return {method.name: (message_factory.GetMessageClass(method.input_type),
                          message_factory.GetMessageClass(method.output_type)) for method in service.methods}


def enum_values(name: str) -> dict[str, int]:
    """Name -> number of an enumeration, as the definitions have them."""
    return {value.name: value.number for value in _POOL.FindEnumTypeByName(f"apache.rocketmq.v2.{name}").values}
