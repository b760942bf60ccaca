import numpy as np
import pyarrow as pa
import pytest

from regulus.errors import RowRefused
from regulus.spark.sink.rows import Records, rows_of
from regulus.wire import message_batch
from regulus.wire.message_batch import BatchedMessage

PREFIX = "7F000001" + "0" * 20
MAP = pa.map_(pa.string(), pa.string())


def sent(batch: pa.RecordBatch, first_row: int = 0) -> list[BatchedMessage]:
    """What a broker reads of all rows, sent as one batch, without the property strings."""
    records = Records(rows_of(batch, first_row, PREFIX, "task 3"))
    messages = message_batch.decode(bytes(records.request(0, batch.num_rows)))
    return [message._replace(properties_text=b"") for message in messages]


def batch(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_become_the_messages_of_a_batch_request():
    messages = sent(batch(body=[b"one", b"two\x00\xff"], keys=["k1", None], tags=["A", ""], flag=[7, None],
                          sharding_key=["s", None]), first_row=0xFFFF)
    assert messages == [
        BatchedMessage(7, b"one", {"UNIQ_KEY": PREFIX + "FFFF", "KEYS": "k1", "TAGS": "A", "__SHARDINGKEY": "s"}, b""),
        BatchedMessage(0, b"two\x00\xff", {"UNIQ_KEY": PREFIX + "0000"}, b"")]


def test_any_spelling_of_text_and_bytes_is_taken():
    for body in (pa.array(["ä"]), pa.array(["ä"], pa.large_string()), pa.array(["ä".encode()], pa.large_binary()),
                 pa.array(["ä"]).dictionary_encode()):
        assert sent(batch(value=body, key=pa.array([b"k"])))[0][1:3] == (
            "ä".encode(), {"UNIQ_KEY": PREFIX + "0000", "KEYS": "k"})


def test_a_slice_of_a_batch_is_sent_as_it_is():
    whole = batch(body=[b"%d" % number for number in range(10)], tags=[f"T{number}" for number in range(10)],
                  properties=pa.array([[(f"p{number}", "v")] for number in range(10)], MAP))
    messages = sent(whole.slice(4, 3))
    assert [(message.body, message.properties["TAGS"]) for message in messages] == [
        (b"4", "T4"), (b"5", "T5"), (b"6", "T6")]
    assert [next(name for name in message.properties if name[0] == "p") for message in messages] == ["p4", "p5", "p6"]


def test_a_map_brings_properties_but_not_those_of_client_and_broker():
    maps = pa.array([[("a", "1"), ("UNIQ_KEY", "old"), ("CLUSTER", "c"), ("b", ""), ("KEYS", "of the map")], None, [],
                     [("c", None), ("d", "4")]], MAP)
    messages = sent(batch(body=[b"x"] * 4, properties=maps))
    assert [{name: value for name, value in message.properties.items() if name != "UNIQ_KEY"}
            for message in messages] == [{"a": "1", "KEYS": "of the map"}, {}, {}, {"d": "4"}]
    assert messages[0].properties["UNIQ_KEY"] == PREFIX + "0000"


def test_a_null_map_has_no_entries_even_when_its_place_has():
    entries = pa.array([[("a", "1")], [("b", "2")], [("c", "3")]], MAP)
    hidden = pa.Array.from_buffers(MAP, 3, [pa.py_buffer(bytes([0b101])), entries.buffers()[1]],
                                   children=[pa.StructArray.from_arrays([entries.keys, entries.items],
                                                                        fields=[MAP.key_field, MAP.item_field])])
    messages = sent(batch(body=[b"x"] * 3, properties=hidden))
    assert [set(message.properties) - {"UNIQ_KEY"} for message in messages] == [{"a"}, set(), {"c"}]


def test_a_column_beats_the_map():
    maps = pa.array([[("KEYS", "of the map"), ("TAGS", "of the map")]], MAP)
    properties = sent(batch(body=[b"x"], keys=["of the column"], properties=maps))[0].properties
    assert (properties["KEYS"], properties["TAGS"]) == ("of the column", "of the map")


@pytest.mark.parametrize(("columns", "text"), [
    ({"body": [b"x", None]}, "row 11 of task 3 has no body"),
    ({"body": [b"x", b""]}, "row 11 of task 3 has no body"),
    ({"body": [b"x", b"x"], "topic": ["t", None]}, "row 11 of task 3 names no topic"),
    ({"body": [b"x", b"x"], "tags": ["t", "a\x01b"]}, "row 11 of task 3 has a control character in 'tags'"),
    ({"body": [b"x", b"x"], "properties": pa.array([[("a", "1"), ("b", "2")], [("c", "x\x02")]], MAP)},
     "row 11 of task 3 has a control character in 'properties'"),
    ({"body": [b"x", b"x"], "keys": ["k", "k" * 40_000]}, "row 11 of task 3 has more than 32767 bytes of properties"),
    ({"body": [b"x", b"x"], "flag": [0, 1 << 40]}, "row 11 of task 3 has a 'flag' that is not from"),
    ({"body": [b"x", b"x"], "queue_id": [0, -1]}, "row 11 of task 3 has a 'queue_id' that is not from 0"),
])
def test_a_row_that_can_be_no_message_is_named(columns, text):
    with pytest.raises(RowRefused, match=text):
        rows_of(batch(**columns), 10, PREFIX, "task 3")


def test_rows_can_be_put_in_another_order():
    rows = rows_of(batch(body=[b"a", b"b", b"c"], topic=["t", "u", "t"], queue_id=[1, 2, 3]), 0, PREFIX, "task 3")
    taken = rows.take(pa.array([2, 0]).to_numpy())
    assert (taken.bodies.to_pylist(), taken.topics.to_pylist(), taken.queue_ids.tolist()) == (
        [b"c", b"a"], ["t", "t"], [3, 1])


def test_a_request_has_as_many_rows_as_fit_and_one_at_least():
    records = Records(rows_of(batch(body=[b"x" * size for size in (10, 10, 500, 10)]), 0, PREFIX, "task 3"))
    two = len(records.request(0, 2))
    assert [records.fitting(0, 4, size) for size in (1, two - 1, two, two + 1)] == [1, 1, 2, 2]
    assert (records.fitting(0, 1, 9999), records.fitting(2, 4, 100), records.fitting(3, 4, 9999)) == (1, 3, 4)


def test_of_rows_that_begin_within_an_arrow_batch_the_right_ones_are_sent():
    whole = batch(body=[f"b{number}" for number in range(9)], keys=[f"k{number}" for number in range(9)])
    rows = rows_of(whole.slice(2, 5), 2, PREFIX, "task 3").take(np.array([4, 0, 1, 2, 3]))
    sent_rows = message_batch.decode(bytes(Records(rows).request(1, 3)))
    assert [(message.body, message.properties["KEYS"]) for message in sent_rows] == [(b"b2", "k2"), (b"b3", "k3")]


@pytest.mark.parametrize("name", ["ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID", "RETRY_TOPIC", "SINK"])
def test_a_copied_message_does_not_bring_along_what_its_first_life_left(name):
    maps = pa.array([[(name, "x"), ("own", "y")]], MAP)
    assert sent(batch(body=["b"], properties=maps))[0].properties == {"UNIQ_KEY": PREFIX + "0000", "own": "y"}
