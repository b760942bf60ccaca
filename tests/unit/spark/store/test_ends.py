import json
import logging
import shutil
from itertools import count

import pytest

from regulus.errors import DataLoss
from regulus.record import consume_queue_unit, queue_table
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


def rows_of(read, parts):
    return [row for part in parts for batch in scan(read, _READ, part) for row in batch.to_pylist()]


def streamed(root, **options):
    """The rows of the first batch of a new query."""
    read, planner = stream(root, **options)
    start = planner.initial()
    end = planner.latest(start, is_limited=False)
    return rows_of(read, planner.partitions(start, end))


def test_a_stream_that_has_read_all_fails_for_what_is_lost_behind_it(store):
    _, planner = stream(store)
    end = planner.latest(planner.initial(), is_limited=False)
    broken.damage(store, "half unit", COUNT)
    _, planner = stream(store, failOnDataLoss="false")
    short = planner.latest(end, is_limited=False)
    _, planner = stream(store)
    with pytest.raises(DataLoss, match=r"orders/broker-a/1: .*set failOnDataLoss"):
        planner.latest(short, is_limited=False)


@pytest.mark.parametrize("kind", broken.DAMAGES)
def test_a_stream_that_stands_at_a_lost_end_reports_it_once(store, kind):
    """Whatever it read before: no later message ever makes a batch that could tell of it."""
    lost = broken.damage(store, kind, COUNT)
    _, planner = stream(store, failOnDataLoss="false")
    start = planner.latest(planner.initial(), is_limited=False)
    read, planner = stream(store, failOnDataLoss="report")
    end = planner.latest(start, is_limited=False)
    assert broken.read_counts(rows_of(read, planner.partitions(start, end))) == (0, lost)
    assert planner.latest(json.loads(json.dumps(end)), is_limited=False) == end
    read, restarted = stream(store, failOnDataLoss="report")
    assert broken.read_counts(rows_of(read, restarted.partitions(start, end))) == (0, lost)
    assert restarted.latest(json.loads(json.dumps(end)), is_limited=False) == end


def test_what_a_stream_had_not_read_of_a_lost_end_is_reported_too(store):
    """The log is cut behind the place where the stream came: some of it was read."""
    read, planner = stream(store, failOnDataLoss="report", maxOffsetsPerTrigger="30")
    start = planner.latest(planner.initial(), is_limited=True)
    assert sorted(start["topics"]["orders"]["queues"]["broker-a"].values()) == [15, 15]
    lost = broken.damage(store, "cut log", COUNT)
    read, planner = stream(store, failOnDataLoss="report")
    end = planner.latest(start, is_limited=False)
    assert broken.read_counts(rows_of(read, planner.partitions(start, end))) == (0, lost)
    assert planner.latest(json.loads(json.dumps(end)), is_limited=False) == end


def test_spark_runs_a_batch_for_a_lost_end(spark, store, tmp_path):
    def run(name, **options):
        table = spark.readStream.format("rocketmq").options(
            storePath=str(store), topic=broken.TOPIC, startingOffsets="earliest", retryTimeout="1ms", **options).load()
        query = table.select(*_READ).writeStream.format("parquet").option("path", str(tmp_path / name)).option(
            "checkpointLocation", str(tmp_path / "checkpoint" / name)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [row.asDict() for row in spark.read.parquet(str(tmp_path / name)).collect()]

    lost = broken.damage(store, "cut log", COUNT)
    assert broken.read_counts(run("rows", failOnDataLoss="false")) == (COUNT - lost, 0)
    for _ in range(2):
        assert broken.read_counts(run("rows", failOnDataLoss="report")) == (COUNT - lost, lost)


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


@pytest.mark.parametrize("kind", ["files gone", "zeroed units"])
@pytest.mark.parametrize("lost", [5, 15])
def test_what_a_closed_store_lost_before_a_queue_is_told_and_counted(store, kind, lost):
    """Without the table of Regulus, what lies in the first of several log files may be what retention could not
    delete."""
    is_of_regulus = (store / "regulusQueues").exists()
    in_first_file = 0 if is_of_regulus else sum(place < 4096 for place in broken.places(store)[1])
    told = max(0, lost - in_first_file)
    assert bool(told) == (is_of_regulus or lost == 15)
    broken.damage_begin(store, kind, lost)
    assert len(rows(store, failOnDataLoss="false")) == len(streamed(store, failOnDataLoss="false")) == COUNT - lost
    assert broken.read_counts(rows(store, failOnDataLoss="report")) == (COUNT - lost, told)
    assert broken.read_counts(streamed(store, failOnDataLoss="report")) == (COUNT - lost, told)
    assert broken.read_counts(rows(store, failOnDataLoss="report", startingTimestamp="2001-01-01")) == (
        COUNT - lost, told)
    found = queues(store).values()
    assert sum(row["missing_before"] for row in found) == told
    assert sum(row["is_lost"] for row in found) == bool(told)
    for read in (rows, streamed) if told else ():
        with pytest.raises(DataLoss, match=rf"orders/broker-a/1: messages? .*{lost - 1} (is|are) gone, .*failOnDataL"):
            read(store)


def test_what_is_read_from_behind_the_beginning_misses_nothing_before_it(store):
    broken.damage_begin(store, "files gone", 15)
    offsets = '{"orders":{"0":0,"1":15}}'
    assert len(rows(store, startingOffsets=offsets)) == COUNT - 15
    assert len(rows(store, startingTimestamp=str(FIRST_STORE_TIME + 1000 * 34))) == 6


def test_a_copy_of_a_running_broker_may_have_queues_that_begin_later_than_its_log(store, caplog):
    """Retention went on between the copy of the log and that of the queues."""
    (store / "abort").touch()
    broken.damage_begin(store, "files gone", 15)
    with caplog.at_level(logging.WARNING):
        assert len(rows(store)) == COUNT - 15
    told = [record.message for record in caplog.records if "to 14 cannot be read" in record.message]
    assert [text.partition(": ")[0] for text in told] == ["orders/broker-a/1"]
    found = queues(store)
    assert (found[0]["missing_before"], found[0]["is_lost"], found[1]["is_lost"]) == (0, False, False)
    assert found[1]["missing_before"] > 0


def test_what_retention_removed_is_not_missed(store):
    """The queue's file goes with the log's, or stays with units of what is gone."""
    first = min((store / "commitlog").iterdir())
    gone = sum(place < first.stat().st_size for place in broken.places(store)[1])
    first.unlink()
    left_of_all = len(rows(store, failOnDataLoss="false"))
    assert left_of_all < COUNT
    assert len(rows(store)) == left_of_all
    broken.damage_begin(store, "files gone", gone - gone % 5)
    assert len(rows(store)) == left_of_all
    assert {row["missing_before"] for row in queues(store).values()} == {0}


def test_a_log_file_that_retention_could_not_delete_is_no_part_of_the_log(make_store):
    """The table of Regulus says where the log begins."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    second = int(sorted((root / "commitlog").iterdir())[1].name)
    gone = sum(place < second for place in broken.places(root)[1]) // 5 * 5
    broken.damage_begin(root, "files gone", gone)
    assert sum(row["missing_before"] for row in queues(root).values()) == gone > 0
    with (root / "regulusQueues").open("ab") as table:
        table.write(queue_table.encode_log_start(second))
    assert len(rows(root)) == COUNT - gone


def test_a_log_from_its_first_message_on_has_what_a_queue_lacks(make_store):
    """Though its records are rotten; unless the broker itself began the queue later, with fillers."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    for place in broken.places(root)[1][:5]:
        broken.write(root, place + 4, b"\xff\xff\xff\xff")
    first = min((root / "consumequeue" / broken.TOPIC / "1").iterdir())
    units = first.read_bytes()
    first.unlink()
    assert {row["missing_before"] for row in queues(root).values()} == {0, 5}
    filler = consume_queue_unit.encode(consume_queue_unit.FILLER)
    first.write_bytes(filler * (len(units) // len(filler)))
    assert {row["missing_before"] for row in queues(root).values()} == {0}
    assert len(rows(root)) == COUNT - 5


def test_a_topic_made_anew_begins_behind_the_former_one(make_store):
    """Its first number is 0, whatever the former one had."""
    root = make_store([order(number) for number in range(COUNT)])
    broken.name_topics(root, broken.TOPIC)
    broken.as_of_rocketmq(root)
    epoch = FIRST_STORE_TIME + 1000 * 35
    (root / "config" / "regulusTopicEpochs.json").write_text(json.dumps({"topicEpochs": {broken.TOPIC: epoch}}))
    broken.damage_begin(root, "files gone", 15)
    ends = StoreEnds(StoreFiles(str(root)))
    missing = ends.missing_before(StoreFiles(str(root)).queue(broken.TOPIC, 1))
    assert (missing.first, missing.next, missing.is_loss) == (0, 15, True)


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
    assert not any(ends.missing_before(queue) for topic in topics for queue in files.queues(topic))
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
    assert {key: last.queue_offset for key, last in tail.of_queue.items()} == {("orders", 0): 19, ("orders", 1): 19}
    assert tail.bad == []
    assert [tail.has_record_over(place) for place in (tail.start - 1, tail.start, tail.end - 1, tail.end)] == [
        False, True, True, False]
