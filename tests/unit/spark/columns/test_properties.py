import numpy as np
import pytest

from regulus.errors import CorruptRecord
from regulus.record import message_columns, message_record
from regulus.record.message_columns import FIELDS
from regulus.spark.columns import properties as numpy_columns
from tests.unit.spark.conftest import order

GOOD = message_record.encode(order(0))


def with_byte(position: int, value: int) -> bytes:
    return GOOD[:position] + bytes((value,)) + GOOD[position + 1:]


@pytest.mark.parametrize("bad", [
    bytes(len(GOOD)), GOOD[:-1], GOOD[:80], with_byte(0, 1), with_byte(3, 90), with_byte(36 + 3, 0x30),
    with_byte(84, 0x80), with_byte(86, 1), with_byte(88 + 6, 0xFF), with_byte(3, len(GOOD) - 1),
    message_record.blank(len(GOOD)) + bytes(len(GOOD) - 8),
])
def test_what_is_no_record_is_refused_with_its_place(bad):
    table = np.empty(2 * len(FIELDS), dtype=np.int64)
    with pytest.raises(CorruptRecord) as caught:
        numpy_columns.read_fields(GOOD + bad, np.array([0, len(GOOD)], dtype=np.int64).data, table.data)
    assert caught.value.position == len(GOOD)


def test_records_are_found_as_the_record_room_finds_them():
    found = []
    for reader in (numpy_columns, message_columns):
        positions = np.zeros(4, dtype=np.int64)
        found.append((reader.find_records(3 * GOOD, positions.data), positions.tolist()))
    assert found[0] == found[1] == (3, [0, len(GOOD), 2 * len(GOOD), 0])


@pytest.mark.parametrize("pieces", [
    [], [(8, 10), (-1, -1), (0, 0), (3, 6)], [(0, 3), (-1, -1), (3, 6), (8, 10)], [(-1, -1), (2, 4)], [(5, 7), (1, 2)],
])
def test_gather_puts_pieces_together(pieces):
    data = b"0123456789"
    starts, ends = (np.array([piece[side] for piece in pieces], dtype=np.int64) for side in (0, 1))
    offsets = np.zeros(len(pieces) + 1, dtype=np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    target = np.empty(int(offsets[-1]), dtype=np.uint8)
    numpy_columns.gather(data, starts.data, ends.data, offsets.data, target.data)
    assert target.tobytes() == b"".join(data[start:end] for start, end in pieces if start >= 0)


@pytest.mark.parametrize("texts", [
    [], [b""], [b"a\x011\x02bb\x0122\x02"], [b"a\x011\x02b\x012\x02a\x013"],
    [b"a\x01\x02\x012\x02junk\x02c\x013\x02", b"a\x011\x02c\x012", b"c\x011\x02a\x012"], [b"\x02\x02", b"c\x019"],
])
@pytest.mark.parametrize("names", [(b"a", b"c"), ()])
@pytest.mark.parametrize("lists", [True, False])
def test_properties_are_found_as_the_record_room_finds_them(texts, names, lists):
    rows, data = len(texts), b"##" + b"".join(texts)
    ends = 2 + np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = ends - np.array([len(text) for text in texts], dtype=np.int64)
    results = []
    for reader in (numpy_columns, message_columns):
        room = reader.properties_max(starts.data, ends.data) if lists else 0
        counts, places = np.full(len(names), 9, dtype=np.int64), np.zeros((len(names), 2, rows), dtype=np.int64)
        offsets, entries = np.zeros(rows + 1, dtype=np.int32), np.zeros((4, room), dtype=np.int64)
        total = reader.read_properties(data, starts.data, ends.data, names, counts.data, places.reshape(-1).data,
                                       offsets.data, entries.reshape(-1).data)
        located = [places[number].tolist() for number in range(len(names)) if counts[number]]
        results.append((room, total, counts.tolist(), located, offsets.tolist(), entries[:, :total].tolist()))
    assert results[0] == results[1]


def test_pieces_are_laid_out_as_the_record_room_does():
    starts, ends = np.array([8, -1, 0, 3], dtype=np.int64), np.array([10, -1, 0, 6], dtype=np.int64)
    for reader in (numpy_columns, message_columns):
        offsets = np.empty(5, dtype=np.int32)
        assert reader.lay_out(starts.data, ends.data, offsets.data) == 5
        assert offsets.tolist() == [0, 2, 2, 2, 5]


def test_words_and_ids_are_those_of_the_record_room():
    data = bytes(range(256))
    starts, offsets = np.array([0, 3, 248], dtype=np.int64), np.array([0, 2**40 + 7, 2**63 - 1], dtype=np.int64)
    results = []
    for reader in (numpy_columns, message_columns):
        words, target = np.zeros(3, dtype=np.int64), np.zeros(96, dtype=np.uint8)
        reader.read_words(data, starts.data, words.data)
        reader.write_ids(words.data, offsets.data, target.data)
        results.append((words.tolist(), target.tobytes()))
    assert results[0] == results[1]
    assert results[0][1].startswith(b"0001020304050607" + b"0" * 16 + b"030405060708090A0000010000000007")
