"""Compaction gives what archiving at once would have given; readers see the one or the other."""

import os
from pathlib import Path

import pytest

from regulus.errors import ArchiveFailed, ArchiveLocked, DataLoss, OptionError
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive.compact import DAY_MS, CompactConfig, compact, plan_groups
from regulus.pipeline.archive.files import ArchiveLock
from regulus.pipeline.range_tasks import LocalTasks, SparkTasks
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import ArchivedFile, Manifest, Range, Stretch
from regulus.spark.archive.place import ArchivePlace
from regulus.spark.open_place import scan_part
from regulus.spark.options import parse_options
from regulus.spark.readers.stream_planner import StreamPlanner
from tests.archives import archive_store, archived_rows, files_of, nothing
from tests.stores import NOW, a_message, dispatch, fill, open_store

LATER = 100 * 365 * DAY_MS
"""Far enough ahead that every day is over and every manifest old."""


def run(archive: Path, now_ms: int = LATER, tasks=None, **changes):
    config = CompactConfig(archive_path=str(archive), **{"range_size": 4096, **changes})
    return compact(tasks or LocalTasks(), config, "run", now_ms, None, nothing)


def rows(archive: Path):
    return sorted(archived_rows(archive, subscribePattern=".*", failOnDataLoss="false"),
                  key=lambda row: row["physical_offset"])


def test_the_bytes_are_those_of_archiving_at_once(store, tmp_path, change_log):
    change_log(90, b"X")
    archive_store(store, tmp_path / "small", range_size=1024)
    archive_store(store, tmp_path / "large", range_size=4096)
    before = rows(tmp_path / "small")
    report = run(tmp_path / "small")
    assert len(report.compacted) == len(archive_manifest.ranges(tmp_path / "large"))
    assert rows(tmp_path / "small") == before
    run(tmp_path / "small")
    assert files_of(tmp_path / "small") == files_of(tmp_path / "large")
    assert run(tmp_path / "small").compacted == []


@pytest.mark.spark
def test_spark_gives_the_same_bytes(spark, store, tmp_path):
    for name in ("here", "spark"):
        archive_store(store, tmp_path / name, range_size=1024)
    run(tmp_path / "here")
    run(tmp_path / "spark", tasks=SparkTasks(spark))
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "here")


def test_what_was_replaced_stays_for_queries_that_run(store, tmp_path):
    archive = tmp_path / "archive"
    archive_store(store, archive, range_size=1024)
    before = files_of(archive)
    run(archive)
    assert before.items() <= files_of(archive).items()
    assert run(archive, now_ms=LATER, keep_superseded_ms=2 * LATER).removed == []
    assert len(run(archive).removed) > 0


def test_what_was_replaced_stays_as_long_as_what_replaced_it_is_young(store, tmp_path):
    """However old it is itself: a query may have planned with it right before."""
    archive = tmp_path / "archive"
    archive_store(store, archive, range_size=1024)
    for part in archive_manifest.ranges(archive):
        os.utime(archive / archive_manifest.manifest_path(part), (0, 0))
    report = run(archive)
    assert report.compacted
    made_ms = max((archive / archive_manifest.manifest_path(part)).stat().st_mtime_ns // 1_000_000
                  for part in report.compacted)
    assert run(archive, now_ms=made_ms + 5_000, keep_superseded_ms=3_600_000).removed == []


def test_archiving_goes_on_behind_what_was_compacted(store, tmp_path):
    archive = tmp_path / "archive"
    archive_store(store, archive, range_size=1024)
    run(archive)
    opened = open_store(store)
    fill(opened, 10, topic="TopicB", first=300)
    opened.close()
    assert archive_store(store, archive, range_size=1024).rows == 10
    assert len(rows(archive)) == 90


def test_only_days_that_are_over_and_neighbours_are_put_together():
    def manifest(start, end, day="2023-11-14", broker="a"):
        file = ArchivedFile(path="p", topic="t", day=day, rows=1, size=1, sha256="", log_bytes=1, queues={})
        return Manifest(range=Range(broker, start, end), records=1, rows=1, hidden=0, rejected=0, queues={},
                        files=(file,))

    def planned(*manifests, size=100):
        return [[part.range.start for part in group] for group in plan_groups(manifests, size, "2023-11-15")]

    small = [manifest(start, start + 10) for start in range(0, 50, 10)]
    assert planned(*small) == [[0, 10, 20, 30, 40]]
    assert planned(*small, size=20) == [[0, 10], [20, 30]]
    assert planned(small[0], small[2], small[3]) == [[20, 30]]
    assert planned(*small[:3], manifest(30, 40, "2023-11-15"), manifest(40, 50)) == [[0, 10, 20]]
    assert planned(manifest(0, 10), manifest(10, 20, broker="b")) == []
    assert planned(manifest(0, 90), manifest(90, 95), manifest(95, 99)) == [[0, 90, 95]]


def test_a_topic_made_anew_begins_a_group():
    def manifest(start, *, day="2023-11-14", **stretches):
        file = ArchivedFile(path="p", topic="t", day=day, rows=1, size=1, sha256="", log_bytes=1, queues={})
        queues = {(topic, 0): tuple(Stretch(*part, 0) for part in parts) for topic, parts in stretches.items()}
        return Manifest(range=Range("a", start, start + 10), records=1, rows=1, hidden=0, rejected=0, queues=queues,
                        files=(file,))

    def planned(*manifests):
        return [[part.range.start for part in group] for group in plan_groups(manifests, 1000, "2023-11-15")]

    other = {"other": [(0, 5)]}
    old, new, more = manifest(0, t=[(0, 50)]), manifest(20, t=[(0, 9)]), manifest(30, t=[(9, 60)])
    assert planned(old, manifest(10, **other), new, more) == [[0, 10], [20, 30]]
    # Where the queue ended stands before the group, in a range that may not be compacted yet.
    assert planned(manifest(0, day="2023-11-15", t=[(0, 50)]), manifest(10, **other), new, more) == [[20, 30]]
    # A queue that goes on, and one with rejected messages in between, was not made anew.
    assert planned(old, manifest(10, **other), manifest(20, t=[(50, 55), (57, 60)]), manifest(30, t=[(61, 62)])) == [
        [0, 10, 20, 30]]
    # Made anew within one range: nothing joins it, so that it expires with its own days.
    assert planned(old, manifest(10, t=[(50, 55), (0, 8)]), manifest(20, t=[(8, 9)]), manifest(30, t=[(9, 11)])) == [
        [20, 30]]


class Stream:
    """The planning of a query over a topic of an archive, and its batches."""

    def __init__(self, archive: Path, topic: str, start: dict | None = None) -> None:
        self.options = parse_options({"archivePath": str(archive), "topic": topic, "startingOffsets": "earliest",
                                      "maxOffsetsPerTrigger": "5"}, streaming=True)
        self.planner = StreamPlanner(self.options, ArchivePlace(self.options), lambda: 0.0, lambda: 0, pause=int)
        self.offset = start or self.planner.initial()

    def batch(self) -> list[bytes]:
        end = self.planner.latest(self.offset, is_limited=True)
        parts = self.planner.partitions(self.offset, end) if end != self.offset else []
        self.offset = end
        return [row["body"] for part in parts for batch in scan_part(self.options, ("body",), part)
                for row in batch.to_pylist()]

    def rest(self) -> list[int]:
        """The numbers that are still to be read."""
        found: list[bytes] = []
        while batch := self.batch():
            found += batch
        return [int(body[:8]) for body in found]


@pytest.fixture
def made_anew(tmp_path: Path) -> Path:
    """An archive in small ranges: 10 messages of a topic that is deleted, 20 of another one, and of a topic of the
    first one's name 30, from number 500 on."""
    store = open_store(tmp_path / "store")
    fill(store, 10)
    fill(store, 20, topic="TopicB", first=100)
    store.delete_topic("TopicA")
    fill(store, 30, first=500)
    fill(store, 20, topic="TopicB", first=120)
    store.close()
    archive_store(tmp_path / "store", tmp_path / "archive", range_size=1024)
    return tmp_path / "archive"


@pytest.mark.parametrize("range_size", [4096, 8192, 1 << 20])
@pytest.mark.parametrize(("topic", "numbers"), [("TopicA", range(500, 530)), ("TopicB", range(100, 140))])
def test_a_stream_reads_on_over_what_was_compacted(made_anew, topic, numbers, range_size):
    before = rows(made_anew)
    stream = Stream(made_anew, topic)
    found = [int(body[:8]) for body in stream.batch()]
    assert len(found) == 5
    epochs = stream.offset["topics"][topic]["epoch"]
    assert (epochs["broker-a"] != -1) == (topic == "TopicA")    # an archive's epochs count down from -1
    assert run(made_anew, range_size=range_size, keep_superseded_ms=0).compacted
    run(made_anew, range_size=range_size, keep_superseded_ms=0)
    restarted = Stream(made_anew, topic, stream.offset)
    assert found + restarted.rest() == found + stream.rest() == Stream(made_anew, topic).rest() == list(numbers)
    assert stream.offset["topics"][topic]["epoch"] == epochs
    assert rows(made_anew) == before


def test_old_days_expire_from_the_front(store, tmp_path):
    archive = tmp_path / "archive"
    archive_store(store, archive, range_size=4096)
    opened = open_store(store)
    later = NOW + 10 * DAY_MS
    for number in range(40):
        opened.append(a_message("TopicB", body=bytes(100)), later + number)
    dispatch(opened)
    opened.close()
    archive_store(store, archive, range_size=4096)
    assert run(archive, now_ms=later, range_size=1, expire_after_days=11).expired == []
    report = run(archive, now_ms=later, range_size=1, expire_after_days=5)
    assert len(report.expired) > 2
    assert all(name.count("dt=2023-11-14") for name in report.removed)
    with pytest.raises(DataLoss, match="are gone, no longer kept"):
        archived_rows(archive, topic="TopicB", startingOffsets='{"TopicB":{"0":0}}')
    left = archived_rows(archive, "queue_offset", topic="TopicB")
    assert {row["queue_offset"] for row in left} >= set(range(20, 60))
    assert archive_store(store, archive).rows == 0


@pytest.mark.parametrize("folder", ["messages", "_rejects"])
def test_bytes_that_rotted_get_no_checksum_that_agrees_with_them(store, tmp_path, change_log, folder):
    """Many a byte can change in a file that can be read all the same, and a page whose header rots is passed over."""
    change_log(90, b"X")
    archive = tmp_path / "archive"
    archive_store(store, archive, range_size=1024)
    path = next(path for path in sorted((archive / folder).rglob("*")) if path.is_file())
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    before = files_of(archive)
    with pytest.raises(ArchiveFailed, match=f"{path.name} has other bytes than its manifest says: bring the file back"):
        run(archive)
    assert files_of(archive) == before
    assert archive_files.verify(archive, archive_manifest.load(archive)) == [
        f"{path.relative_to(archive)} has other bytes than its manifest says"]


def test_what_is_refused(store, tmp_path):
    with pytest.raises(OptionError, match="no directory '_manifest'"):
        run(tmp_path)
    archive_store(store, tmp_path / "archive")
    with ArchiveLock(tmp_path / "archive", "the other"), pytest.raises(ArchiveLocked, match="by the other"):
        run(tmp_path / "archive")
