"""The messages are those of apache/rocketmq-apis, in a pool of their own."""

import pytest

from regulus.wire.grpc import codes, messages
from regulus.wire.grpc.descriptors import FILE_DESCRIPTOR_SET
from tests.grpc_descriptors import compiled


def test_the_numbers_written_here_are_those_of_the_definitions() -> None:
    for kind in ("Code", "MessageType", "Permission", "FilterType", "ClientType", "AddressScheme", "Encoding",
                 "DigestType", "Language", "TransactionResolution", "TransactionSource"):
        numbers = messages.enum_values(kind)
        for each in getattr(codes, kind):
            assert numbers[each.name] == each.value, (kind, each)


def test_the_service_has_seventeen_methods() -> None:
    request, response = messages.method_types()["ReceiveMessage"]
    assert request is messages.ReceiveMessageRequest
    assert response is messages.ReceiveMessageResponse
    assert len(messages.method_types()) == 17


def test_a_message_travels_as_the_official_clients_write_it() -> None:
    """The bytes are those of protobuf's wire format: field 1 (topic) with its field 2 (name), then field 4 (body)."""
    message = messages.Message(topic=messages.Resource(name="Orders"), body=b"x")
    assert message.SerializeToString() == b"\x0a\x08\x12\x06Orders\x22\x01x"


def test_the_process_wide_pool_stays_free_for_the_official_client() -> None:
    from google.protobuf import descriptor_pool

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")


def test_there_are_no_other_messages() -> None:
    with pytest.raises(AttributeError, match="no message Nonsense"):
        messages.Nonsense      # noqa: B018


def test_the_descriptors_are_compiled_from_the_definitions() -> None:
    assert bytes.fromhex(FILE_DESCRIPTOR_SET) == compiled()
