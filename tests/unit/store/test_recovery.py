import os
import shutil
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNewer
from regulus.record.layout import MAGIC_V2
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, crashed_copy, dispatch, fill, open_store, small_config


def closed(root: Path, count: int = 30, **settings: int) -> list[bytes]:
    store = open_store(root, **settings)
    messages = fill(store, count, size=300)
    store.close()
    return [message.body for message in messages]


def log_file(root: Path, start: int) -> Path:
    return root / "commitlog" / f"{start:020d}"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_a_clean_stop_reads_only_what_may_not_be_dispatched(tmp_path: Path) -> None:
    expected = closed(tmp_path)
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.is_clean_stop
    assert report.scanned_from == report.kept_to // 4096 * 4096
    assert (report.redispatched, report.dropped_bytes, report.stop_reason, report.dropped_files) == (0, 0, "", ())
    assert bodies(store) == expected
    assert (tmp_path / "abort").read_text().startswith(f"{os.getpid()}\n")
    store.close()
    assert not (tmp_path / "abort").exists()


def test_a_crash_keeps_everything_that_was_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    messages = fill(store, 30, size=300)
    store.append(a_message(body=b"not dispatched"), NOW)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    again = FileMessageStore(small_config(copy))
    report = again.open()
    assert not report.is_clean_stop
    assert (report.scanned_from, report.records, report.redispatched) == (0, 31, 1)
    assert bodies(again) == [message.body for message in messages] + [b"not dispatched"]
    assert again.flushed_offset == report.kept_to


@pytest.mark.parametrize(("last", "first_file", "records"), [
    (10_000, 6, 7), (3_054, 6, 7), (3_053, 5, 16), (3_045, 5, 16), (3_044, 4, 25), (3_008, 0, 61)])
def test_a_crash_begins_at_the_last_file_that_began_three_seconds_before_the_checkpoint(
        tmp_path: Path, last: int, first_file: int, records: int) -> None:
    """A file of 4096 bytes holds nine of these records, and message n is stored n ms after the first: file k begins
    at 9 k ms. The last message, stored at `last` ms, makes the time of the checkpoint."""
    store = open_store(tmp_path / "store")
    fill(store, 60, size=300)
    fill(store, 1, first=last)
    store.flush_commit_log()
    store.flush_consume_queues(0)
    store.flush_checkpoint()
    report = FileMessageStore(small_config(crashed_copy(tmp_path / "store", tmp_path / "copy"))).open()
    assert (report.scanned_from, report.records) == (first_file * 4096, records)
    assert report.kept_to == store.commit_log_max_offset()


def test_a_crash_before_the_first_checkpoint_reads_everything(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 60, size=300)
    store.flush_commit_log()
    store.flush_consume_queues(0)
    report = FileMessageStore(small_config(crashed_copy(tmp_path / "store", tmp_path / "copy"))).open()
    assert (report.scanned_from, report.records) == (0, 60)


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_torn_tail_is_cut_and_reported(tmp_path: Path, stop: str) -> None:
    expected = closed(tmp_path)
    if stop == "crash":
        (tmp_path / "abort").touch()
    store = open_store(tmp_path)
    end = store.commit_log_max_offset()
    size = end - store.queue_units("TopicA", 0, 29, 1)[0].physical_offset
    store.close()
    overwrite(log_file(tmp_path, end // 4096 * 4096), end % 4096 - 40, b"\0" * 40)
    if stop == "crash":
        (tmp_path / "abort").touch()
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.kept_to == end - size
    assert report.stop_reason
    assert 0 < report.dropped_bytes <= size
    assert "cut at" in str(report)
    assert bodies(store) == expected[:-1]
    assert store.max_offset("TopicA", 0) == 29
    data = log_file(tmp_path, end // 4096 * 4096).read_bytes()
    assert not any(data[report.kept_to % 4096:])
    fill(store, 1, first=29, size=300)
    assert bodies(store) == expected


def test_a_wrong_checksum_ends_the_log(tmp_path: Path) -> None:
    closed(tmp_path, 3)
    overwrite(log_file(tmp_path, 0), 120, b"!")
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert (report.kept_to, report.stop_reason) == (0, "body and its checksum differ")
    assert store.max_offset("TopicA", 0) == 0
    assert store.append(a_message(), NOW).queue_offset == 0


def test_without_the_check_a_wrong_checksum_is_not_seen(tmp_path: Path) -> None:
    closed(tmp_path, 3)
    overwrite(log_file(tmp_path, 0), 120, b"!")
    assert FileMessageStore(small_config(tmp_path, check_crc_on_recover=False)).open().records == 3


def test_a_record_at_another_place_than_its_own_is_none(tmp_path: Path) -> None:
    closed(tmp_path, 3)
    path = log_file(tmp_path, 0)
    data = path.read_bytes()
    size = int.from_bytes(data[:4], "big")
    overwrite(path, 3 * size, data[:size])
    report = FileMessageStore(small_config(tmp_path)).open()
    assert report.kept_to == 3 * size
    assert report.stop_reason == "record says it is at 0"
    assert report.dropped_bytes > 0


def test_damage_in_the_middle_after_a_clean_stop_is_not_mended_by_losing_the_rest(tmp_path: Path) -> None:
    expected = closed(tmp_path)
    for name in ("consumequeue", "index", "checkpoint"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    overwrite(log_file(tmp_path, 4096), 4, b"\0\0\0\0")
    with pytest.raises(StoreDamaged, match=r"damaged at 4096 .*`abort`"):
        FileMessageStore(small_config(tmp_path)).open()
    (tmp_path / "abort").touch()
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.kept_to == 4096
    assert report.dropped_files == (f"{12288:020d}", f"{8192:020d}", f"{4096:020d}")
    assert bodies(store) == expected[:9]


def test_a_refused_store_is_as_it_was(tmp_path: Path) -> None:
    closed(tmp_path)
    log_file(tmp_path, 0).write_bytes(b"short")
    before = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog"):
        FileMessageStore(small_config(tmp_path)).open()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    closed(tmp_path)
    log_file(tmp_path, 4096).unlink()
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(StoreDamaged, match="00000000000000004096 is missing"):
        FileMessageStore(small_config(tmp_path)).open()


def test_deleted_first_files_are_no_damage(tmp_path: Path) -> None:
    expected = closed(tmp_path)
    log_file(tmp_path, 0).unlink()
    for abort in (False, True):
        if abort:
            (tmp_path / "abort").touch()
            (tmp_path / "checkpoint").unlink()
        store = open_store(tmp_path)
        assert store.commit_log_min_offset() == 4096
        assert 0 < store.min_offset("TopicA", 0) < 30
        assert bodies(store) == expected[store.min_offset("TopicA", 0):]
        store.close()


@pytest.mark.parametrize("abort", [False, True])
def test_queues_index_and_checkpoint_are_rebuilt_from_the_log_alone(tmp_path: Path, abort: bool) -> None:
    expected = closed(tmp_path)
    for name in ("consumequeue", "index"):
        shutil.rmtree(tmp_path / name)
    (tmp_path / "checkpoint").unlink()
    if abort:
        (tmp_path / "abort").touch()
    store = FileMessageStore(small_config(tmp_path))
    assert store.open().redispatched == 30
    assert bodies(store) == expected
    assert len(store.query_message("TopicA", "U00000007", 10, 0, NOW * 2).buffers) == 1


@pytest.mark.parametrize(("left", "count"), [("same boot", 1), ("another boot", 0), ("nothing", 0)])
def test_the_index_survives_a_kill_but_not_surely_a_power_cut(tmp_path: Path, left: str, count: int) -> None:
    """Seen where the walk of recovery does not come by: keys of messages before the checkpoint."""
    store = open_store(tmp_path / "store", max_index_num=10_000)
    fill(store, 60, size=300)
    fill(store, 1, first=10_000)
    store.flush_commit_log()
    store.flush_consume_queues(0)
    store.flush_checkpoint()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    if left != "same boot":
        (copy / "abort").write_text("4711\n00000000-0000-0000-0000-000000000000\n" if left == "another boot" else "")
    again = open_store(copy, max_index_num=10_000)
    assert len(again.query_message("TopicA", "U00000001", 10, 0, NOW * 2).buffers) == count
    assert len(again.query_message("TopicA", "U00010000", 10, 0, NOW * 2).buffers) >= 1


def test_a_lost_log_takes_its_queues_along(tmp_path: Path) -> None:
    closed(tmp_path)
    shutil.rmtree(tmp_path / "commitlog")
    store = FileMessageStore(small_config(tmp_path))
    assert store.open().kept_to == 0
    assert store.queues() == []
    assert store.append(a_message(), NOW).queue_offset == 0


def test_queues_ahead_of_the_log_are_cut(tmp_path: Path) -> None:
    expected = closed(tmp_path)
    last = max((tmp_path / "commitlog").iterdir())
    last.unlink()
    store = open_store(tmp_path)
    kept = store.max_offset("TopicA", 0)
    assert 0 < kept < 30
    assert bodies(store) == expected[:kept]


def test_files_made_ahead_are_removed_after_a_crash(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 3)
    store.allocate_ahead()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    report = FileMessageStore(small_config(copy)).open()
    assert report.dropped_files == (f"{4096:020d}",)
    assert (report.dropped_bytes, report.stop_reason) == (0, "")


def test_a_record_of_a_later_format_is_not_thrown_away(tmp_path: Path) -> None:
    closed(tmp_path, 3)
    overwrite(log_file(tmp_path, 0), 4, ((MAGIC_V2 + 4) & 0xFFFFFFFF).to_bytes(4, "big"))
    with pytest.raises(StoreNewer, match="later format"):
        FileMessageStore(small_config(tmp_path)).open()


def test_a_topic_made_anew_before_a_crash_keeps_its_new_messages(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 8)
    store.delete_topic("TopicA")
    for number in range(3):
        store.append(a_message(body=b"new %d" % number), NOW)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    again = FileMessageStore(small_config(copy))
    again.open()
    assert bodies(again) == [b"new 0", b"new 1", b"new 2"]


def test_records_longer_than_the_window_are_read(tmp_path: Path) -> None:
    settings = {"mapped_file_size_commit_log": 64 << 20}
    store = open_store(tmp_path / "store", **settings)
    for size in (10, 9 << 20, 20 << 20, 5):
        store.append(a_message(body=b"x" * size), NOW)
    dispatch(store)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    report = FileMessageStore(small_config(copy, **settings)).open()
    assert (report.records, report.kept_to) == (4, store.commit_log_max_offset())


def test_a_crash_within_recovery_is_a_crash(tmp_path: Path) -> None:
    closed(tmp_path)
    FileMessageStore(small_config(tmp_path)).open()
    copy = crashed_copy(tmp_path, tmp_path.with_name("copy"))
    assert not FileMessageStore(small_config(copy)).open().is_clean_stop
