"""The units and entries of stores of Apache RocketMQ, against what it says of them itself."""

import json

import pytest

from regulus.errors import OptionError, StoreDamaged
from regulus.spark.options import parse_options
from regulus.spark.unit_tables import parts, scan
from tests.unit.spark.conftest import GOLDEN, order

QUEUE_COLUMNS = ("topic", "queue_id", "queue_offset", "physical_offset", "size", "tags_code")
INDEX_COLUMNS = ("file", "entry", "key_hash", "physical_offset", "store_time", "previous")


def table(columns: tuple[str, ...], **options: str) -> list[dict]:
    read = parse_options(options)
    return [row for part in parts(read) for batch in scan(read, columns, part) for row in batch.to_pylist()]


def test_each_unit_points_to_its_message(golden_store):
    units = table(QUEUE_COLUMNS, storePath=str(GOLDEN / golden_store), table="consume_queue")
    lines = map(json.loads, (GOLDEN / f"{golden_store}.jsonl").read_text("utf-8").splitlines())
    messages = {(line["topic"], line["queueId"], line["queueOffset"]): (line["physicalOffset"], line["storeSize"])
                for line in lines if line["kind"] == "message"}
    assert units
    assert all(messages[unit["topic"], unit["queue_id"], unit["queue_offset"]] == (
        unit["physical_offset"], unit["size"]) for unit in units)


def test_each_index_entry_points_to_a_message(golden_store):
    entries = table(INDEX_COLUMNS, storePath=str(GOLDEN / golden_store), table="index")
    lines = map(json.loads, (GOLDEN / f"{golden_store}.jsonl").read_text("utf-8").splitlines())
    stored = {line["physicalOffset"]: line["storeTimestamp"] for line in lines if line["kind"] == "message"}
    assert len(entries) > 100
    for entry in entries:
        assert 0 <= stored[entry["physical_offset"]] - entry["store_time"].timestamp() * 1000 < 1000
        assert entry["previous"] < entry["entry"]


def test_an_index_file_of_another_size_is_named(make_store, tmp_path):
    store = make_store([order(0)])
    (store / "index").mkdir(exist_ok=True)
    (store / "index" / "20260101000000000").write_bytes(bytes(100))
    with pytest.raises(StoreDamaged, match="has 100 bytes, which is not an index file"):
        table(INDEX_COLUMNS, storePath=str(store), table="index")


def test_brokers_show_no_files():
    with pytest.raises(OptionError, match="table 'index' is a look at a store's files: give option 'storePath'"):
        parts(parse_options({"nameServer": "127.0.0.1:9876", "table": "index"}))
