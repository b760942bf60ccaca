import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from regulus.spark.columns import arrow_arrays
from tests.unit.spark.conftest import GOLDEN


@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_numbers(kind):
    table = np.arange(12, dtype=kind).reshape(3, 4)
    assert arrow_arrays.numbers(table[1]).equals(pa.array([4, 5, 6, 7], kind))
    assert arrow_arrays.numbers(table[:, 1]).to_pylist() == [1, 5, 9]


def test_times():
    array = arrow_arrays.times(np.array([0, 1500], dtype=np.int64), np.array([False, True]))
    assert array.to_pylist() == [None, datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)]
    assert arrow_arrays.times(np.array([0], dtype=np.int64)).null_count == 0


def test_times_without_a_date_become_the_nearest_with_one():
    array = arrow_arrays.times(np.array([-(2**63), 1, 2**56, 2**63 - 1], dtype=np.int64))
    assert [time.isoformat() for time in array.to_pylist()] == [
        "1970-01-01T00:00:00+00:00", "1970-01-01T00:00:00.001000+00:00", "9999-12-31T00:00:00+00:00",
        "9999-12-31T00:00:00+00:00"]


@pytest.mark.parametrize("items", [[], [""], ["a", "", "标签"]])
def test_texts_and_binaries(items):
    assert arrow_arrays.texts(items).to_pylist() == items
    assert arrow_arrays.binaries([item.encode() for item in items]).to_pylist() == [item.encode() for item in items]


@pytest.mark.parametrize(("items", "numbers"), [
    ([], []), (["a"], []), (["标签", "b"], [0, 0]), (["", "b", "cc"], [2, 0, 1, 0]), (["same", "same"], [1, 0, 0]),
])
def test_chosen_texts(items, numbers):
    array = arrow_arrays.chosen(items, np.array(numbers, dtype=np.int64))
    array.validate(full=True)
    assert array.to_pylist() == [items[number] for number in numbers]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1000, 999])
def test_a_repeated_text(rows):
    array = arrow_arrays.repeated("标签", rows)
    array.validate(full=True)
    assert array.to_pylist() == ["标签"] * rows


def test_room_is_to_be_filled():
    room = arrow_arrays.room(3)
    room[:] = 7
    assert arrow_arrays.pieces(pa.binary(), np.array([0, 3], dtype=np.int32), room).to_pylist() == [b"\x07\x07\x07"]
    assert len(arrow_arrays.room(0)) == 0


@pytest.mark.parametrize(("data", "texts"), [
    (b"abc", ["a", None, "bc"]), ("标签".encode(), ["\ufffd", None, "\ufffd\ufffd签"]),
])
def test_decoded_texts(data, texts):
    offsets = np.array([0, 1, 1, len(data)], dtype=np.int32)
    array = arrow_arrays.decoded_texts(offsets, np.frombuffer(data, np.uint8), np.array([True, False, True]))
    array.validate(full=True)
    assert array.to_pylist() == texts


def test_no_array_has_more_bytes_than_its_offsets_reach(monkeypatch):
    monkeypatch.setattr(arrow_arrays, "SIZE_MAX", 10)
    assert arrow_arrays.binaries([b"12345", b"67890"]).to_pylist() == [b"12345", b"67890"]
    with pytest.raises(AssertionError, match="11 bytes in one array"):
        arrow_arrays.binaries([b"12345", b"678901"])


def test_a_scan_does_not_import_pandas():
    """It would cost each of Spark's Python processes more time than a small table."""
    program = f"""
import sys
from regulus.spark.options import parse_options
from regulus.spark.store.plan import plan
options = parse_options({{"storePath": {str(GOLDEN / "store-4.9.8")!r}, "topic": "SNormal", "tags": "TagA || TagB"}})
parts = plan(options, 1)
assert "numpy" not in sys.modules
from regulus.spark.store.scan import scan
from regulus.spark.table_schema import COLUMNS
assert sum(batch.num_rows for part in parts for batch in scan(options, tuple(COLUMNS), part))
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
