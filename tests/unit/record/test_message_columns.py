from array import array

import pytest

from regulus.errors import CorruptRecord, TruncatedRecord
from regulus.model.message_id import host_bytes, offset_message_id
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


def read_properties(texts: list[bytes], names: tuple[bytes, ...], *, lists: bool = True) -> tuple[
        dict[bytes, list[bytes | None]], list[list[tuple[bytes, bytes]]]]:
    """For each name that some text has, its values; for each text all that it has."""
    data = b"##" + b"".join(texts)
    starts = array("q", [2 + sum(map(len, texts[:row])) for row in range(len(texts))])
    ends = array("q", [start + len(text) for start, text in zip(starts, texts, strict=True)])
    rows = len(texts)
    room = message_columns.properties_max(memoryview(starts), memoryview(ends)) if lists else 0
    counts, places = array("q", bytes(8 * len(names))), array("q", bytes(16 * len(names) * rows))
    offsets, entries = array("i", bytes(4 * (rows + 1))), array("q", bytes(32 * room))
    total = message_columns.read_properties(data, memoryview(starts), memoryview(ends), names, memoryview(counts),
                                            memoryview(places), memoryview(offsets), memoryview(entries))
    located = {name: [None if places[2 * number * rows + row] < 0
                      else data[places[2 * number * rows + row]:places[(2 * number + 1) * rows + row]]
                      for row in range(rows)] for number, name in enumerate(names) if counts[number]}
    for number, name in enumerate(names):
        assert counts[number] == len([value for value in located.get(name, []) if value is not None])
    listed = [(data[entries[entry]:entries[room + entry]], data[entries[2 * room + entry]:entries[3 * room + entry]])
              for entry in range(total)]
    assert offsets[rows] == total
    return located, [listed[offsets[row]:offsets[row + 1]] for row in range(rows)]


def property_texts() -> list[bytes]:
    fields = read(DATA, POSITIONS)
    return pieces(fields, "properties")


def test_properties_are_located():
    names = (b"TAGS", b"KEYS", "城市".encode(), b"TAG")
    for lists in (True, False):
        located, _ = read_properties(property_texts(), names, lists=lists)
        assert located == {b"TAGS": [b"TagA", None, b"TagA", b"T"], b"KEYS": [b"k1", None, b"k1", None],
                           "城市".encode(): [None, None, None, "北京".encode()]}


def test_names_in_another_order_than_before_are_found():
    """A name is first looked for where a message before had it: at its turn, of its size."""
    texts = [b"aa\x011\x02bb\x012\x02cc\x013\x02", b"bb\x014\x02aa\x015\x02", b"aa\x016\x02cc\x017",
             b"aaa\x018\x02b\x019", b"aa\x02bb\x011\x02",
             b"aa", b"aa\x01", b"", b"aa\x01\x02bb\x013\x02aa\x014\x02", b"aa\x01\x011\x02"]
    located, listed = read_properties(texts, (b"aa", b"cc"))
    assert listed == [
        [(b"aa", b"1"), (b"bb", b"2"), (b"cc", b"3")], [(b"bb", b"4"), (b"aa", b"5")], [(b"aa", b"6"), (b"cc", b"7")],
        [(b"aaa", b"8"), (b"b", b"9")], [(b"bb", b"1")], [], [], [], [(b"bb", b"3"), (b"aa", b"4")],
        [(b"aa", b"\x011")]]
    assert located == {b"aa": [b"1", b"5", b"6", None, None, None, None, None, b"4", b"\x011"],
                       b"cc": [b"3", None, b"7", None, None, None, None, None, None, None]}


def test_more_properties_than_are_expected_to_come_again():
    text = b"".join(b"name%d\x01%d\x02" % (number, number) for number in range(64))
    _, listed = read_properties([text, text], ())
    assert listed[0] == listed[1] == [(b"name%d" % number, b"%d" % number) for number in range(64)]


@pytest.mark.parametrize(("text", "entries"), [
    (b"", []),
    (b"a\x011\x02bb\x0122\x02", [(b"a", b"1"), (b"bb", b"22")]),
    (b"a\x011\x02b\x012\x02a\x013", [(b"a", b"3"), (b"b", b"2")]),
    (b"a\x01\x02\x012\x02junk\x02c\x013\x02", [(b"c", b"3")]),
])
def test_all_properties_are_listed(text, entries):
    assert read_properties([text], ())[1] == [entries]


def test_pieces_are_laid_out_one_behind_the_other():
    offsets = array("i", [7] * 5)
    assert message_columns.lay_out(memoryview(array("q", [8, -1, 0, 3])), memoryview(array("q", [10, -1, 0, 6])),
                                   memoryview(offsets)) == 5
    assert list(offsets) == [0, 2, 2, 2, 5]


def test_gather_puts_pieces_together():
    target = bytearray(5)
    message_columns.gather(b"0123456789", memoryview(array("q", [8, -1, 0, 3])), memoryview(array("q", [10, -1, 0, 6])),
                           memoryview(array("i", [0, 2, 2, 2, 5])), memoryview(target))
    assert bytes(target) == b"89345"


def test_a_name_that_stands_twice_behind_all_that_are_expected_counts_once():
    many = [b"name%d" % number for number in range(33)]
    text = b"\x02".join(name + b"\x011" for name in [*many, many[-1]]) + b"2\x02"
    _, listed = read_properties([text, text], ())
    assert listed[0] == listed[1] == [*((name, b"1") for name in many[:-1]), (many[-1], b"12")]


def test_words():
    words = array("q", bytes(16))
    message_columns.read_words(b"#" + bytes(range(16)) + b"\xff" * 8, memoryview(array("q", [1, 17])),
                               memoryview(words))
    assert list(words) == [0x0001020304050607, -1]


@pytest.mark.parametrize(("host", "offset"), [
    ("127.0.0.1:10911", 0), ("255.255.255.255:65535", 2**63 - 1), ("10.9.171.205:9876", 0x0123456789ABCDEF)])
def test_offset_message_ids(host, offset):
    raw = host_bytes(*host.rsplit(":", 1)[:1], int(host.rsplit(":", 1)[1]))
    target = bytearray(64)
    hosts, offsets = array("q", [0, int.from_bytes(raw, "big", signed=True)]), array("q", [0, offset])
    message_columns.write_ids(memoryview(hosts), memoryview(offsets), memoryview(target))
    assert target == b"0" * 32 + offset_message_id(raw, offset).encode()
