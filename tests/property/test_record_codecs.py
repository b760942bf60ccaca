"""Round trips and cuts of the stored formats."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.errors import RecordError
from regulus.model import message_properties
from regulus.model.java_hash import java_hash, tags_code
from regulus.model.message import MessageExt
from regulus.record import (
    consume_queue_unit,
    dispatch_request,
    index_entry,
    message_columns,
    message_record,
    store_checkpoint,
)

INT4 = st.integers(-(2**31), 2**31 - 1)
INT8 = st.integers(-(2**63), 2**63 - 1)
HOST = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
PROPERTIES = st.dictionaries(st.one_of(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY"]), TEXT), TEXT, max_size=8)
TOPIC = st.one_of(st.text("abc%_-", min_size=1, max_size=20), st.sampled_from(["t" * 127, "t" * 128, "t" * 255]))


@st.composite
def messages(draw: Any) -> MessageExt:
    return MessageExt(
        draw(TOPIC), draw(st.binary(max_size=300)), draw(PROPERTIES), queue_id=draw(INT4), flag=draw(INT4),
        sys_flag=draw(INT4), born_timestamp=draw(INT8), born_host=draw(HOST), store_host=draw(HOST),
        reconsume_times=draw(INT4), prepared_transaction_offset=draw(INT8), queue_offset=draw(INT8),
        physical_offset=draw(INT8), store_timestamp=draw(INT8))


def facts(message: MessageExt) -> dict[str, Any]:
    return {name: getattr(message, name) for name in (
        "topic", "body", "properties", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host", "store_host",
        "reconsume_times", "prepared_transaction_offset", "queue_offset", "physical_offset", "store_timestamp",
        "store_size", "body_crc")}


@given(messages())
def test_what_is_encoded_is_decoded(message: MessageExt) -> None:
    record = message_record.encode(message)
    assert len(record) == message_record.record_size(message)
    assert facts(message_record.decode(record)) == facts(message)


@given(messages())
def test_a_dispatch_request_says_what_the_message_says(message: MessageExt) -> None:
    record = message_record.encode(message)
    request = dispatch_request.request_at(record, 0, len(record), True)
    level = message.properties.get("DELAY", "")
    assert (request.size, request.topic, request.queue_id, request.queue_offset, request.physical_offset,
            request.store_timestamp, request.sys_flag, request.prepared_transaction_offset, request.keys,
            request.uniq_key, request.tags_code) == (
        len(record), message.topic, message.queue_id, message.queue_offset, message.physical_offset,
        message.store_timestamp, message.sys_flag, message.prepared_transaction_offset, message.keys,
        message.message_id, tags_code(message.tags))
    assert request.delay_level == (int(level) if level.isascii() and level.isdigit() and len(level) < 10 else 0)
    assert request.properties() == message.properties


@given(messages(), st.data())
def test_no_cut_record_is_taken_for_a_whole_one(message: MessageExt, data: st.DataObject) -> None:
    record = message_record.encode(message)
    size = data.draw(st.integers(0, len(record) - 1))
    with pytest.raises(RecordError):
        dispatch_request.request_at(record[:size], 0, size, True)


@given(messages(), st.data())
def test_a_changed_byte_never_does_more_than_raise(message: MessageExt, data: st.DataObject) -> None:
    """A damaged length must not lead outside the record, nor to any error but the one that recovery expects."""
    record = bytearray(message_record.encode(message))
    record[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        request = dispatch_request.request_at(bytes(record), 0, len(record), True)
    except RecordError:
        return
    assert request.size <= len(record) or request.is_blank


@given(st.lists(messages(), max_size=5))
def test_columns_say_what_single_records_say(many: list[MessageExt]) -> None:
    records = [message_record.encode(message) for message in many]
    whole = b"".join(records)
    positions = array("q", [sum(map(len, records[:number])) for number in range(len(records))])
    rows = len(many)
    table = array("q", bytes(8 * rows * len(message_columns.FIELDS)))
    message_columns.read_fields(whole, memoryview(positions), memoryview(table))
    fields = {name: table[number * rows:(number + 1) * rows] for number, name in enumerate(message_columns.FIELDS)}
    for name in ("queue_offset", "physical_offset", "sys_flag", "born_timestamp", "store_timestamp", "store_size"):
        assert list(fields[name]) == [getattr(message, name) for message in many]
    starts, ends = memoryview(fields["properties_start"]), memoryview(fields["properties_end"])
    room = message_columns.properties_max(starts, ends)
    entries, offsets = array("q", bytes(8 * 4 * room)), array("i", bytes(4 * (rows + 1)))
    counts, places = array("q", [0]), array("q", bytes(8 * 2 * rows))
    total = message_columns.read_properties(whole, starts, ends, (b"KEYS",), memoryview(counts), memoryview(places),
                                            memoryview(offsets), memoryview(entries))
    listed = [(whole[entries[entry]:entries[room + entry]].decode(),
               whole[entries[2 * room + entry]:entries[3 * room + entry]].decode()) for entry in range(total)]
    assert [dict(listed[offsets[row]:offsets[row + 1]]) for row in range(rows)] == [
        message.properties for message in many]
    keys = [message.properties.get("KEYS") for message in many]
    assert counts[0] == sum(text is not None for text in keys)
    if counts[0]:
        assert [whole[places[row]:places[rows + row]].decode() if places[row] >= 0 else None
                for row in range(rows)] == keys


@given(st.dictionaries(TEXT, TEXT))
def test_properties_survive_their_text(properties: dict[str, str]) -> None:
    text = message_properties.format(properties)
    assert message_properties.parse(text) == properties
    assert message_properties.parse(text.removesuffix("\x02")) == properties


@given(st.text())
def test_java_hash_is_that_of_the_utf16_units(text: str) -> None:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[position:position + 2], "big")) % 2**32
    assert java_hash(text) == value - (2**32 if value >= 2**31 else 0)


@given(st.tuples(INT8, INT4, INT8))
def test_consume_queue_units_survive(numbers: tuple[int, int, int]) -> None:
    unit = consume_queue_unit.ConsumeQueueUnit(*numbers)
    assert consume_queue_unit.decode(consume_queue_unit.encode(unit)) == unit


@given(st.tuples(INT4, INT8, INT4, INT4), st.tuples(INT8, INT8, INT8, INT8, INT4, st.integers(1, 2**31 - 1)))
def test_index_pieces_survive(entry: tuple[int, ...], header: tuple[int, ...]) -> None:
    assert index_entry.decode_entry(index_entry.encode_entry(index_entry.IndexEntry(*entry))) == entry
    assert index_entry.decode_header(index_entry.encode_header(index_entry.IndexHeader(*header))) == header


@given(st.tuples(INT8, INT8, INT8, INT8, INT8))
def test_checkpoints_survive(numbers: tuple[int, ...]) -> None:
    checkpoint = store_checkpoint.StoreCheckpoint(*numbers)
    assert store_checkpoint.decode(store_checkpoint.encode(checkpoint)) == checkpoint
