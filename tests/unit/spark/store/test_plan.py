"""The files of a store as a place of queues; what a batch reads of them is tested with the scan."""

import json

import pytest

from regulus.broker.topic_epochs import TopicEpochs
from regulus.errors import StoreDamaged
from regulus.model.message_queue import MessageQueue
from regulus.spark.marks import Mark
from regulus.spark.open_place import open_place, scan_part
from regulus.spark.options import parse_options
from regulus.spark.read_plan import UnitRange
from regulus.spark.readers.stream_planner import StreamPlanner
from regulus.spark.store import plan as store_plan
from regulus.spark.store.plan import StorePlace, plan
from regulus.wire import encoded_table
from tests.unit.spark.conftest import FIRST_STORE_TIME, GOLDEN, order

Q0, Q1 = (MessageQueue("orders", "broker-a", number) for number in range(2))
COLUMNS = ("topic", "queue_id", "queue_offset", "body_crc")


def place_of(root):
    return StorePlace(parse_options({"storePath": str(root), "topic": "orders"}))


def rows_of(options, parts):
    return [tuple(row.values()) for part in parts for batch in scan_part(options, COLUMNS, part)
            for row in batch.to_pylist()]


def test_a_stream_of_a_store_of_rocketmq_reads_each_message_once(golden_store):
    given = {"storePath": str(GOLDEN / golden_store), "subscribePattern": ".*"}
    options = parse_options({**given, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}, streaming=True)
    planner = StreamPlanner(options, open_place(options), lambda: 0.0, lambda: 0, lambda seconds: None)
    planner.freeze()
    start, found, batches = planner.initial(), [], 0
    while (end := planner.latest(json.loads(json.dumps(start)), is_limited=True))["topics"] != start["topics"]:
        rows = rows_of(options, planner.partitions(start, end))
        assert len(rows) <= 100
        found, start, batches = found + rows, end, batches + 1
    batch = parse_options(given)
    assert sorted(found) == sorted(rows_of(batch, plan(batch, 2)))
    assert batches > 5


def test_what_a_store_tells(make_store):
    place = place_of(make_store([order(number) for number in range(7)]))
    assert place.queues() == [Q0, Q1]
    assert [state[:2] for state in place.states([Q0, Q1]).values()] == [(0, 4), (0, 3)]
    assert place.offsets_at({Q0: FIRST_STORE_TIME + 3000, Q1: FIRST_STORE_TIME + 99_000}) == {Q0: 2, Q1: 3}
    assert place.marks({Q0: 1, Q1: 3}) == {Q0: Mark(FIRST_STORE_TIME + 2000, f"C{2:031}")}
    sizes = place.record_sizes([UnitRange("orders", 0, 0, 4, "broker-a")])
    assert 100 < sizes[0] < 300


def test_the_epochs_that_the_broker_saved(make_store):
    root = make_store([order(number) for number in range(4)])
    assert {state.topic_epoch for state in place_of(root).states([Q0, Q1]).values()} == {0}
    epochs = TopicEpochs()
    epochs.note_created("orders", 17)
    path = root / "config" / "regulusTopicEpochs.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(encoded_table.text(epochs.document()), encoding="utf-8")
    assert {state.topic_epoch for state in place_of(root).states([Q0, Q1]).values()} == {17}
    path.write_text("{", encoding="utf-8")
    with pytest.raises(StoreDamaged, match="is no JSON"):
        place_of(root).states([Q0])


def test_partitions_of_a_stream_do_not_depend_on_cores(make_store):
    root = make_store([order(number, body=bytes(300)) for number in range(60)])
    place = StorePlace(parse_options({"storePath": str(root), "topic": "orders", "maxBytesPerPartition": "4k"}))
    ranges = [UnitRange("orders", queue, 0, 30, "broker-a") for queue in (0, 1)]
    assert len(place.partitions(ranges, [], cores=None)) > 2
    assert place.partitions(ranges, [], cores=None) == place.partitions(ranges, [], cores=1)


def test_queues_written_by_turns_are_cut_between_the_samples_too(make_store, monkeypatch):
    monkeypatch.setattr(store_plan, "_SAMPLES_MAX", 1)
    options = parse_options({"storePath": str(make_store([order(number) for number in range(400)])),
                             "topic": "orders", "maxRecordsPerPartition": "10"})
    sizes = [part.rows for part in plan(options, cores=1)]
    assert len(sizes) == 40
    assert min(sizes) >= 8
    assert max(sizes) <= 12
