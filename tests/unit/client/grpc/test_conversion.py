"""Messages as they travel by gRPC, there and back."""

import hashlib
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regulus.client.connecting.client_instance import now_ms
from regulus.client.grpc import conversion
from regulus.errors import MessageIllegal
from regulus.model.message import Message
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import DigestType, Encoding, MessageType
from regulus.wire.grpc.times import get_ms


def sent(message: Message) -> Any:
    message.properties["UNIQ_KEY"] = "01AB"
    return conversion.to_grpc(message, "10.0.0.1")


def test_what_a_message_says_of_itself_has_its_own_fields() -> None:
    made = sent(Message("orders", b"tea", "hot", ["k1", "k2"], {"color": "red"}))
    system = made.system_properties
    assert (made.topic.name, made.body, dict(made.user_properties)) == ("orders", b"tea", {"color": "red"})
    assert (system.tag, list(system.keys), system.message_id) == ("hot", ["k1", "k2"], "01AB")
    assert (system.message_type, system.body_encoding) == (MessageType.NORMAL, Encoding.IDENTITY)
    assert abs(get_ms(system.born_timestamp) - now_ms()) < 5_000
    assert system.born_host == "10.0.0.1"


@pytest.mark.parametrize(("properties", "kind"), [
    ({"__SHARDINGKEY": "table"}, MessageType.FIFO), ({"TIMER_DELAY_MS": "10"}, MessageType.DELAY),
    ({"TRAN_MSG": "true"}, MessageType.TRANSACTION), ({}, MessageType.NORMAL),
    ({"_SYS_MSG_PRIORITY_": "0"}, MessageType.PRIORITY)])
def test_its_kind_follows_from_what_it_asks_for(properties: dict[str, str], kind: MessageType) -> None:
    made = sent(Message("orders", b"tea", properties=properties))
    assert made.system_properties.message_type == kind
    assert not made.user_properties


def test_a_priority_goes_in_a_field_of_its_own_and_comes_back() -> None:
    for number in (0, 9):
        made = sent(Message("orders", b"tea", priority=number))
        assert (made.system_properties.HasField("priority"), made.system_properties.priority) == (True, number)
        assert conversion.message_of(made)[0].priority == number
    made = sent(Message("orders", b"tea"))
    assert not made.system_properties.HasField("priority")
    assert conversion.message_of(made)[0].priority is None


def test_its_time_of_delivery_is_that_which_brokers_would_go_by() -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    assert abs(get_ms(sent(Message("a", b"b", deliver_at=at)).system_properties.delivery_timestamp)
               - at.timestamp() * 1000) <= 1
    for properties, delay in (({"TIMER_DELAY_MS": "90000"}, 90_000), ({"TIMER_DELAY_SEC": "90"}, 90_000),
                              ({"TIMER_DELAY_SEC": "90", "TIMER_DELAY_MS": "1"}, 90_000)):
        told = sent(Message("a", b"b", properties=properties)).system_properties.delivery_timestamp
        assert abs(get_ms(told) - now_ms() - delay) < 5_000


@pytest.mark.parametrize("message", [Message("a", b"b", flag=1), Message("a", b"b", properties={"DELAY": "3"})])
def test_what_it_has_no_room_for_is_refused(message: Message) -> None:
    with pytest.raises(MessageIllegal, match="grpc://"):
        sent(message)


def told(body: bytes = b"tea", **system: Any) -> Any:
    made = messages.Message(body=body)
    made.topic.name = "orders"
    for name, value in system.items():
        setattr(made.system_properties, name, value)
    return made


def test_a_message_comes_back_as_it_went() -> None:
    made = sent(Message("orders", b"tea", "hot", ["k1", "k2"], {"color": "red", "__SHARDINGKEY": "table"}))
    made.system_properties.delivery_attempt = 3
    made.system_properties.queue_id, made.system_properties.queue_offset = 2, 7
    made.system_properties.store_host = "10.0.0.2:10911"
    made.system_properties.receipt_handle = "handle"
    message = conversion.received(made, "orders", "broker-a", 5)
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"tea", "hot", "k1 k2")
    assert (message.message_id, message.properties["color"], message.properties["__SHARDINGKEY"]) == (
        "01AB", "red", "table")
    assert (message.queue_id, message.queue_offset, message.delivery_attempt) == (2, 7, 3)
    assert (message.receipt_handle, message.broker_name, message.unreadable) == ("handle", "broker-a", "")
    assert message.store_host == bytes((10, 0, 0, 2, 0, 0, 0x2A, 0x9F))


@pytest.mark.parametrize(("kind", "checksum"), [
    (DigestType.CRC32, f"{zlib.crc32(b'tea'):X}"), (DigestType.CRC32, f"{zlib.crc32(b'tea'):010x}"),
    (DigestType.MD5, hashlib.md5(b"tea").hexdigest()), (DigestType.SHA1, hashlib.sha1(b"tea").hexdigest())])
def test_a_body_is_compared_with_its_checksum(kind: DigestType, checksum: str) -> None:
    made = told()
    made.system_properties.body_digest.type, made.system_properties.body_digest.checksum = int(kind), checksum
    assert conversion.message_of(made)[1] == ""
    made.body = b"tee"
    assert "damaged" in conversion.message_of(made)[1]


def test_a_packed_body_is_unpacked_and_a_torn_one_said_to_be_so() -> None:
    packing = zlib.compressobj(wbits=31)
    gzip = packing.compress(b"tea") + packing.flush()
    for packed in (gzip, zlib.compress(b"tea")):
        message, unreadable = conversion.message_of(told(packed, body_encoding=int(Encoding.GZIP)))
        assert (message.body, unreadable) == (b"tea", "")
        message, unreadable = conversion.message_of(told(packed[:-3], body_encoding=int(Encoding.GZIP)))
        assert message.body == packed[:-3]
        assert "unpacked" in unreadable


def test_a_host_that_is_none_is_left_unsaid() -> None:
    for host in ("", "name:1", "1.2.3.4:x", "1.2.3.4:99999999999999", ":::::"):
        made = told(store_host=host)
        assert len(conversion.message_of(made)[0].store_host) in (8, 20)
