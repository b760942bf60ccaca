"""The definitions are those of apache/rocketmq-apis and grpc-proto, in a pool of their own."""

import pytest
from google.protobuf.descriptor import Descriptor

from regulus.wire.grpc import definitions, messages, reflection_messages
from tests.grpc_descriptors import DEFINITIONS, compiled


def test_what_is_kept_is_compiled_from_the_definitions() -> None:
    assert DEFINITIONS.read_bytes() == compiled()


def test_the_process_wide_pool_stays_free_for_the_official_client() -> None:
    from google.protobuf import descriptor_pool

    messages.Message()
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")


def test_a_method_knows_its_path_and_its_messages() -> None:
    rpc = messages.MessagingService.ReceiveMessage
    assert (rpc.name, rpc.path) == ("ReceiveMessage", "/apache.rocketmq.v2.MessagingService/ReceiveMessage")
    assert rpc.request is messages.ReceiveMessageRequest
    assert rpc.response is messages.ReceiveMessageResponse


def test_what_is_not_defined_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"apache\.rocketmq\.v2 has no message and no service Nonsense"):
        definitions.named("apache.rocketmq.v2", "Nonsense")


def fields_of(message: Descriptor, package: str) -> dict[str, tuple[object, ...]]:
    """By name, with all that decides how they are written; of a message within it too."""
    return {field.name: (field.number, field.type, field.is_repeated, field.message_type and
                         field.message_type.full_name.removeprefix(package)) for field in message.fields}


def test_reflection_has_the_same_messages_in_both_versions() -> None:
    """The proxy serves either with those of `v1`."""
    names = reflection_messages.ServerReflectionRequest.DESCRIPTOR.file.message_types_by_name
    assert set(names) == set(definitions.named(
        "grpc.reflection.v1alpha", "ServerReflectionRequest").DESCRIPTOR.file.message_types_by_name)
    for name in names:
        newer, older = (fields_of(definitions.named(package, name).DESCRIPTOR, package)
                        for package in ("grpc.reflection.v1", "grpc.reflection.v1alpha"))
        assert newer == older, name
