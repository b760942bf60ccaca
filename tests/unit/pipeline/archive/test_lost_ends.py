"""What the archive job rejects at the first or the last offset of a queue is missing from the archive, and known."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from regulus.errors import DataLoss
from regulus.pipeline.archive.compact import DAY_MS, CompactConfig, compact
from regulus.pipeline.range_tasks import LocalTasks, Look
from regulus.spark.archive import manifest as archive_manifest
from tests.archives import archive_store, archived_rows, nothing
from tests.store_ends import write
from tests.stores import dispatch, fill, open_store

COUNT = 30
DAMAGES = {"body": (88, b"XX"), "magic": (4, b"\1\2\3\4"), "size": (0, b"\0\0\0\7")}
"""Of a record: the body, which its checksum shows, and what makes it no record."""


def places(root, topic):
    """Physical offsets of the messages of a queue of a store that nobody has open."""
    from regulus.spark.store.files import StoreFiles

    store = StoreFiles(str(root))
    queue = store.queue(topic, 0)
    return [queue.unit(offset).physical_offset for offset in range(*queue.bounds(store.log))]


@pytest.fixture
def damaged_store(tmp_path):
    """A store with one queue of `TopicA`, and many log files of another topic behind it, which recovery looks at."""
    root = tmp_path / "store"
    opened = open_store(root)
    fill(opened, COUNT)
    fill(opened, 80, topic="TopicB", first=100)
    opened.close()
    return root


def gaps(rows):
    return [(row["queue_offset"], int(dict(row["properties"])["GAP_END"])) for row in rows
            if row["message_type"] == "gap"]


def archived(archive, **options):
    return archived_rows(archive, "queue_offset", "message_type", "properties", topic="TopicA", **options)


@pytest.mark.parametrize("kind", sorted(DAMAGES))
@pytest.mark.parametrize("numbers", [(0,), (COUNT - 1,), (0, 1, COUNT - 2, COUNT - 1), (0, 15, COUNT - 1)])
@pytest.mark.parametrize("range_size", [1024, 1 << 20])
def test_a_read_misses_what_was_rejected_at_the_ends(damaged_store, tmp_path, kind, numbers, range_size):
    within, data = DAMAGES[kind]
    for number in numbers:
        write(damaged_store, places(damaged_store, "TopicA")[number] + within, data)
    archive = tmp_path / "archive"
    archive_store(damaged_store, archive, range_size=range_size)
    with pytest.raises(DataLoss, match=r"TopicA/broker-a/0: messages? \d+.* gone, as the log had no good record"):
        archived(archive)
    rows = archived(archive, failOnDataLoss="report")
    assert [row["queue_offset"] for row in rows if row["message_type"] != "gap"] == [
        number for number in range(COUNT) if number not in numbers]
    assert sorted(number for start, end in gaps(rows) for number in range(start, end)) == list(numbers)
    assert [manifest.unplaced for manifest in archive_manifest.load(archive) if manifest.unplaced] == []


def test_what_was_rejected_is_no_loss_of_another_time(damaged_store, tmp_path):
    write(damaged_store, places(damaged_store, "TopicA")[0] + 88, b"XX")
    archive_store(damaged_store, tmp_path / "archive", range_size=1024)
    later = archived(tmp_path / "archive", startingTimestamp=1_700_000_000_000 + 20)
    assert [row["queue_offset"] for row in later] == list(range(20, COUNT))


def test_a_queue_goes_on_behind_a_rejected_last_message(damaged_store, tmp_path):
    write(damaged_store, places(damaged_store, "TopicA")[-1] + 88, b"XX")
    archive = tmp_path / "archive"
    archive_store(damaged_store, archive)
    opened = open_store(damaged_store)
    fill(opened, 5, first=700)
    opened.close()
    archive_store(damaged_store, archive)
    rows = archived(archive, failOnDataLoss="report")
    assert gaps(rows) == [(COUNT - 1, COUNT)]
    assert len(rows) == COUNT - 1 + 5 + 1


def later():
    return datetime.now(UTC) + timedelta(days=1)


def audited(spark, archive):
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource

    source = LogSource({"archivePath": str(archive)})
    return audit(spark, AuditRequest(source=source, topics=("TopicA",)), later())


@pytest.mark.parametrize("kind", ["body", "magic"])
@pytest.mark.parametrize("numbers", [(0,), (COUNT - 1,), (0, 1, 15, COUNT - 1)])
def test_the_audit_counts_what_was_rejected_at_the_ends(spark, damaged_store, tmp_path, kind, numbers):
    within, data = DAMAGES[kind]
    for number in numbers:
        write(damaged_store, places(damaged_store, "TopicA")[number] + within, data)
    archive_store(damaged_store, tmp_path / "archive", range_size=1024)
    found = audited(spark, tmp_path / "archive")
    assert (found.passed, found.missing, found.messages) == (False, len(numbers), COUNT - len(numbers))
    assert found.count("rejects_without_place") == 0
    found.close()


def test_rejects_that_nothing_explains_are_told_of(spark, damaged_store, tmp_path):
    """A backup of the log alone: which message a queue had last, in bytes that are no record, nobody knows."""
    write(damaged_store, places(damaged_store, "TopicA")[-1] + 4, b"\1\2\3\4")
    shutil.rmtree(damaged_store / "consumequeue")
    archive_store(damaged_store, tmp_path / "archive")
    found = audited(spark, tmp_path / "archive")
    assert (found.missing, found.count("rejects_without_place")) == (0, 1)
    assert "1 rejected without a place" in found.sentence()
    found.close()


def test_rejects_that_nothing_explains_outlive_a_compaction(damaged_store, tmp_path):
    archive = tmp_path / "archive"
    write(damaged_store, places(damaged_store, "TopicA")[-1] + 4, b"\1\2\3\4")
    shutil.rmtree(damaged_store / "consumequeue")
    archive_store(damaged_store, archive, range_size=1024)
    config = CompactConfig(archive_path=str(archive), range_size=1 << 20)
    assert compact(LocalTasks(), config, "run", 100 * 365 * DAY_MS, None, nothing).compacted
    assert [manifest.unplaced for manifest in archive_manifest.load(archive)] == [1]


def test_a_topic_of_which_all_was_rejected_is_a_topic_of_the_archive(tmp_path):
    from regulus.pipeline.jobs.log_source import _topics_of_an_archive

    opened = open_store(tmp_path / "store")
    fill(opened, 2)
    fill(opened, 80, topic="TopicB", first=100)
    opened.close()
    for place in places(tmp_path / "store", "TopicA"):
        write(tmp_path / "store", place + 88, b"XX")
    archive_store(tmp_path / "store", tmp_path / "archive")
    assert _topics_of_an_archive(Look(str(tmp_path / "archive")), "0") == {"TopicA", "TopicB"}


# --- topics of one name ----------------------------------------------------------------------------------------------


@pytest.fixture
def two_topics(tmp_path):
    """A store in which a topic was deleted and made again, with some messages of another one in between."""
    store = open_store(tmp_path / "store")
    fill(store, COUNT)
    store.delete_topic("TopicA")
    fill(store, 60, topic="TopicB", first=100)
    fill(store, 7, first=500)
    fill(store, 60, topic="TopicB", first=160)
    dispatch(store)
    store.close()
    return tmp_path / "store"


@pytest.mark.parametrize("range_size", [1024, 1 << 20])
def test_an_audit_of_two_topics_of_one_name_misses_nothing(spark, two_topics, tmp_path, range_size):
    archive_store(two_topics, tmp_path / "archive", range_size=range_size)
    found = audited(spark, tmp_path / "archive")
    assert found.passed
    assert (found.messages, found.queues, found.missing) == (COUNT + 7, 1, 0)
    found.close()


@pytest.mark.parametrize("range_size", [1024, 1 << 20])
@pytest.mark.parametrize("numbers", [(3,), (COUNT - 1,), (2, COUNT, COUNT + 3)])
def test_what_the_earlier_topic_lacks_is_not_hidden_by_the_later_one(spark, two_topics, tmp_path, range_size, numbers):
    """Nor the other way round; both have messages under these numbers."""
    data = b"".join(path.read_bytes() for path in sorted((two_topics / "commitlog").iterdir()))
    bodies = [b"%08d" % number for number in [*range(COUNT), *range(500, 507)]]
    for number in numbers:
        write(two_topics, data.index(bodies[number] + b"...") + 3, b"X")
    report = archive_store(two_topics, tmp_path / "archive", range_size=range_size)
    assert report.rejected == len(numbers)
    found = audited(spark, tmp_path / "archive")
    assert (found.passed, found.missing) == (False, len(numbers))
    found.close()
