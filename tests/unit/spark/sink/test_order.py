import pyarrow as pa
import pytest

from regulus.errors import RowRefused
from regulus.spark.sink import order
from regulus.spark.sink.order import in_key_order, with_key
from regulus.spark.sink.rows import DEDUP_COLUMN


def batch(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_come_in_the_order_of_their_key_however_they_were_brought():
    parts = [batch(body=[b"c", b"a"], id=[3, 1]), batch(body=[b"d", b"b"], id=[4, 2])]
    for brought in (parts, parts[::-1]):
        sorted_parts = list(in_key_order(brought, ("id",), 3, "task"))
        assert [part.column("body").to_pylist() for part in sorted_parts] == [[b"a", b"b", b"c"], [b"d"]]
        assert sorted_parts[1].schema.names == ["body", DEDUP_COLUMN]


def test_no_rows_are_in_order():
    assert list(in_key_order([], ("id",), 3, "task")) == []


def test_a_key_of_several_columns_is_one_text():
    keyed = with_key(batch(body=[b"a"], topic=["t"], queue=[1], raw=[b"\xff"]), ("topic", "queue", "raw"), "task")
    assert keyed.column(DEDUP_COLUMN).to_pylist() == ["t|1|ff"]
    assert keyed.schema.names == ["body", "topic", DEDUP_COLUMN]


def test_rows_that_differ_in_one_of_several_columns_have_different_keys():
    rows = [("a", "b|c"), ("a|b", "c"), ("a\\", "b|c"), ("a|b\\", "c"), ("a", "z"), ("a\\|b|c", "")]
    one, other = zip(*rows, strict=True)
    keyed = list(in_key_order([batch(body=[b"x"] * 6, one=list(one), other=list(other))], ("one", "other"), 10, "task"))
    keys = keyed[0].column(DEDUP_COLUMN).to_pylist()
    assert len(set(keys)) == 6
    assert "a|z" in keys


def test_a_key_of_one_column_is_what_that_has():
    assert with_key(batch(body=[b"a"], id=["a|b"]), ("id",), "task").column(DEDUP_COLUMN).to_pylist() == ["a|b"]


def test_a_key_must_be_there_and_tell_rows_apart():
    with pytest.raises(RowRefused, match="a row of task 2 has no id"):
        with_key(batch(body=[b"a"], id=pa.array([None], pa.int64())), ("id",), "task 2")
    with pytest.raises(RowRefused, match="two rows of task 2 have the dedupKey '7'"):
        list(in_key_order([batch(body=[b"a", b"b"], id=[7, 7])], ("id",), 10, "task 2"))


def test_what_is_too_much_to_sort_is_refused(monkeypatch):
    monkeypatch.setattr(order, "SORTED_SIZE_MAX", 1 << 20)
    with pytest.raises(RowRefused, match="more than 1 MB of rows"):
        list(in_key_order([batch(body=[b"x" * (1 << 20)], id=[1])] * 2, ("id",), 10, "task"))
