"""Several rotten records one behind the other, before the part of the log that a look at its end walks.

RocketMQ has no table of where queues end: only the units and the log can tell.
"""

import shutil

import pytest

from regulus.spark.options import parse_options
from regulus.spark.store import ends as store_ends
from regulus.spark.store import log_walk
from regulus.spark.store.ends import StoreEnds
from regulus.spark.store.files import StoreFiles
from regulus.spark.store.plan import plan
from regulus.spark.store.scan import scan
from tests import store_ends as broken
from tests.unit.spark.conftest import order

QUEUES, EACH, MORE = 4, 10, 60
KINDS = {"magic": (4, b"\1\2\3\4"), "size": (0, b"\0\0\0\7"), "larger": (0, b"\0\0\x0f\0"), "place": (28, b"\1" * 8),
         "zeros": (0, bytes(150))}


@pytest.fixture
def store(make_store, monkeypatch):
    """Four queues of `orders` by turns, and behind them another topic, of which alone the end of the log is."""
    monkeypatch.setattr(log_walk, "PROBE_SIZE", 64)
    monkeypatch.setattr(store_ends, "LOOK_BYTES", 2048)
    root = make_store([order(number, queue_id=number % QUEUES) for number in range(QUEUES * EACH)]
                      + [order(number, topic="other") for number in range(MORE)])
    broken.name_topics(root, broken.TOPIC, "other")
    broken.as_of_rocketmq(root)
    return root


def table(root, **options):
    read = parse_options({"storePath": str(root), "topic": broken.TOPIC, **options})
    return [row for part in plan(read, 1)
            for batch in scan(read, ("queue_id", "queue_offset", "message_type", "properties"), part)
            for row in batch.to_pylist()]


def missing(rows):
    return {(row["queue_id"], offset) for row in rows if row["message_type"] == "gap"
            for offset in range(row["queue_offset"], int(dict(row["properties"])["GAP_END"]))}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("numbers", [
    (39,), (38, 39), (37, 38, 39), (36, 37, 38, 39), (33, 37), (32, 33, 34, 35, 36, 37, 38, 39), (20, 21, 22),
    (35, 37, 38, 39), (0, 1, 2, 3, 36, 37, 38, 39), (29, 30, 31, 33, 34, 35, 37, 38, 39),
    tuple(range(4, 40))])
def test_each_rotten_record_counts_and_no_good_one_is_passed_over(store, kind, numbers):
    within, data = KINDS[kind]
    by_queue = broken.places(store)
    for number in numbers:
        broken.write(store, by_queue[number % QUEUES][number // QUEUES] + within, data)
    rows = table(store, failOnDataLoss="report")
    lost = {(number % QUEUES, number // QUEUES) for number in numbers}
    everything = {(queue_id, offset) for queue_id in range(QUEUES) for offset in range(EACH)}
    assert missing(rows) == lost
    assert {(row["queue_id"], row["queue_offset"]) for row in rows if row["message_type"] != "gap"} == everything - lost


@pytest.mark.parametrize("kind", ["magic", "zeros"])
def test_leftovers_beside_rotten_records_are_no_messages(make_store, monkeypatch, kind):
    """Units of records that were cut point into other records since, good ones or rotten ones."""
    monkeypatch.setattr(log_walk, "PROBE_SIZE", 64)
    monkeypatch.setattr(store_ends, "LOOK_BYTES", 2048)
    root = make_store([order(number, queue_id=0) for number in range(20)])
    units = {path.name: path.read_bytes() for path in (root / "consumequeue" / broken.TOPIC / "0").iterdir()}
    shutil.rmtree(root)
    root = make_store([order(number, queue_id=0) for number in range(12)]
                      + [order(number, queue_id=1, body=bytes(150)) for number in range(12)]
                      + [order(number, topic="other") for number in range(MORE)])
    for name, data in units.items():
        path = root / "consumequeue" / broken.TOPIC / "0" / name
        kept = path.read_bytes().rstrip(b"\0") if path.exists() else b""
        path.write_bytes(kept + data[len(kept):])
    broken.name_topics(root, broken.TOPIC, "other")
    broken.as_of_rocketmq(root)
    files = StoreFiles(str(root))
    assert [StoreEnds(files).missing(queue) for queue in files.queues(broken.TOPIC)] == [None, None]
    within, bytes_there = KINDS[kind]
    last = broken.places(root)[1][-1]
    broken.write(root, last + within, bytes_there)
    found = [StoreEnds(files).missing(queue) for queue in files.queues(broken.TOPIC)]
    assert found[0] is None
    assert (found[1].first, found[1].next, found[1].is_loss) == (11, 12, True)
