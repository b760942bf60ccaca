import json
import logging
import shutil
from itertools import count

import pytest

from regulus.errors import DataLoss
from regulus.spark import small_tables
from regulus.spark.options import parse_options
from regulus.spark.readers.stream_planner import StreamPlanner
from regulus.spark.store.ends import Left, StoreEnds, left
from regulus.spark.store.files import StoreFiles
from regulus.spark.store.plan import StorePlace, plan
from regulus.spark.store.scan import scan
from tests import store_ends as broken
from tests.unit.spark.conftest import FIRST_STORE_TIME, GOLDEN, order

COUNT = 40
_READ = ("queue_id", "queue_offset", "message_type", "properties")


@pytest.fixture(params=["Regulus", "RocketMQ"])
def store(request, make_store):
    """Two queues of a closed store, and what each broker leaves beside them."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    if request.param == "RocketMQ":
        broken.as_of_rocketmq(root)
    return root


def rows(root, **options):
    read = parse_options({"storePath": str(root), "topic": broken.TOPIC, **options})
    return [row for part in plan(read, 1) for batch in scan(read, _READ, part) for row in batch.to_pylist()]


def stream(root, **options):
    read = parse_options({"storePath": str(root), "topic": broken.TOPIC, "startingOffsets": "earliest",
                          "retryTimeout": "1ms", **options}, streaming=True)
    place = StorePlace(read)
    return read, StreamPlanner(read, place, count().__next__, lambda: 0, lambda _: None)


def streamed(root, **options):
    """The rows of the first batch of a new query."""
    read, planner = stream(root, **options)
    start = planner.initial()
    end = planner.latest(start, is_limited=False)
    return [row for part in planner.partitions(start, end) for batch in scan(read, _READ, part)
            for row in batch.to_pylist()]


def test_a_stream_that_has_read_all_fails_for_what_is_lost_behind_it(store):
    _, planner = stream(store)
    end = planner.latest(planner.initial(), is_limited=False)
    broken.damage(store, "half unit", COUNT)
    _, planner = stream(store, failOnDataLoss="false")
    short = planner.latest(end, is_limited=False)
    _, planner = stream(store)
    with pytest.raises(DataLoss, match=r"orders/broker-a/1: .*set failOnDataLoss"):
        planner.latest(short, is_limited=False)
    _, planner = stream(store, failOnDataLoss="report")
    assert planner.latest(short, is_limited=False) == short


def queues(root):
    read = parse_options({"storePath": str(root), "topic": broken.TOPIC, "table": "queues"})
    return {row["queue_id"]: row for row in small_tables.rows(read, {})}


def test_a_closed_store_agrees(store):
    ends = StoreEnds(StoreFiles(str(store)))
    assert ends.left is Left.CLOSED
    assert ends.doubt() == ""
    assert [ends.missing(queue) for queue in StoreFiles(str(store)).queues(broken.TOPIC)] == [None, None]
    assert len(rows(store)) == len(streamed(store)) == COUNT
    assert {row["missing_behind"] for row in queues(store).values()} == {0}


@pytest.mark.parametrize("kind", broken.DAMAGES)
def test_what_a_closed_store_lost_at_an_end_is_told_and_counted(store, kind):
    lost = broken.damage(store, kind, COUNT)
    assert 0 < lost < COUNT
    with pytest.raises(DataLoss, match=r"orders/broker-a/[01]: .*set failOnDataLoss"):
        rows(store)
    with pytest.raises(DataLoss, match=r"orders/broker-a/[01]: .*set failOnDataLoss"):
        streamed(store)
    assert len(rows(store, failOnDataLoss="false")) == COUNT - lost
    assert len(streamed(store, failOnDataLoss="false")) == COUNT - lost
    assert broken.read_counts(rows(store, failOnDataLoss="report")) == (COUNT - lost, lost)
    assert broken.read_counts(streamed(store, failOnDataLoss="report")) == (COUNT - lost, lost)
    found = queues(store).values()
    assert sum(row["missing_behind"] for row in found) == lost
    assert sum(row["message_count"] for row in found) == COUNT - lost
    assert {row["is_lost"] for row in found if row["missing_behind"]} == {True}


@pytest.mark.parametrize("kind", broken.DAMAGES)
def test_a_store_that_was_copied_from_a_running_broker_is_told_of_and_read(store, kind, caplog):
    """Log and queues may each be ahead of the other there."""
    (store / "abort").touch()
    lost = broken.damage(store, kind, COUNT)
    with caplog.at_level(logging.WARNING):
        assert len(rows(store)) == COUNT - lost
    told = [record.message for record in caplog.records if "cannot be read" in record.message]
    is_known = kind != "queue folder gone"      # its folder is made with its first unit
    assert bool(told) == is_known
    assert len(streamed(store)) == COUNT - lost
    found = queues(store).values()
    assert sum(row["missing_behind"] for row in found) == lost
    assert {row["is_lost"] for row in found} == {False}


def test_a_copy_without_the_files_of_the_root_may_be_of_a_running_broker(store):
    (store / "checkpoint").unlink()
    assert left(StoreFiles(str(store))) is Left.OPEN


def test_a_checkpoint_that_is_ahead_of_the_log_is_told_of_a_closed_store(make_store, caplog):
    """It is no proof of a loss: the clock may have been set back."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.as_of_rocketmq(root)
    assert len(rows(root)) == COUNT
    assert "checkpoint says" not in caplog.text
    broken.checkpoint_ahead(root, FIRST_STORE_TIME + 1000 * COUNT)
    assert len(rows(root)) == len(streamed(root)) == COUNT
    told = [record.message for record in caplog.records if "checkpoint says" in record.message]
    assert len(told) == 2
    assert all("unless the clock was set back, the log has lost its end" in text for text in told)
    caplog.clear()
    (root / "abort").touch()
    assert len(rows(root)) == COUNT
    assert "checkpoint says" not in caplog.text


def test_a_topic_that_topics_json_does_not_name_is_read_and_no_loss(store):
    broken.name_topics(store, "others")
    assert len(rows(store)) == COUNT


def test_a_deleted_topic_has_no_units_and_none_are_missed(make_store):
    root = make_store([order(number) for number in range(COUNT)] + [order(0, topic="others")])
    broken.name_topics(root, "others")
    broken.as_of_rocketmq(root)
    shutil.rmtree(root / "consumequeue" / broken.TOPIC)
    read = parse_options({"storePath": str(root), "subscribePattern": ".*"})
    assert sum(part.rows for part in plan(read, 1)) == 1


def test_a_topic_that_was_made_anew_does_not_miss_the_messages_of_the_former_one(make_store):
    """RocketMQ does not keep when a topic was made; nothing that is there now is from before the former's last."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    broken.as_of_rocketmq(root)
    shutil.rmtree(root / "consumequeue" / broken.TOPIC)
    assert rows(root) == []
    assert {row["is_lost"] for row in queues(root).values()} == {False}
    assert sum(row["missing_behind"] for row in queues(root).values()) == COUNT


@pytest.mark.parametrize(("seconds", "is_lost"), [(0, True), (COUNT, False)])
def test_when_a_topic_was_made_tells_whose_the_last_records_are(make_store, seconds, is_lost):
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    broken.as_of_rocketmq(root)
    shutil.rmtree(root / "consumequeue" / broken.TOPIC)
    epoch = FIRST_STORE_TIME + 1000 * seconds
    (root / "config" / "regulusTopicEpochs.json").write_text(json.dumps({"topicEpochs": {broken.TOPIC: epoch}}))
    assert {row["is_lost"] for row in queues(root).values()} == {is_lost}


def one_behind_the_other(make_store):
    """A store whose first queue has its last record in the midst of the log, and where that record lies."""
    root = make_store([order(number, queue_id=int(not 20 <= number < 40)) for number in range(60)])
    broken.name_topics(root, broken.TOPIC)
    broken.as_of_rocketmq(root)
    return root, broken.places(root)[0][-1]


def test_what_lies_in_a_hole_of_the_log_is_lost_and_no_leftover(make_store):
    root, last = one_behind_the_other(make_store)
    next(path for path in (root / "commitlog").iterdir() if 0 <= last - int(path.name) < 4096).unlink()
    files = StoreFiles(str(root))
    missing = StoreEnds(files).missing(next(each for each in files.queues(broken.TOPIC) if each.queue_id == 0))
    assert (missing.next, missing.is_loss) == (20, True)


def test_a_last_record_that_is_rotten_far_before_the_part_that_is_walked_is_lost(make_store, monkeypatch):
    from regulus.spark.store import ends as store_ends
    from regulus.spark.store import log_walk

    monkeypatch.setattr(log_walk, "PROBE_SIZE", 64)
    monkeypatch.setattr(store_ends, "LOOK_BYTES", 2048)
    root, last = one_behind_the_other(make_store)
    broken.write(root, last + 4, b"\xff\xff\xff\xff")
    files = StoreFiles(str(root))
    assert last < store_ends.LogTail(files.log).start
    missing = StoreEnds(files).missing(next(each for each in files.queues(broken.TOPIC) if each.queue_id == 0))
    assert (missing.first, missing.next, missing.is_loss) == (19, 20, True)


def test_leftovers_of_a_queue_that_was_cut_are_no_messages(make_store):
    """RocketMQ leaves the units of records that it cut; other records lie in their places since."""
    root = make_store([order(number, queue_id=0) for number in range(20)])
    units = {path.name: path.read_bytes() for path in (root / "consumequeue" / broken.TOPIC / "0").iterdir()}
    shutil.rmtree(root)
    root = make_store([order(number, queue_id=0) for number in range(12)]
                      + [order(number, queue_id=1, body=bytes(150)) for number in range(12)])
    for name, data in units.items():
        path = root / "consumequeue" / broken.TOPIC / "0" / name
        kept = path.read_bytes().rstrip(b"\0") if path.exists() else b""
        path.write_bytes(kept + data[len(kept):])
    broken.as_of_rocketmq(root)
    assert len(rows(root)) == 24


@pytest.mark.parametrize(("name", "how"), [("store-4.9.8", Left.CLOSED), ("store-4.9.8-killed", Left.OPEN)])
def test_stores_of_rocketmq_itself_lost_nothing(name, how):
    """The killed one had not given its last records their units."""
    files = StoreFiles(str(GOLDEN / name))
    ends = StoreEnds(files)
    assert (ends.left, ends.doubt()) == (how, "")
    topics = files.topics()
    found = [missing for topic in topics for queue in files.queues(topic)
             if (missing := ends.missing(queue)) is not None]
    assert bool(found) == (how is Left.OPEN)
    assert not any(missing.is_loss for missing in found)
    assert {topic: ends.queue_ids(topic) - {queue.queue_id for queue in files.queues(topic)}
            for topic in topics} == {topic: set() for topic in topics}


def test_a_store_that_a_broker_writes_is_not_compared(tmp_path):
    from tests.stores import fill, open_store

    store = open_store(tmp_path)
    try:
        fill(store, 5, topic=broken.TOPIC)
        files = StoreFiles(str(tmp_path))
        assert left(files) is Left.IN_USE
        assert StoreEnds(files).queue_ids(broken.TOPIC) == set()
        assert len(rows(tmp_path)) == 5
    finally:
        store.close()


def test_only_the_last_part_of_the_log_is_walked(store, monkeypatch):
    from regulus.spark.store import ends as store_ends
    from regulus.spark.store import log_walk

    monkeypatch.setattr(log_walk, "PROBE_SIZE", 64)
    monkeypatch.setattr(store_ends, "LOOK_BYTES", 2048)
    tail = store_ends.LogTail(StoreFiles(str(store)).log)
    places = broken.places(store)
    assert 0 < tail.start < places[1][-1] < tail.end
    assert tail.start in places[0] + places[1]
    assert {key: last.queue_offset for key, last in tail.last.items()} == {("orders", 0): 19, ("orders", 1): 19}
    assert tail.bad == []
