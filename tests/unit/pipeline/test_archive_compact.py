"""Compaction gives what archiving at once would have given; readers see the one or the other."""

from pathlib import Path

import pytest

from regulus.errors import ArchiveLocked, DataLoss, OptionError
from regulus.pipeline.archive_compact import DAY_MS, CompactConfig, compact, plan_groups
from regulus.pipeline.archive_files import ArchiveLock
from regulus.pipeline.range_tasks import LocalTasks, SparkTasks
from regulus.spark import archive_manifest
from regulus.spark.archive_manifest import ArchivedFile, Manifest, Range
from tests.archives import archive_store, archived_rows, files_of, nothing
from tests.stores import NOW, a_message, dispatch, fill, open_store

LATER = 100 * 365 * DAY_MS
"""Far enough ahead that every day is over and every manifest old."""


def run(archive: Path, now_ms: int = LATER, tasks=None, **changes):
    config = CompactConfig(archive_path=str(archive), **{"range_size": 4096, **changes})
    return compact(tasks or LocalTasks(), config, "run", now_ms, None, nothing)


def rows(archive: Path):
    return sorted(archived_rows(archive, subscribePattern=".*"), key=lambda row: row["physical_offset"])


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


def test_what_is_refused(store, tmp_path):
    with pytest.raises(OptionError, match="no directory '_manifest'"):
        run(tmp_path)
    archive_store(store, tmp_path / "archive")
    with ArchiveLock(tmp_path / "archive", "the other"), pytest.raises(ArchiveLocked, match="by the other"):
        run(tmp_path / "archive")
