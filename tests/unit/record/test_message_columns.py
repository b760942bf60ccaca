from array import array

import pytest

from regulus.errors import CorruptRecord, TruncatedRecord
from regulus.model.message_id import host_bytes
from regulus.record import message_columns, message_record
from regulus.record.message_columns import FIELDS
from tests.unit.record.test_message_record import known_message

MESSAGES = [
    known_message(),
    known_message(body=b"", properties={}),
    known_message(topic="t" * 200, body=b"x" * 300, born_host=host_bytes("2001:db8::1", 1), queue_id=2),
    known_message(store_host=host_bytes("2001:db8::2", 2), sys_flag=8, flag=-7, reconsume_times=3,
                  prepared_transaction_offset=99, properties={"a": "1", "城市": "北京", "TAGS": "T"}),
]
RECORDS = [message_record.encode(message) for message in MESSAGES]
DATA = b"##" + b"".join(RECORDS)
POSITIONS = array("q", [2 + sum(map(len, RECORDS[:number])) for number in range(len(RECORDS))])


def read(data: bytes, positions: array) -> dict[str, list[int]]:
    rows = len(positions)
    table = array("q", bytes(8 * rows * len(FIELDS)))
    message_columns.read_fields(data, memoryview(positions), memoryview(table))
    return {name: list(table[number * rows:(number + 1) * rows]) for number, name in enumerate(FIELDS)}


def test_records_one_behind_the_other_are_found():
    data = b"".join(RECORDS)
    positions = array("q", bytes(8 * (len(RECORDS) + 1)))
    assert message_columns.find_records(data, memoryview(positions)) == len(RECORDS)
    assert list(positions)[:len(RECORDS)] == [position - 2 for position in POSITIONS]
    assert message_columns.find_records(data, memoryview(positions)[:2]) == 2
    assert message_columns.find_records(b"", memoryview(positions)) == 0


@pytest.mark.parametrize("bad", [b"12345678901", RECORDS[0][:-1], b"1"])
def test_a_record_cut_short_is_not_found(bad):
    with pytest.raises((CorruptRecord, TruncatedRecord)) as caught:
        message_columns.find_records(RECORDS[0] + bad, memoryview(array("q", bytes(80))))
    assert caught.value.position == len(RECORDS[0])


def pieces(fields: dict[str, list[int]], name: str) -> list[bytes]:
    return [DATA[start:end] for start, end in zip(fields[f"{name}_start"], fields[f"{name}_end"], strict=True)]


def property_places(fields: dict[str, list[int]]) -> tuple[memoryview, memoryview]:
    return memoryview(array("q", fields["properties_start"])), memoryview(array("q", fields["properties_end"]))


def test_fixed_fields():
    fields = read(DATA, POSITIONS)
    for name in ("store_size", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag",
                 "born_timestamp", "store_timestamp", "reconsume_times", "prepared_transaction_offset"):
        assert fields[name] == [getattr(message, name) for message in MESSAGES], name


def test_places_of_variable_fields():
    fields = read(DATA, POSITIONS)
    assert pieces(fields, "body") == [message.body for message in MESSAGES]
    assert pieces(fields, "topic") == [message.topic.encode() for message in MESSAGES]
    assert fields["born_host_start"] == [position + 48 for position in POSITIONS]
    for start, message in zip(fields["store_host_start"], MESSAGES, strict=True):
        assert DATA[start:start + len(message.store_host)] == message.store_host


@pytest.mark.parametrize(("data", "error"), [
    (DATA[:-1], TruncatedRecord), (DATA[:-len(RECORDS[3])] + bytes(len(RECORDS[3])), CorruptRecord),
    (DATA[:-len(RECORDS[3])] + message_record.blank(len(RECORDS[3])), CorruptRecord),
])
def test_what_is_no_record_is_refused_with_its_place(data, error):
    with pytest.raises(error) as caught:
        read(data, POSITIONS)
    assert caught.value.position == POSITIONS[3]


def test_properties_are_located():
    starts, ends = property_places(read(DATA, POSITIONS))
    names = (b"TAGS", b"KEYS", "城市".encode(), b"TAG")
    places = array("q", bytes(8 * 2 * len(names) * len(POSITIONS)))
    message_columns.locate_properties(DATA, starts, ends, names, memoryview(places))
    rows = len(POSITIONS)
    found = {name: [None if places[2 * number * rows + row] < 0
                    else DATA[places[2 * number * rows + row]:places[(2 * number + 1) * rows + row]].decode()
                    for row in range(rows)] for number, name in enumerate(names)}
    assert found == {b"TAGS": ["TagA", None, "TagA", "T"], b"KEYS": ["k1", None, "k1", None],
                     "城市".encode(): [None, None, None, "北京"], b"TAG": [None] * 4}


def listed(text: bytes) -> list[tuple[bytes, bytes]]:
    starts, ends = memoryview(array("q", [0])), memoryview(array("q", [len(text)]))
    room = message_columns.properties_max(starts, ends)
    places = array("q", bytes(8 * 4 * room))
    offsets = array("i", [0, 0])
    total = message_columns.list_properties(text, starts, ends, memoryview(offsets), memoryview(places), room)
    assert list(offsets) == [0, total]
    return [(text[places[entry]:places[room + entry]], text[places[2 * room + entry]:places[3 * room + entry]])
            for entry in range(total)]


@pytest.mark.parametrize(("text", "entries"), [
    (b"", []),
    (b"a\x011\x02bb\x0122\x02", [(b"a", b"1"), (b"bb", b"22")]),
    (b"a\x011\x02b\x012\x02a\x013", [(b"a", b"3"), (b"b", b"2")]),
    (b"a\x01\x02\x012\x02junk\x02c\x013\x02", [(b"c", b"3")]),
])
def test_all_properties_are_listed(text, entries):
    assert listed(text) == entries


def test_gather_puts_pieces_together():
    target = bytearray(5)
    message_columns.gather(b"0123456789", memoryview(array("q", [8, -1, 0, 3])), memoryview(array("q", [10, -1, 0, 6])),
                           memoryview(array("i", [0, 2, 2, 2, 5])), memoryview(target))
    assert bytes(target) == b"89345"
