"""Whatever messages a log holds, the table's columns say what the record decoder says, in both forms of the code."""

from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.columns.test_records import records_of

from regulus.model.message import MessageExt
from regulus.model.message_id import host_text, offset_message_id
from regulus.record import message_columns, message_record
from regulus.spark.columns import properties as numpy_columns
from regulus.spark.columns import records as columns
from regulus.spark.table_schema import COLUMNS

HOST = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=12)
NAME = st.one_of(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "RETRY_TOPIC", "REAL_TOPIC", "TIMER_OUT_MS"]), TEXT)


@st.composite
def messages(draw: Any) -> MessageExt:
    return MessageExt(
        draw(st.sampled_from(["a", "b", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "t" * 200])), draw(st.binary(max_size=100)),
        draw(st.dictionaries(NAME, TEXT, max_size=5)), queue_id=draw(st.integers(0, 3)),
        flag=draw(st.integers(-(2**31), 2**31 - 1)), sys_flag=draw(st.sampled_from([0, 1, 8])),
        born_timestamp=draw(st.integers(0, 10**13)), store_timestamp=draw(st.integers(0, 10**13)),
        born_host=draw(HOST), store_host=draw(HOST))


@settings(max_examples=50)
@pytest.mark.parametrize("reader", [message_columns, numpy_columns])
@given(st.lists(messages(), min_size=1, max_size=6))
def test_columns_say_what_the_decoder_says(reader: Any, many: list[MessageExt]) -> None:
    records = records_of(many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_READER", reader)
        batch = columns.record_batch(records, columns.ColumnOptions(columns=tuple(COLUMNS), broker_name="b"))
    batch.validate(full=True)
    rows = batch.to_pylist()
    for row, position in zip(rows, records.positions.tolist(), strict=True):
        message = message_record.decode(records.data, position)
        assert {
            "topic": message.topic, "queue_id": message.queue_id, "queue_offset": message.queue_offset,
            "physical_offset": message.physical_offset, "store_size": message.store_size, "flag": message.flag,
            "sys_flag": message.sys_flag, "body": message.body, "body_crc": message.body_crc,
            "message_id": message.message_id or None, "keys": message.keys or None, "tags": message.tags or None,
            "properties": list(message.properties.items()), "born_host": host_text(message.born_host),
            "store_host": host_text(message.store_host),
            "offset_message_id": offset_message_id(message.store_host, message.physical_offset),
            "origin_topic": message.properties.get("RETRY_TOPIC", message.properties.get("REAL_TOPIC")),
        }.items() <= row.items()
        assert round(row["store_time"].timestamp() * 1000) == message.store_timestamp


NAMES = st.sampled_from([b"a", b"b", b"TAGS", b"KEYS", b"UNIQ_KEY", b"WAIT_1", b"12345678", b"1234567890abcdef",
                         b"1234567890abcdefg", b"1234567890abcdeff"])
ENTRIES = st.lists(st.tuples(NAMES, st.binary(max_size=3).filter(lambda text: b"\x02" not in text)), max_size=40)


@settings(max_examples=200)
@given(st.lists(ENTRIES, max_size=5), st.booleans())
def test_properties_are_listed_alike_in_both_forms(rows: list[list[tuple[bytes, bytes]]], lists: bool) -> None:
    texts = [b"\x02".join(name + b"\x01" + value for name, value in row) for row in rows]
    data = b"#" + b"".join(texts)
    ends = 1 + np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = ends - np.array([len(text) for text in texts], dtype=np.int64)
    names = (b"TAGS", b"a", b"12345678")
    results = []
    for reader in (message_columns, numpy_columns):
        room = reader.properties_max(starts.data, ends.data) if lists else 0
        counts, places = np.zeros(3, dtype=np.int64), np.zeros((3, 2, len(rows)), dtype=np.int64)
        offsets, entries = np.zeros(len(rows) + 1, dtype=np.int32), np.zeros((4, room), dtype=np.int64)
        total = reader.read_properties(data, starts.data, ends.data, names, counts.data, places.reshape(-1).data,
                                       offsets.data, entries.reshape(-1).data)
        located = [places[number].tolist() for number in range(3) if counts[number]]
        results.append((counts.tolist(), located, offsets.tolist(), entries[:, :total].tolist()))
    assert results[0] == results[1]
    for row, entries in enumerate(rows if lists else []):
        wanted = {name: value for name, value in entries if value}
        assert results[0][2][row + 1] - results[0][2][row] == len(wanted)


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(0, 20))
def test_pieces_of_any_size_are_gathered(sizes: list[int], before: int) -> None:
    data = bytes(range(before)) + bytes(index % 251 for index in range(sum(sizes)))
    ends = before + np.cumsum(sizes, dtype=np.int64)
    starts = ends - np.array(sizes, dtype=np.int64)
    order = np.argsort(np.array(sizes, dtype=np.int64), kind="stable")
    starts, ends = starts[order].copy(), ends[order].copy()
    offsets = array("i", bytes(4 * (len(sizes) + 1)))
    target = bytearray(message_columns.lay_out(starts.data, ends.data, memoryview(offsets)))
    message_columns.gather(data, starts.data, ends.data, memoryview(offsets), memoryview(target))
    assert bytes(target) == b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))
