"""The archive job as a whole: what is archived, what is refused, what the next run takes up."""

import base64
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from regulus.errors import ArchiveFailed, ArchiveLocked, ConfigError, DataLoss, OptionError
from regulus.model import sys_flag
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive import parquet as archive_parquet
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.files import ArchiveLock
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.archive.task import archive_range
from regulus.pipeline.range_tasks import LocalTasks, SparkTasks
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import manifest_path, ranges
from tests import store_ends as broken
from tests.archives import archive_store, archived_rows, files_of, manifests_of, nothing
from tests.stores import NOW, a_message, dispatch, fill, open_store


def everything(archive: Path, **options: str) -> list[tuple[str, int, int]]:
    rows = archived_rows(archive, "topic", "queue_id", "queue_offset", subscribePattern=".*", **options)
    return sorted((row["topic"], row["queue_id"], row["queue_offset"]) for row in rows)


ALL = sorted([("TopicA", queue, number) for queue in range(2) for number in range(30)]
             + [("TopicB", 0, number) for number in range(20)])


class FourCores(LocalTasks):
    """Has as many tasks as it was given, and which of them make row groups ahead."""

    parallelism = 4

    def __init__(self) -> None:
        self.ahead: list[list[bool]] = []

    def run(self, work, tasks):
        if work is archive_range:
            self.ahead.append([task.makes_ahead for task in tasks])
        return super().run(work, tasks)


def test_the_last_ranges_fewer_than_cores_are_made_ahead_and_come_out_alike(store, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_parquet, "ROW_GROUP_ROWS", 4)
    archive_store(store, tmp_path / "alone", range_size=2048)
    tasks = FourCores()
    config = ArchiveConfig(store_path=str(store), archive_path=str(tmp_path / "archive"), range_size=2048)
    report = run_archive(tasks, config, "run", None, None, nothing)
    count = len(report.ranges)
    assert count > 4
    assert count % 4
    assert tasks.ahead == [[False] * (count - count % 4) + [True] * (count % 4)]
    assert files_of(tmp_path / "archive") == files_of(tmp_path / "alone")


def test_each_message_once_and_nothing_the_second_time(store, tmp_path):
    archive = tmp_path / "archive"
    report = archive_store(store, archive)
    assert (report.rows, report.records, report.hidden, report.rejected) == (80, 80, 0, 0)
    assert (report.start, report.stop_reason) == (0, "")
    assert report.end == report.log_end
    assert everything(archive) == ALL
    assert archive_files.verify(archive, archive_manifest.load(archive)) == []
    before = files_of(archive)
    again = archive_store(store, archive)
    assert (again.rows, again.start, again.end) == (0, report.end, report.end)
    assert files_of(archive) == before


def test_a_grown_log_is_archived_from_where_it_was_left(store, tmp_path):
    archive = tmp_path / "archive"
    first = archive_store(store, archive)
    before = files_of(archive)
    opened = open_store(store)
    fill(opened, 10, topic="TopicB", first=200)
    opened.close()
    second = archive_store(store, archive)
    assert second.start == first.end
    assert second.rows == 10
    assert before.items() <= files_of(archive).items()
    assert len(everything(archive)) == 90


def test_the_size_of_ranges_and_the_number_of_runs_change_no_row(store, tmp_path):
    archive_store(store, tmp_path / "one", range_size=1 << 30)
    archive_store(store, tmp_path / "many", range_size=1024)
    assert len(ranges(tmp_path / "many")) > 2 * len(ranges(tmp_path / "one"))
    rows = [sorted(archived_rows(tmp_path / name, subscribePattern=".*"), key=lambda row: row["physical_offset"])
            for name in ("one", "many")]
    assert rows[0] == rows[1]


@pytest.mark.spark
def test_spark_gives_the_same_bytes(spark, store, tmp_path):
    archive_store(store, tmp_path / "here", range_size=1024)
    config = ArchiveConfig(store_path=str(store), archive_path=str(tmp_path / "spark"), range_size=1024)
    report = run_archive(SparkTasks(spark), config, "run", None, None, nothing)
    assert report.rows == 80
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "here")


def test_ranges_join_up_and_rows_are_sorted(store, tmp_path):
    archive_store(store, tmp_path / "archive", range_size=1500)
    manifests = manifests_of(tmp_path / "archive")
    assert all(left["to"] == right["from"] for left, right in pairwise(manifests))
    for manifest in manifests:
        for file in manifest["files"]:
            table = pq.read_table(tmp_path / "archive" / file["path"], partitioning=None).to_pylist()
            places = [(row["queue_id"], row["queue_offset"]) for row in table]
            assert places == sorted(places)
            assert {row["topic"] for row in table} == {file["topic"]}
            assert {f"{row['store_time']:%Y-%m-%d}" for row in table} == {file["day"]}


def test_a_message_at_midnight_is_of_the_next_day(tmp_path):
    store = open_store(tmp_path / "store")
    midnight = NOW - NOW % 86_400_000
    for now in (midnight - 1, midnight, midnight + 86_400_000):
        store.append(a_message(), now)
    dispatch(store)
    store.close()
    archive_store(tmp_path / "store", tmp_path / "archive")
    days = sorted(path.name for path in (tmp_path / "archive" / "messages").iterdir())
    assert days == ["dt=2023-11-13", "dt=2023-11-14", "dt=2023-11-15"]


def test_transactions_without_a_place_in_a_queue_are_counted_and_left_out(tmp_path):
    store = open_store(tmp_path / "store")
    for flags in (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
        store.append(a_message(sys_flag=flags), NOW)
    dispatch(store)
    store.close()
    report = archive_store(tmp_path / "store", tmp_path / "archive")
    assert (report.records, report.rows, report.hidden) == (3, 1, 2)


# --- what is damaged -------------------------------------------------------------------------------------------------


def test_a_record_with_a_wrong_checksum_is_rejected_and_the_run_goes_on(store, change_log, tmp_path):
    change_log(90, b"X")
    report = archive_store(store, tmp_path / "archive")
    assert (report.rows, report.rejected) == (79, 1)
    [path] = (tmp_path / "archive" / "_rejects").iterdir()
    line = json.loads(path.read_text())
    assert {key: line[key] for key in ("physical_offset", "topic", "queue_id", "queue_offset", "reason")} == {
        "physical_offset": 0, "topic": "TopicA", "queue_id": 0, "queue_offset": 0,
        "reason": "body and its checksum differ"}
    record = base64.b64decode(line["data"])
    assert record == (store / "commitlog" / f"{0:020d}").read_bytes()[:line["size"]]
    with pytest.raises(DataLoss, match="TopicA/broker-a/0: message 0 is gone, as the log had no good record"):
        everything(tmp_path / "archive")
    assert everything(tmp_path / "archive", failOnDataLoss="false") == [
        place for place in ALL if place != ("TopicA", 0, 0)]
    assert manifests_of(tmp_path / "archive")[0]["rejected"] == 1


def test_bytes_that_are_no_record_are_rejected_up_to_the_next_record(store, change_log, tmp_path):
    log = (store / "commitlog" / f"{0:020d}").read_bytes()
    second = int.from_bytes(log[:4], "big")
    change_log(second + 4, b"\0\0\0\0")
    report = archive_store(store, tmp_path / "archive")
    assert (report.rows, report.rejected) == (79, 1)
    [path] = (tmp_path / "archive" / "_rejects").iterdir()
    line = json.loads(path.read_text())
    assert (line["physical_offset"], line["size"]) == (second, int.from_bytes(log[second:second + 4], "big"))
    with pytest.raises(DataLoss, match="TopicA/broker-a/1: message 0 is gone"):
        everything(tmp_path / "archive")
    assert everything(tmp_path / "archive", failOnDataLoss="false") == [
        place for place in ALL if place != ("TopicA", 1, 0)]


def test_a_range_without_one_record_and_what_follows_it(store, change_log, tmp_path):
    """Nobody knows which messages a file of zeros had; the queues may go on behind them, in this run or a later one."""
    change_log(4096, bytes(4096))
    archive = tmp_path / "archive"
    report = archive_store(store, archive)
    assert report.rejected == 1
    assert report.end == report.log_end
    assert [manifest["unreadable"] for manifest in manifests_of(archive)][:3] == [0, 1, 0]
    assert manifests_of(archive)[1]["files"] == []
    left = everything(archive, failOnDataLoss="false")
    assert len(left) == report.rows < 80
    assert set(left) < set(ALL)
    for part, manifest in zip(ranges(archive)[2:], manifests_of(archive)[2:], strict=True):
        for file in manifest["files"]:
            (archive / file["path"]).unlink()
        (archive / manifest_path(part)).unlink()
    assert archive_store(store, archive).rejected == 0
    assert everything(archive, failOnDataLoss="false") == left


def test_what_recovery_would_cut_off_is_not_archived(store, change_log, tmp_path):
    whole = archive_store(store, tmp_path / "whole")
    last = archived_rows(tmp_path / "whole", "physical_offset", topic="TopicB")[-1]["physical_offset"]
    change_log(last + 90, b"X")
    report = archive_store(store, tmp_path / "archive")
    assert report.end == last < whole.end
    assert report.stop_reason == "body and its checksum differ"
    opened = open_store(store, cut_damaged_log=last)
    assert opened.commit_log_max_offset() == last
    opened.close()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_second_job_is_refused_by_the_name_of_the_first(store, tmp_path):
    archive = tmp_path / "archive"
    with ArchiveLock(archive, "nightly run (process 7 on host-a)"), pytest.raises(
            ArchiveLocked, match="is being written by nightly run"):
        archive_store(store, archive)
    (archive / "_lock").write_text("left by a killed job\n")
    assert archive_store(store, archive).rows == 80
    assert (archive / "_lock").read_text() == ""


def test_a_store_that_a_broker_has_open_needs_its_name_server(tmp_path):
    opened = open_store(tmp_path / "store")
    fill(opened, 3)
    with pytest.raises(OptionError, match="a broker is running on"):
        archive_store(tmp_path / "store", tmp_path / "archive")
    opened.close()
    assert archive_store(tmp_path / "store", tmp_path / "archive").rows == 3


def test_another_store_under_the_same_name_is_refused(store, tmp_path):
    archive_store(store, tmp_path / "archive")
    opened = open_store(tmp_path / "other")
    fill(opened, 3)
    opened.close()
    with pytest.raises(DataLoss, match="this is another store"):
        archive_store(tmp_path / "other", tmp_path / "archive")
    assert archive_store(tmp_path / "other", tmp_path / "archive", broker_name="broker-b").rows == 3
    assert len(everything(tmp_path / "archive")) == 83


def test_a_log_that_went_on_without_the_archive_is_refused_until_gaps_are_accepted(store, tmp_path):
    archive = tmp_path / "archive"
    opened = open_store(tmp_path / "early")
    fill(opened, 3, queues=2)
    opened.close()
    archive_store(tmp_path / "early", archive)
    for path in sorted((store / "commitlog").iterdir())[:2]:
        path.unlink()
    with pytest.raises(DataLoss, match="removed before they were archived"):
        archive_store(store, archive)
    report = archive_store(store, archive, accept_gaps=True)
    assert report.lost_before > 4096
    with pytest.raises(DataLoss, match="left the log before they were archived"):
        everything(archive)


def test_a_hole_in_a_queue_is_refused_and_nothing_is_visible(store, change_log, tmp_path):
    """A record that says it has another number than its place in the queue."""
    log = bytearray((store / "commitlog" / f"{0:020d}").read_bytes())
    third = 2 * int.from_bytes(log[:4], "big")
    change_log(third + 20, (7).to_bytes(8, "big"))
    with pytest.raises(ArchiveFailed, match=r"TopicA/0: messages .* are not in the log where they should be"):
        archive_store(store, tmp_path / "archive")
    assert files_of(tmp_path / "archive") == {}
    assert archive_store(store, tmp_path / "archive", accept_gaps=True).rows == 80


def test_a_record_that_the_consume_queue_has_and_the_log_has_not_is_missed(store, change_log, tmp_path):
    """A record that says it is of another topic."""
    log = (store / "commitlog" / f"{0:020d}").read_bytes()
    change_log(log.index(b"TopicA"), b"TopicC")
    with pytest.raises(ArchiveFailed, match=r"TopicA/0: messages? 0"):
        archive_store(store, tmp_path / "archive")


def test_a_directory_of_something_else_is_refused(store, tmp_path):
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "thesis.txt").touch()
    with pytest.raises(OptionError, match="is not empty and not an archive"):
        archive_store(store, tmp_path / "archive")
    with pytest.raises(ConfigError, match="a range of the log has 1 bytes"):
        ArchiveConfig(store_path="s", archive_path="a", range_size=1)
    with pytest.raises(OptionError, match="no directory 'commitlog'"):
        archive_store(tmp_path, tmp_path / "other")


def test_another_manifest_of_the_range_is_not_overwritten(store, tmp_path):
    archive = tmp_path / "archive"
    archive_store(store, archive)
    [first, *_] = ranges(archive)
    path = archive / manifest_path(first)
    kept = path.read_bytes()
    manifests = archive_manifest.load(archive)
    changed = replace(manifests[0], records=999)
    with pytest.raises(ArchiveFailed, match="says something else"):
        archive_files.commit(archive, changed, [], "run", nothing)
    assert path.read_bytes() == kept


# --- topics that come and go -----------------------------------------------------------------------------------------


def test_a_topic_deleted_and_made_anew_is_archived_on(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 30)
    store.delete_topic("TopicA")
    fill(store, 7, first=500)
    store.close()
    report = archive_store(tmp_path / "store", tmp_path / "archive", range_size=1024)
    assert report.rows == 37
    archive_store(tmp_path / "store", tmp_path / "one", range_size=1 << 20)
    assert everything(tmp_path / "one") == everything(tmp_path / "archive")
    assert len({*everything(tmp_path / "one")}) == 30
    stretches = [part for manifest in manifests_of(tmp_path / "archive")
                 for part in manifest["queues"].get("TopicA", {}).get("0", [])]
    assert stretches[0][0] == 0
    assert [part for part in stretches if part[0] == 0][1:]


def test_a_backup_without_consume_queues_is_archived_too(store, tmp_path):
    shutil.copytree(store / "commitlog", tmp_path / "backup" / "commitlog")
    archive_store(tmp_path / "backup", tmp_path / "archive")
    assert everything(tmp_path / "archive") == ALL


def test_bodies_with_records_in_them_do_not_mislead_the_cuts(tmp_path):
    """A body that is itself a piece of a log, with a record that claims the very place where it lies."""
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 16)
    fill(store, 3)
    inner = bytearray((tmp_path / "store" / "commitlog" / f"{0:020d}").read_bytes()[:300])
    size = int.from_bytes(inner[:4], "big")
    start = store.commit_log_max_offset()
    body_at = start + 88
    inner[28:36] = (body_at + 1000).to_bytes(8, "big")
    body = bytes(1000) + bytes(inner[:size]) + bytes(1000)
    store.append(a_message(body=body, UNIQ_KEY="evil"), NOW)
    fill(store, 3, first=10)
    store.close()
    report = archive_store(tmp_path / "store", tmp_path / "archive", range_size=body_at + 900)
    assert report.rows == 7
    [row] = archived_rows(tmp_path / "archive", topic="TopicA", startingOffsets='{"TopicA":{"0":3}}',
                          endingOffsets='{"TopicA":{"0":4}}')
    assert row["body"] == body
    assert row["body_crc"] == crc32(body) & 0x7FFFFFFF


# --- the gate --------------------------------------------------------------------------------------------------------


def test_the_gate_is_told_only_what_readers_see(store, tmp_path):
    archive = tmp_path / "archive"
    told = []

    class Broker:
        """A broker that has flushed a part of the store."""

        flushed_offset = 6000
        message_delay_level = "1s 5s"

        def begin(self, identity: str) -> None:
            pass

        def archived(self, physical_offset: int, identity: str) -> None:
            seen = archived_rows(archive, "physical_offset", "store_size", subscribePattern=".*")
            assert max(row["physical_offset"] + row["store_size"] for row in seen) <= physical_offset
            assert archive_manifest.load(archive)[-1].range.end == physical_offset
            told.append(physical_offset)

    archive_store(store, tmp_path / "other")
    borders = [row["physical_offset"] for row in archived_rows(tmp_path / "other", subscribePattern=".*")]
    Broker.flushed_offset = min(border for border in borders if border > 6000)
    config = ArchiveConfig(store_path=str(store), archive_path=str(archive), range_size=1024)
    report = run_archive(LocalTasks(), config, "run", Broker(), None, nothing)
    assert report.end == Broker.flushed_offset
    assert told[-1] == Broker.flushed_offset


def test_a_flushed_offset_within_a_record_waits_for_the_rest(store, tmp_path):
    class Broker:
        flushed_offset = 101
        message_delay_level = "1s"

        def begin(self, identity: str) -> None:
            pass

        def archived(self, physical_offset: int, identity: str) -> None:
            raise AssertionError("nothing was archived")

    config = ArchiveConfig(store_path=str(store), archive_path=str(tmp_path / "archive"))
    with pytest.raises(ArchiveFailed, match="a record crosses that place"):
        run_archive(LocalTasks(), config, "run", Broker(), None, nothing)
    assert files_of(tmp_path / "archive") == {}


@pytest.mark.parametrize("stored_ms", [1_081_606_291_034, 2_167_631_926_700])
def test_a_log_is_the_same_whatever_the_ms_of_its_last_message(tmp_path, stored_ms):
    """Seconds in floating point have these times a little below."""
    opened = open_store(tmp_path / "store")
    opened.append(a_message(), stored_ms)
    dispatch(opened)
    opened.close()
    archive_store(tmp_path / "store", tmp_path / "archive")
    assert archive_store(tmp_path / "store", tmp_path / "archive").rows == 0


def test_another_store_is_refused_where_the_last_range_has_no_row(tmp_path):
    """Of the rows before it the last one is looked for."""
    for name, body in (("store", b"mine"), ("other", b"theirs")):
        opened = open_store(tmp_path / name)
        fill(opened, 20, first=0 if name == "store" else 1000)
        for number in range(20):
            opened.append(a_message(body=body * 20, sys_flag=sys_flag.TRANSACTION_PREPARED), NOW + 100 + number)
        dispatch(opened)
        opened.close()
    archive_store(tmp_path / "store", tmp_path / "archive", range_size=1024)
    assert archive_manifest.load(tmp_path / "archive")[-1].rows == 0
    assert archive_store(tmp_path / "store", tmp_path / "archive").rows == 0
    with pytest.raises(DataLoss, match="this is another store, or one that lost its end"):
        archive_store(tmp_path / "other", tmp_path / "archive")


@pytest.mark.parametrize("size", [100, 137])
def test_a_log_that_lost_its_end_and_went_on_is_refused(tmp_path, size):
    """It may end behind the archive again, with other messages in the same places, or between them."""
    opened = open_store(tmp_path / "store")
    fill(opened, 40)
    opened.close()
    shutil.copytree(tmp_path / "store", tmp_path / "older")
    opened = open_store(tmp_path / "store")
    fill(opened, 20, first=40)
    opened.close()
    archive_store(tmp_path / "store", tmp_path / "archive")
    opened = open_store(tmp_path / "older")
    fill(opened, 40, first=1040, size=size)
    opened.close()
    before = files_of(tmp_path / "archive")
    with pytest.raises(DataLoss, match=r"and the log has there .*: this is another store, or one that lost its end"):
        archive_store(tmp_path / "older", tmp_path / "archive")
    assert files_of(tmp_path / "archive") == before


@pytest.mark.parametrize("name", [".", ".."])
def test_a_brokers_name_that_no_folder_can_have_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="no folder can have"):
        archive_store(tmp_path / "store", tmp_path / "archive", broker_name=name)


@pytest.mark.parametrize(("kind", "behind"), [("cut log", 20), ("zeroed tail", 20), ("queue folder gone", 0),
                                              ("half unit", 0), ("rotten last record", 2)])
def test_units_that_point_behind_the_end_of_the_log_are_told(tmp_path, kind, behind):
    """What only the queues lost is archived nevertheless, for the log has it."""
    opened = open_store(tmp_path / "store")
    fill(opened, 40, topic=broken.TOPIC, queues=2)
    opened.close()
    broken.name_topics(tmp_path / "store", broken.TOPIC)
    broken.damage(tmp_path / "store", kind, 40)
    report = archive_store(tmp_path / "store", tmp_path / "archive")
    assert (report.rows, report.units_behind) == (40 - behind, behind)
    told = f"{behind} units of consume queues point behind the log's end at {report.log_end}"
    assert (told in str(report)) == bool(behind)
