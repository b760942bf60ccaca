import pytest

from regulus.errors import CorruptRecord, MessageIllegal, TruncatedRecord
from regulus.model.message import MessageExt, StraightMessage
from regulus.model.message_id import host_bytes
from regulus.model.sys_flag import BORN_HOST_V6
from regulus.record import big_endian, layout, message_record
from regulus.record.dispatch_request import request_at

KNOWN_RECORD = bytes.fromhex("""
    00 00 00 78 da a3 20 a7 36 10 a6 86 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00 00
    00 00 03 e8 00 00 00 00 00 00 01 8b cf e5 68 00 0a 01 02 03 00 00 04 d2 00 00 01 8b cf e5 68 7b
    0a 09 08 07 00 00 2a 9f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 68 65 6c 6c 6f 06 54 6f
    70 69 63 41 00 12 54 41 47 53 01 54 61 67 41 02 4b 45 59 53 01 6b 31 02""")


def known_message(**changes) -> MessageExt:
    fields = {
        "topic": "TopicA", "body": b"hello", "properties": {"TAGS": "TagA", "KEYS": "k1"}, "queue_id": 1,
        "queue_offset": 5, "physical_offset": 1000, "born_timestamp": 1700000000000,
        "born_host": host_bytes("10.1.2.3", 1234), "store_timestamp": 1700000000123,
        "store_host": host_bytes("10.9.8.7", 10911),
    }
    return MessageExt(**{**fields, **changes})


def known_straight_message() -> StraightMessage:
    """The same as bytes that were read, among others, with a unique key beside."""
    message = StraightMessage()
    for name in ("topic", "queue_id", "queue_offset", "physical_offset", "born_timestamp", "born_host",
                 "store_timestamp", "store_host"):
        setattr(message, name, getattr(known_message(), name))
    message.topic_text = b"TopicA"
    message.take_data(b"<<hello>>")
    message.body_start, message.body_end = 2, 7
    text = b"TAGS\x01TagA\x02KEYS\x01k1\x02UNIQ_KEY\x01C0\x02"
    message.text[:len(text)] = text
    message.text_size = len(text)
    message.tags_start, message.tags_end = 5, 9
    message.keys_start, message.keys_end = 15, 17
    message.unique_key_start, message.unique_key_end = 27, 29
    return message


def facts(message: MessageExt) -> tuple:
    return (message.topic, message.body, message.properties, message.queue_id, message.flag, message.sys_flag,
            message.born_timestamp, message.born_host, message.store_host, message.reconsume_times,
            message.prepared_transaction_offset, message.queue_offset, message.physical_offset,
            message.store_timestamp, message.store_size, message.body_crc)


def with_number(record: bytes, position: int, number: int, size: int = 4) -> bytes:
    return record[:position] + number.to_bytes(size, "big", signed=True) + record[position + size:]


def test_encode_known_bytes():
    message = known_message()
    assert message_record.encode(message) == KNOWN_RECORD
    assert (message.store_size, message.body_crc) == (120, 0x3610A686)
    assert message_record.record_size(message) == 120


def test_encode_into_writes_at_the_position_only():
    buffer = bytearray(b"." * 130)
    assert message_record.encode_into(memoryview(buffer), 4, known_message()) == 120
    assert bytes(buffer) == b"...." + KNOWN_RECORD + b"......"


def test_encode_into_writes_nothing_without_room():
    buffer = bytearray(b"." * 130)
    assert message_record.encode_into(buffer, 0, known_message(), 119) == 120
    assert bytes(buffer) == b"." * 130
    assert message_record.encode_into(buffer, 0, known_message(), 120) == 120
    assert bytes(buffer[:120]) == KNOWN_RECORD


@pytest.mark.parametrize("container", [bytes, bytearray, memoryview])
def test_decode_known_bytes(container):
    message = message_record.decode(container(b"12345" + KNOWN_RECORD), 5)
    expected = known_message(store_size=120, body_crc=0x3610A686)
    assert facts(message) == facts(expected)


def test_decode_without_body():
    assert message_record.decode(KNOWN_RECORD, read_body=False).body == b""


@pytest.mark.parametrize(("born", "store", "flag"), [
    ("10.1.2.3", "10.9.8.7", 0), ("2001:db8::1", "10.9.8.7", 0x10), ("10.1.2.3", "2001:db8::2", 0x20),
    ("2001:db8::1", "2001:db8::2", 0x30),
])
def test_each_host_may_be_ipv6(born, store, flag):
    message = known_message(born_host=host_bytes(born, 1), store_host=host_bytes(store, 2))
    record = message_record.encode(message)
    assert len(record) == 120 + 12 * flag.bit_count()
    twin = message_record.decode(record)
    assert twin.sys_flag == flag
    assert facts(twin) == facts(message)


def test_a_stale_host_bit_is_cleared():
    assert message_record.decode(message_record.encode(known_message(sys_flag=0x38))).sys_flag == 0x08


@pytest.mark.parametrize(("size", "magic", "fixed"), [
    (127, layout.MAGIC_V1, 91), (128, layout.MAGIC_V2, 92), (255, layout.MAGIC_V2, 92),
])
def test_a_long_topic_takes_version_2(size, magic, fixed):
    message = known_message(topic="t" * size, properties={}, body=b"")
    record = message_record.encode(message)
    assert len(record) == fixed + size
    assert int.from_bytes(record[4:8], "big", signed=True) == magic
    assert facts(message_record.decode(record)) == facts(message)
    assert request_at(record, 0, len(record), True).topic == "t" * size


@pytest.mark.parametrize("changes", [{"topic": "t" * 256}, {"properties": {"k": "v" * 32766}}])
def test_what_the_format_cannot_hold_is_refused(changes):
    with pytest.raises(MessageIllegal, match="more than"):
        message_record.encode(known_message(**changes))


def test_half_of_a_surrogate_pair_becomes_a_question_mark():
    message = known_message(properties={"k": "\ud800"})
    assert message_record.decode(message_record.encode(message)).properties == {"k": "?"}


def test_bytes_that_are_no_utf8_are_replaced():
    record = KNOWN_RECORD.replace(b"TagA", b"T\xffgA")
    assert message_record.decode(record).tags == "T\ufffdgA"


def test_decode_all():
    messages = message_record.decode_all(KNOWN_RECORD * 3)
    assert [message.topic for message in messages] == ["TopicA"] * 3
    assert message_record.decode_all(b"") == []
    with pytest.raises(TruncatedRecord) as caught:
        message_record.decode_all(KNOWN_RECORD + KNOWN_RECORD[:-1])
    assert caught.value.position == 120


def test_a_blank_leads_to_the_next_file():
    blank = message_record.blank(100)
    assert blank == bytes.fromhex("00000064 cbd43194")
    request = request_at(blank + bytes(92), 0, 100, True)
    assert (request.is_blank, request.size, request.topic) == (True, 100, "")
    with pytest.raises(CorruptRecord, match="blank"):
        message_record.decode(blank)


@pytest.mark.parametrize("record", [
    bytes(120),
    with_number(KNOWN_RECORD, 0, 90),
    with_number(KNOWN_RECORD, 0, -1),
    with_number(KNOWN_RECORD, 4, 0x1234),
    with_number(KNOWN_RECORD, 84, -1),
    with_number(KNOWN_RECORD, 84, 2**31 - 1),
    with_number(KNOWN_RECORD, 84, 29),
    with_number(KNOWN_RECORD, 36, 0x30),
    with_number(KNOWN_RECORD, 93, 127, 1),
    with_number(KNOWN_RECORD, 100, 17, 2),
    with_number(KNOWN_RECORD, 100, 19, 2),
    with_number(KNOWN_RECORD, 100, -1, 2),
    with_number(KNOWN_RECORD, 0, 119),
    message_record.blank(7),
])
def test_what_is_no_record_is_corrupt(record):
    with pytest.raises(CorruptRecord):
        request_at(record, 0, len(record), False)
    with pytest.raises(CorruptRecord):
        message_record.decode(record)


@pytest.mark.parametrize("message", [known_straight_message(), known_message(properties={"KEYS": "\u00e4"})])
def test_nothing_is_written_behind_the_end_of_a_buffer(message):
    """Compiled, bytes are copied without a look at each bound."""
    size = message_record.encode_into(bytearray(1000), 0, message)
    whole = memoryview(bytearray(size + 8))
    with pytest.raises((IndexError, ValueError)):
        message_record.encode_into(whole[:size - 1], 0, message)
    assert bytes(whole[size - 1:]) == bytes(9)


def test_a_straight_message_becomes_the_same_record():
    same = known_message(properties={"TAGS": "TagA", "KEYS": "k1", "UNIQ_KEY": "C0"})
    message = known_straight_message()
    assert message_record.encode(message) == message_record.encode(same)
    assert (message.store_size, message.body_crc) == (same.store_size, same.body_crc)
    assert message_record.record_size(message) == same.store_size
    assert message_record.body_size(message) == message_record.body_size(same) == 5


def test_a_straight_message_without_room_is_not_written():
    buffer = bytearray(b"." * 200)
    size = message_record.record_size(known_straight_message())
    assert message_record.encode_into(buffer, 0, known_straight_message(), size - 1) == size
    assert bytes(buffer) == b"." * 200


def test_each_field_is_written_where_the_layout_says():
    message = known_message(queue_id=2, flag=3, queue_offset=4, physical_offset=5, born_timestamp=6,
                            born_host=host_bytes("::1", 7), store_timestamp=8, store_host=host_bytes("10.1.2.3", 9),
                            reconsume_times=10, prepared_transaction_offset=11, body=b"twelve bytes")
    record = message_record.encode(message)
    assert [big_endian.int4(record, place) for place in (
        layout.TOTAL_SIZE, layout.MAGIC, layout.BODY_CRC, layout.QUEUE_ID, layout.FLAG, layout.SYS_FLAG,
    )] == [len(record), layout.MAGIC_V1, message.body_crc, 2, 3, BORN_HOST_V6]
    assert [big_endian.int8(record, place) for place in (
        layout.QUEUE_OFFSET, layout.PHYSICAL_OFFSET, layout.BORN_TIMESTAMP)] == [4, 5, 6]
    born_end = layout.BORN_HOST + layout.HOST_V6_SIZE
    store_end = born_end + layout.STORE_HOST + layout.HOST_V4_SIZE
    assert record[layout.BORN_HOST:born_end] == message.born_host
    assert big_endian.int8(record, born_end + layout.STORE_TIMESTAMP) == 8
    assert record[born_end + layout.STORE_HOST:store_end] == message.store_host
    assert big_endian.int4(record, store_end + layout.RECONSUME_TIMES) == 10
    assert big_endian.int8(record, store_end + layout.PREPARED_TRANSACTION_OFFSET) == 11
    assert big_endian.int4(record, store_end + layout.BODY_LENGTH) == len(message.body)
    assert record[store_end + layout.BODY:].startswith(message.body)
