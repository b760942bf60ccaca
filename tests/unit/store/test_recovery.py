import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNewer, StoreNotWritable
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.record import message_record
from regulus.record.layout import BODY_START_V4, BORN_HOST, HOST_V4_SIZE, MAGIC_V1, MAGIC_V2
from regulus.record.store_checkpoint import StoreCheckpoint
from regulus.record.store_checkpoint import decode as decode_checkpoint
from regulus.record.store_checkpoint import encode as encode_checkpoint
from regulus.record.synced_mark import decode as decode_mark
from regulus.store import disk, recovery
from regulus.store.file_message_store import FileMessageStore
from regulus.store.recovery import STRAYS_NAMED_MAX
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


def test_a_store_that_is_made_or_comes_back_whole_is_nothing_to_warn_of(tmp_path: Path) -> None:
    store = FileMessageStore(small_config(tmp_path))
    assert not store.open().is_warning
    store.append(a_message(), NOW)      # without keys
    store.close()
    for _ in range(2):
        store = FileMessageStore(small_config(tmp_path))
        assert not store.open().is_warning
        fill(store, 30)
        store.close()


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


def unsynced(root: Path, target: Path, synced: int, count: int, **settings: int) -> list[bytes]:
    """What a crash left in `target` of a store that had synced `synced` of its `count` messages, and said so."""
    store = open_store(root, **settings)
    messages = fill(store, synced, size=300) if synced else []
    store.flush_commit_log()
    store.flush_mark()
    messages += fill(store, count - synced, first=synced, size=300)
    crashed_copy(root, target)
    return [message.body for message in messages]


def place_of(root: Path, number: int, file_size: int = 4096) -> tuple[Path, int]:
    """File and position of one message of the filled queue."""
    units = (root / "consumequeue/TopicA/0" / f"{number // 10 * 200:020d}").read_bytes()
    physical_offset = int.from_bytes(units[number % 10 * 20:][:8], "big")
    return log_file(root, physical_offset // file_size * file_size), physical_offset % file_size


def test_a_torn_tail_is_cut_kept_aside_and_told(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    expected = unsynced(tmp_path / "store", copy, 20, 30)
    path, position = place_of(copy, 29)
    torn = path.read_bytes()[position:]
    size = int.from_bytes(torn[:4], "big")
    overwrite(path, position + size - 40, b"\0" * 40)
    store = FileMessageStore(small_config(copy))
    report = store.open()
    assert report.is_warning
    assert (report.kept_to % 4096, report.dropped_bytes, report.dropped_records) == (position, size - 40, 0)
    assert "cut at" in str(report)
    assert "built anew" not in str(report)
    kept = Path(report.kept_aside)
    assert kept.parent == copy / "cut"
    assert [file.read_bytes() for file in kept.iterdir()] == [torn[:size - 40]]
    assert bodies(store) == expected[:-1]
    assert store.max_offset("TopicA", 0) == 29
    assert not any(path.read_bytes()[position:])
    fill(store, 1, first=29, size=300)
    assert bodies(store) == expected


def test_two_cuts_at_one_place_are_both_kept(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    unsynced(tmp_path / "store", copy, 0, 3)
    torn = []
    for number in range(2):
        path, position = place_of(copy, 2)
        overwrite(path, position + 300 + number, b"!")
        torn.append(path.read_bytes()[position:].rstrip(b"\0"))
        store = open_store(copy)
        fill(store, 1, first=2, size=300)
        copy = crashed_copy(copy, tmp_path / f"copy{number}")
    assert sorted(file.read_bytes() for file in (copy / "cut").glob("*/*")) == sorted(torn)


def test_a_head_of_which_a_part_was_written_is_a_tail(tmp_path: Path) -> None:
    """No magic number of a later format, either."""
    copy = tmp_path / "copy"
    expected = unsynced(tmp_path / "store", copy, 0, 3)
    path, position = place_of(copy, 2)
    overwrite(path, position + 7, b"\0" * 500)
    store = FileMessageStore(small_config(copy))
    assert store.open().dropped_bytes == 7
    assert bodies(store) == expected[:2]


@pytest.mark.parametrize("known", range(9))
def test_a_store_time_of_which_a_sector_was_not_written_makes_no_damage_of_a_tail(tmp_path: Path, known: int) -> None:
    """What is there of its bytes tells an earlier time than the record's own."""
    store = open_store(tmp_path / "store")
    until_the_time = BORN_HOST + HOST_V4_SIZE + known
    more = -(store.append(a_message(), NOW).end + until_the_time) % disk.SECTOR_SIZE
    size = len(message_record.encode(a_message(body=b"")))
    first = store.append(a_message(body=b"." * ((more - size) % disk.SECTOR_SIZE)), NOW)
    assert (first.end + until_the_time) % disk.SECTOR_SIZE == 0
    store.append(a_message(body=b"." * 100), NOW + 20)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    (copy / "checkpoint").write_bytes(encode_checkpoint(StoreCheckpoint(NOW + 20, NOW + 20)))
    overwrite(log_file(copy, 0), first.end + until_the_time, bytes(disk.SECTOR_SIZE))
    assert FileMessageStore(small_config(copy)).open().kept_to == first.end


def test_what_looks_like_a_record_in_a_torn_body_is_none(tmp_path: Path) -> None:
    """Else whoever sends it could have a good store refused: it says to be older than the checkpoint."""
    store = open_store(tmp_path / "store")
    place = BODY_START_V4 + 10
    forged = a_message(body=b"." * 50)
    forged.physical_offset, forged.store_timestamp = place, NOW - 99
    head = message_record.encode(forged)
    store.append(a_message(body=b"." * 10 + head + b"." * 90), NOW)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    (copy / "checkpoint").write_bytes(encode_checkpoint(StoreCheckpoint(NOW - 1, NOW - 1)))
    overwrite(log_file(copy, 0), place + len(head) + 50, b"!!!")
    report = FileMessageStore(small_config(copy)).open()
    assert (report.kept_to, report.dropped_records, report.stop_reason) == (0, 0, "body and its checksum differ")


def test_after_a_crash_the_checkpoint_speaks_of_what_was_kept(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    unsynced(tmp_path / "store", copy, 0, 3)
    open_store(copy).close()
    assert decode_checkpoint((copy / "checkpoint").read_bytes()).physic_msg_timestamp == NOW + 2


def test_intact_records_and_files_behind_a_torn_one_are_kept_aside(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    expected = unsynced(tmp_path / "store", copy, 5, 30)
    path, position = place_of(copy, 12)
    overwrite(path, position + 100, b"\0")
    before = {file.name: file.read_bytes() for file in (copy / "commitlog").iterdir()}
    report = FileMessageStore(small_config(copy)).open()
    assert report.dropped_records == 17
    assert report.stop_reason == "body and its checksum differ"
    kept = {file.name: file.read_bytes() for file in Path(report.kept_aside).iterdir()}
    assert set(report.dropped_files) == {name for name in before if int(name) > report.kept_to}
    for name in report.dropped_files:
        assert kept.pop(name) == before[name]
    (part,) = kept.values()
    assert part == before[path.name][position:].rstrip(b"\0")
    assert sum(expected[number] in before[path.name][position:] for number in range(30)) > 1


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_rotten_record_within_what_was_synced_stops_the_start(tmp_path: Path, stop: str) -> None:
    expected = closed(tmp_path)
    if stop == "crash":
        (tmp_path / "abort").write_text("1\nthis boot\n")      # an empty one is of a Java broker
        (tmp_path / "checkpoint").unlink()
    path, position = place_of(tmp_path, 28)
    overwrite(path, position + 100, b"!!!")
    before = {file: file.read_bytes() for file in (tmp_path / "commitlog").iterdir()}
    place = int(path.name) + position
    with pytest.raises(StoreDamaged, match=rf"damaged at {place} \(byte {position} of {path}, body and its checksum "
                       rf"differ\), and all before \d+ was on disk.* 1 more .*cutDamagedLog={place} "):
        FileMessageStore(small_config(tmp_path)).open()
    assert {file: file.read_bytes() for file in (tmp_path / "commitlog").iterdir()} == before
    with pytest.raises(StoreDamaged):
        FileMessageStore(small_config(tmp_path, cut_damaged_log=place - 1)).open()
    store = FileMessageStore(small_config(tmp_path, cut_damaged_log=place))
    report = store.open()
    assert (report.kept_to, report.dropped_records) == (place, 1)
    assert bodies(store) == expected[:28]
    (part,) = Path(report.kept_aside).iterdir()
    assert part.read_bytes() == before[path][position:].rstrip(b"\0")
    fill(store, 1, first=28, size=300)
    store.close()
    assert bodies(open_store(tmp_path)) == expected[:29]


def test_the_last_record_that_was_synced_is_no_tail(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    unsynced(tmp_path / "store", copy, 20, 20)
    path, position = place_of(copy, 19)
    overwrite(path, position + 100, b"!!!")
    with pytest.raises(StoreDamaged, match=rf"damaged at {int(path.name) + position} .* all before \d+ was on disk"):
        FileMessageStore(small_config(copy)).open()


def test_a_clean_stop_of_a_broker_that_keeps_no_mark_leaves_no_tail(tmp_path: Path) -> None:
    """It went on with the log: the mark that is there speaks of the records before."""
    expected = closed(tmp_path, 5)
    mark = (tmp_path / "regulusSynced").read_bytes()
    store = open_store(tmp_path)
    expected += [message.body for message in fill(store, 3, first=5, size=300)]
    store.close()
    (tmp_path / "regulusSynced").write_bytes(mark)
    (tmp_path / "regulusQueues").unlink()
    (tmp_path / "checkpoint").unlink()
    path, position = place_of(tmp_path, 6)
    overwrite(path, position + 4, b"\0\0\0\0")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="after a clean stop nothing is torn"):
        FileMessageStore(small_config(tmp_path)).open()
    assert path.read_bytes() == before
    overwrite(path, position + 4, MAGIC_V1.to_bytes(4, "big", signed=True))
    assert bodies(open_store(tmp_path)) == expected


def test_a_gap_in_the_log_is_no_tail_though_nothing_was_synced(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    unsynced(tmp_path / "store", copy, 0, 30)
    log_file(copy, 4096).unlink()
    with pytest.raises(StoreDamaged, match=r"damaged at 4096 .* is missing\), and records follow behind it"):
        FileMessageStore(small_config(copy)).open()


def test_a_store_without_a_mark_is_judged_by_the_times_of_its_checkpoint(tmp_path: Path) -> None:
    """As Java brokers leave it."""
    closed(tmp_path / "store")
    for name in ("regulusSynced", "abort"):
        (tmp_path / "store" / name).unlink(missing_ok=True)
    (tmp_path / "store/abort").touch()
    path, position = place_of(tmp_path / "store", 28)
    overwrite(path, position + 100, b"!!!")
    with pytest.raises(StoreDamaged, match="the checkpoint says that it was on disk"):
        FileMessageStore(small_config(tmp_path / "store")).open()
    # A record of the checkpoint's own millisecond may have come after it.
    early = StoreCheckpoint(physic_msg_timestamp=NOW + 28, logics_msg_timestamp=NOW + 28)
    (tmp_path / "store/checkpoint").write_bytes(encode_checkpoint(early))
    report = FileMessageStore(small_config(tmp_path / "store")).open()
    assert report.dropped_records == 1


@pytest.mark.parametrize("change", ["another record", "no log", "garbage", "shorter log"])
def test_a_mark_that_does_not_fit_refuses_no_good_store(tmp_path: Path, change: str) -> None:
    closed(tmp_path)
    (tmp_path / "abort").touch()
    if change == "no log":
        shutil.rmtree(tmp_path / "commitlog")
    elif change == "garbage":
        (tmp_path / "regulusSynced").write_bytes(b"1 2 3\n")
    elif change == "shorter log":
        max((tmp_path / "commitlog").iterdir()).unlink()
    else:
        shutil.rmtree(tmp_path)
        store = open_store(tmp_path / "other")
        fill(store, 40, size=200)
        store.close()
        closed(tmp_path / "this", 10)
        shutil.copy(tmp_path / "other/regulusSynced", tmp_path / "this/regulusSynced")
        tmp_path = tmp_path / "this"
    report = FileMessageStore(small_config(tmp_path)).open()
    assert (report.dropped_bytes, report.stop_reason) == (0, "")


def test_the_mark_of_another_log_makes_no_damage_of_a_tail(tmp_path: Path) -> None:
    closed(tmp_path / "other")
    copy = tmp_path / "copy"
    expected = unsynced(tmp_path / "store", copy, 0, 3)
    shutil.copy(tmp_path / "other/regulusSynced", copy)
    path, position = place_of(copy, 2)
    overwrite(path, position + 100, b"!!!")
    store = FileMessageStore(small_config(copy))
    assert store.open().kept_to == int(path.name) + position
    assert bodies(store) == expected[:2]


def test_the_mark_never_says_more_than_was_synced(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 3)
    store.flush_mark()
    assert not (tmp_path / "regulusSynced").exists()
    store.flush_commit_log()
    synced = store.flushed_offset
    fill(store, 3, first=3)
    store.flush_mark()
    assert decode_mark((tmp_path / "regulusSynced").read_bytes()).end == synced
    store.flush_commit_log()
    store.flush_mark()
    assert decode_mark((tmp_path / "regulusSynced").read_bytes()).end == store.flushed_offset > synced


def test_a_wrong_checksum_in_a_log_of_unknown_state_ends_it(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    unsynced(tmp_path / "store", copy, 0, 3)
    overwrite(log_file(copy, 0), 120, b"!")
    store = FileMessageStore(small_config(copy))
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
    """Nothing but the log itself tells that more was there."""
    expected = closed(tmp_path)
    for name in ("consumequeue", "index"):
        shutil.rmtree(tmp_path / name)
    for name in ("checkpoint", "regulusSynced", "regulusQueues"):
        (tmp_path / name).unlink()
    overwrite(log_file(tmp_path, 4096), 4, b"\0\0\0\0")
    with pytest.raises(StoreDamaged, match=r"damaged at 4096 .*after a clean stop nothing is torn"):
        FileMessageStore(small_config(tmp_path)).open()
    store = FileMessageStore(small_config(tmp_path, cut_damaged_log=4096))
    report = store.open()
    assert report.kept_to == 4096
    assert report.dropped_files == (f"{4096:020d}", f"{8192:020d}", f"{12288:020d}")
    assert bodies(store) == expected[:9]


def test_a_refused_store_is_as_it_was(tmp_path: Path) -> None:
    closed(tmp_path)
    log_file(tmp_path, 0).write_bytes(b"short")
    before = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    with pytest.raises(StoreDamaged, match="mappedFileSizeCommitLog"):
        FileMessageStore(small_config(tmp_path)).open()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("left", [None, b"", b"1\nanother boot\n"])
def test_a_store_that_is_refused_for_its_damage_is_no_more_crashed_than_it_was(tmp_path: Path,
                                                                               left: bytes | None) -> None:
    closed(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "regulusQueues").unlink()
    overwrite(log_file(tmp_path, 4096), 4, b"\0\0\0\0")
    abort = tmp_path / "abort"
    if left is not None:
        abort.write_bytes(left)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="damaged at 4096"):
            FileMessageStore(small_config(tmp_path)).open()
        assert (abort.read_bytes() if abort.exists() else None) == left


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    closed(tmp_path)
    log_file(tmp_path, 4096).unlink()
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    with pytest.raises(StoreDamaged, match="00000000000000004096 is missing"):
        FileMessageStore(small_config(tmp_path)).open()


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_first_file_that_is_missing_is_told_once(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 30, size=300)
    store.flush_commit_log()
    store.flush_queue_table()
    if stop == "clean":
        store.close()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    for number in (0, 4096):
        log_file(copy, number).unlink()
    store = FileMessageStore(small_config(copy))
    report = store.open()
    assert report.is_warning
    assert f"{0:020d} is missing, the log began there and begins at 8192 now" in str(report)
    store.close()
    assert not FileMessageStore(small_config(copy)).open().is_warning


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_first_file_that_the_broker_deleted_is_not_missed(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 30, size=300)
    store.flush_commit_log()
    store.flush_queue_table()
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    if stop == "clean":
        store.close()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    assert "missing" not in str(FileMessageStore(small_config(copy)).open())


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


@pytest.mark.parametrize("left", ["same boot", "another boot", "nothing"])
def test_the_index_is_whole_after_a_kill_and_after_a_power_cut(tmp_path: Path, left: str) -> None:
    """Seen where the walk of recovery does not come by by itself: keys of messages before the checkpoint."""
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
    assert len(again.query_message("TopicA", "U00000001", 10, 0, NOW * 2).buffers) == 1
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


LOSSES = ["a queue", "a file", "garbage", "a foreign queue", "zeros", "a lost end"]


def lose(root: Path, loss: str) -> None:
    folder = root / "consumequeue/TopicA/1"
    files = sorted(folder.iterdir())
    if loss == "a queue":
        shutil.rmtree(folder)
    elif loss == "a file":
        files[1].unlink()
    elif loss == "garbage":
        overwrite(files[1], 40, b"x" * 60)
    elif loss == "zeros":
        overwrite(files[1], 40, bytes(60))
    elif loss == "a lost end":
        overwrite(files[-1], 0, bytes(200))
    else:
        for file in files:
            shutil.copy(root / "consumequeue/TopicA/0" / file.name, file)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_queue_that_does_not_agree_with_the_log_is_built_anew(tmp_path: Path, loss: str, stop: str) -> None:
    store = open_store(tmp_path / "store")
    messages = fill(store, 75, queues=3)
    store.flush_commit_log()
    store.flush_queue_table()
    store.flush_checkpoint()
    messages += fill(store, 15, first=75, queues=3)
    if stop == "clean":
        store.close()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    lose(copy, loss)
    again = FileMessageStore(small_config(copy))
    report = again.open()
    assert report.is_warning
    assert "queue 1 of TopicA" in str(report)
    assert "built anew from the log, from 0 to 30" in str(report)
    for queue_id in range(3):
        assert bodies(again, "TopicA", queue_id) == [message.body for message in messages[queue_id::3]]
    assert fill(again, 3, first=90, queues=3)[1].queue_offset == 30
    again.close()
    assert not FileMessageStore(small_config(copy)).open().is_warning


@pytest.mark.parametrize("unit", [10, 19])
@pytest.mark.parametrize("shift", [0, 1])
def test_a_wrong_unit_at_either_end_of_a_queue_s_file_is_seen(tmp_path: Path, unit: int, shift: int) -> None:
    """Though all units are in the order of the log."""
    expected = closed(tmp_path)
    path = tmp_path / "consumequeue/TopicA/0" / f"{200:020d}"
    data = path.read_bytes()
    position = unit % 10 * 20
    place = int.from_bytes(data[position:position + 8], "big") + shift
    overwrite(path, position, place.to_bytes(8, "big") + (200).to_bytes(4, "big"))
    store = FileMessageStore(small_config(tmp_path))
    assert "built anew" in str(store.open())
    assert bodies(store) == expected


def test_a_record_whose_body_is_rotten_keeps_its_place_in_a_queue_that_is_built_anew(tmp_path: Path) -> None:
    closed(tmp_path)
    path, position = place_of(tmp_path, 5)
    overwrite(path, position + 100, b"!!!")
    shutil.rmtree(tmp_path / "consumequeue/TopicA")
    store = FileMessageStore(small_config(tmp_path))
    (note,) = store.open().notes
    assert "built anew from the log, from 0 to 30" in note
    assert [unit.queue_offset for unit in store.queue_units("TopicA", 0, 0, 32)] == [*range(30)]


def test_a_queue_that_is_lost_with_its_part_of_the_log_goes_on_counting(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store, 25, topic="TopicB")
    fill(store, 40, size=300)
    while store.commit_log_min_offset() < 8192:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        assert store.old_files.delete_hanging(NOW, 0)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue/TopicB")
    store = FileMessageStore(small_config(tmp_path))
    assert "queue 0 of TopicB ends at 0, and something was there up to 25" in str(store.open())
    assert bodies(store, "TopicB") == []
    store.close()
    store = open_store(tmp_path)
    assert store.max_offset("TopicB", 0) == 25
    assert fill(store, 1, topic="TopicB")[0].queue_offset == 25
    store.close()
    store = open_store(tmp_path)
    assert (len(bodies(store, "TopicB")), store.max_offset("TopicB", 0)) == (1, 26)


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_deleted_topic_is_not_missed(tmp_path: Path, stop: str) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 8)
    fill(store, 8, topic="TopicB")
    store.flush_commit_log()
    store.flush_consume_queues(0)
    store.flush_queue_table()
    store.flush_checkpoint()
    store.delete_topic("TopicB")
    if stop == "clean":
        store.close()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    again = FileMessageStore(small_config(copy))
    report = again.open()
    assert not report.is_warning
    assert again.queues() == [("TopicA", 0)]


def test_a_topic_whose_deletion_came_to_no_end_is_not_brought_back(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 5)
    fill(store, 5, topic="TopicB")
    store.flush_commit_log()
    store.flush_queue_table()

    def refuse(path: Path) -> None:
        raise StoreNotWritable(f"{path} cannot be written")

    monkeypatch.setattr(disk, "remove_tree", refuse)
    with pytest.raises(StoreNotWritable):
        store.delete_topic("TopicB")
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    again = FileMessageStore(small_config(copy))
    assert not again.open().is_warning
    assert again.max_offset("TopicB", 0) == 0


@pytest.mark.parametrize("harm", ["missing", "a file is missing", "no entries"])
def test_an_index_that_is_not_whole_is_built_anew(tmp_path: Path, harm: str) -> None:
    closed(tmp_path, 60)
    files = sorted((tmp_path / "index").iterdir())
    if harm == "missing":
        shutil.rmtree(tmp_path / "index")
    elif harm == "a file is missing":
        files[1].unlink()
    else:
        overwrite(files[1], 40, bytes(files[1].stat().st_size - 40))
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.is_warning
    assert "the index was built anew" in str(report)
    for number in range(60):
        assert store.query_message("TopicA", f"U{number:08d}", 10, 0, NOW * 2).buffers, number
    store.close()
    assert not FileMessageStore(small_config(tmp_path)).open().is_warning


def resting_store(root: Path, monkeypatch: pytest.MonkeyPatch, topics: int = 12) -> None:
    """A store in which queues rest as they do where there are thousands."""
    store = open_store(root)
    for number in range(topics):
        fill(store, 25, topic=f"T{number}")
    store.close()
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 3)


def test_queues_rest_until_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting_store(tmp_path, monkeypatch)
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert (report.queues, report.is_warning) == (12, False)
    assert len(store.resting_queues()) == 12
    assert len(store.queues()) == 12
    assert store.look_at_queues(store.resting_queues()) == []
    assert store.max_offset("T3", 0) == 25
    assert len(bodies(store, "T4")) == 25
    assert fill(store, 1, topic="T5", first=25)[0].queue_offset == 25
    assert len(store.resting_queues()) == 9
    store.close()
    again = open_store(tmp_path)
    assert [again.max_offset(f"T{number}", 0) for number in range(12)] == [25, 25, 25, 25, 25, 26, *[25] * 6]


def test_a_queue_that_is_found_faulty_when_it_is_used_is_refused_and_built_anew_by_the_next_start(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting_store(tmp_path, monkeypatch)
    for topic in ("T1", "T2", "T3"):
        overwrite(tmp_path / "consumequeue" / topic / "0" / f"{200:020d}", 40, b"\1" * 60)
    shutil.rmtree(tmp_path / "consumequeue/T4")
    store = FileMessageStore(small_config(tmp_path))
    assert "queue 0 of T4 ends at 0" in str(store.open())
    assert len(bodies(store, "T4")) == 25
    refused = store.append(a_message("T1"), NOW)
    assert refused.status is PutStatus.QUEUE_DAMAGED
    assert "queue 0 of T1 ends at 12" in refused.remark
    with pytest.raises(StoreDamaged, match=r"queue 0 of T1 .* until it is built anew"):
        store.get_message("T1", 0, 0, 32, 1 << 20, EVERYTHING)
    with pytest.raises(StoreDamaged, match="queue 0 of T2"):
        store.max_offset("T2", 0)
    found = store.look_at_queues(store.resting_queues())
    assert [each[:2] for each in found] == [("T3", 0)]
    assert "queue 0 of T3 ends at 12" in store.take_out_queue(*found[0])
    with pytest.raises(StoreDamaged):
        store.max_offset("T3", 0)
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert str(again.open()).count("built anew") == 3
    for topic in ("T1", "T2", "T3", "T4"):
        assert len(bodies(again, topic)) == 25
        assert fill(again, 1, topic=topic, first=25)[0].queue_offset == 25


def test_queues_that_rest_are_cut_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes to the log behind the cut is not taken for theirs."""
    resting_store(tmp_path, monkeypatch)
    units = (tmp_path / "consumequeue/T11/0" / f"{400:020d}").read_bytes()
    place = int.from_bytes(units[3 * 20:][:8], "big")
    overwrite(log_file(tmp_path, place // 4096 * 4096), place % 4096 + 100, b"!!!")
    store = open_store(tmp_path, cut_damaged_log=place)
    fill(store, 30, topic="T0", first=25)
    assert [len(bodies(store, topic)) for topic in ("T10", "T11")] == [25, 23]
    assert fill(store, 1, topic="T11", first=23)[0].queue_offset == 23


def test_queues_that_rest_begin_where_the_log_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting_store(tmp_path, monkeypatch)
    log_file(tmp_path, 0).unlink()
    store = open_store(tmp_path)
    assert ("T0", 0) in store.resting_queues()
    begin = store.min_offset("T0", 0)
    assert begin > 0
    assert [unit.queue_offset for unit in store.queue_units("T0", 0, 0, 32)] == [*range(begin, 25)]
    assert store.queue_units("T0", 0, begin, 1)[0].physical_offset >= 4096


def test_a_queue_that_rests_can_be_deleted_and_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting_store(tmp_path, monkeypatch)
    store = open_store(tmp_path)
    store.delete_topic("T3")
    assert not (tmp_path / "consumequeue/T3").exists()
    assert ("T3", 0) not in store.queues()
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    starts = store.old_files.queue_starts()
    assert ("T0", 0) in [(start.queue.topic, start.queue.queue_id) for start in starts]
    for start in starts:
        store.old_files.trim_queue(start)
    begin = store.min_offset("T0", 0)
    assert begin > 0
    assert len(bodies(store, "T0")) == 25 - begin


@pytest.mark.parametrize("path", ["notes", "TopicA/notes", "TopicA/0/notes", "TopicB", "TopicA/1", "TopicA/٣/x",
                                  "TopicA/007/x", "a topic/0/x",
                                  "TopicA/99999999999999999999/x", "TopicA/0/٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣٣"])
@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_stray_file_among_the_queues_stops_nothing_and_is_named(tmp_path: Path, path: str, stop: str) -> None:
    expected = closed(tmp_path)
    if stop == "crash":
        (tmp_path / "abort").touch()
    stray = tmp_path / "consumequeue" / path
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"x")
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    # After a clean stop the table tells the queues of TopicA, and nobody looks into the folder of a queue.
    is_seen = not path.startswith("TopicA/0/" if stop == "crash" else "TopicA/")
    name = repr("/".join(path.split("/")[:2]))
    assert [name in note for note in report.notes] == [True] * is_seen
    assert bodies(store) == expected
    assert stray.exists()


def test_a_stray_file_where_a_queue_belongs_is_told(tmp_path: Path) -> None:
    closed(tmp_path)
    (tmp_path / "consumequeue/TopicB").write_bytes(b"x")
    store = open_store(tmp_path)
    store.append(a_message("TopicB"), NOW)
    dispatch(store)
    assert "consumequeue/TopicB cannot be made, for a file stands where a folder belongs" in store.fault
    (tmp_path / "consumequeue/TopicB").unlink()
    store.dispatch(10)
    assert store.fault == ""
    assert store.max_offset("TopicB", 0) == 1


def test_a_table_of_before_a_broker_that_keeps_none_is_not_believed(tmp_path: Path) -> None:
    """It went on with the log, deleted a topic and stopped cleanly."""
    store = open_store(tmp_path)
    fill(store, 8)
    fill(store, 8, topic="TopicB")
    store.close()
    table = (tmp_path / "regulusQueues").read_bytes()
    store = open_store(tmp_path)
    store.delete_topic("TopicB")
    fill(store, 1, first=8)
    store.close()
    (tmp_path / "regulusQueues").write_bytes(table)
    again = FileMessageStore(small_config(tmp_path))
    assert not again.open().is_warning
    assert again.queues() == [("TopicA", 0)]


def at_first_touch(monkeypatch: pytest.MonkeyPatch, deed: str, part: str, meanwhile: Callable[[], None]) -> None:
    """Do something, as another thread may, once this part of the store was first touched."""
    original = getattr(disk, deed)
    left = [meanwhile]

    def touched(path: Path | str, *arguments: object, **options: object) -> object:
        result = original(path, *arguments, **options)
        if part in str(path) and left:
            left.pop()()
        return result
    monkeypatch.setattr(disk, deed, touched)


def test_a_table_that_is_written_while_a_queue_is_opened_does_not_miss_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    fill(store, 60, queues=12)
    store.close()
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 3)
    store = open_store(tmp_path)
    fill(store, 1, first=60)
    with monkeypatch.context() as patch:
        at_first_touch(patch, "read_at", "/TopicA/7/", store.flush_queue_table)
        assert len(bodies(store, queue_id=7)) == 5
    store.close()
    again = open_store(tmp_path)
    assert len(bodies(again, queue_id=7)) == 5
    assert again.append(a_message(queue_id=7), NOW + 61).queue_offset == 5


def test_a_table_that_is_written_while_a_topic_is_deleted_does_not_bring_it_back(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    fill(store, 5, topic="Gone")
    store.flush_queue_table()
    fill(store, 1, topic="Stays")
    with monkeypatch.context() as patch:
        at_first_touch(patch, "append_to", "regulusQueues", store.flush_queue_table)
        store.delete_topic("Gone")
    store.close()
    assert open_store(tmp_path).queues() == [("Stays", 0)]


def test_a_table_that_did_not_fit_once_is_not_believed_later(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 5, topic="Gone")
    fill(store, 1, topic="Stays")
    store.close()
    ours = {name: (tmp_path / "store" / name).read_bytes() for name in ("regulusQueues", "regulusSynced")}
    store = open_store(tmp_path / "store")
    store.delete_topic("Gone")
    for first in (10_000, 20_000):      # so much later that a crash does not begin at the deleted ones again
        fill(store, 60, topic="Stays", first=first)
    store.close()
    for name, data in ours.items():     # RocketMQ, whose work this shall have been, leaves them as they were
        (tmp_path / "store" / name).write_bytes(data)
    assert open_store(tmp_path / "store").queues() == [("Stays", 0)]
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    assert open_store(copy).queues() == [("Stays", 0)]


def test_a_mark_does_not_hide_what_a_broker_without_marks_synced_behind_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    fill(store, 10)
    store.close()
    mark = (tmp_path / "store" / "regulusSynced").read_bytes()
    store = open_store(tmp_path / "store")
    harmed = fill(store, 30, first=10)[15]
    store.flush_commit_log()
    store.flush_consume_queues(0)
    store.flush_checkpoint()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    (copy / "regulusSynced").write_bytes(mark)
    (copy / "abort").write_bytes(b"")
    path = log_file(copy, harmed.physical_offset // 4096 * 4096)
    overwrite(path, harmed.physical_offset % 4096 + 90, b"!!!")
    with pytest.raises(StoreDamaged, match="the checkpoint says that it was on disk"):
        FileMessageStore(small_config(copy)).open()
    (copy / "regulusSynced").write_bytes(mark)
    (copy / "abort").write_text("1\nthis boot\n")       # it stopped well, and then ours crashed
    with pytest.raises(StoreDamaged, match="the checkpoint says that it was on disk"):
        FileMessageStore(small_config(copy)).open()


def test_light_queues_of_rocketmq_are_left_as_they_are(tmp_path: Path) -> None:
    closed(tmp_path)
    light = tmp_path / "consumequeue" / "%LMQ%123" / "0"
    shutil.copytree(tmp_path / "consumequeue" / "TopicA" / "0", light)
    before = {path.name: path.read_bytes() for path in light.iterdir()}
    for name in ("regulusQueues", "regulusSynced"):
        (tmp_path / name).unlink()
    store = FileMessageStore(small_config(tmp_path))
    assert not store.open().is_warning
    store.close()
    assert {path.name: path.read_bytes() for path in light.iterdir()} == before


def test_a_queue_that_rests_loses_what_a_power_cut_took_from_the_log(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting_store(tmp_path / "store", monkeypatch)
    store = open_store(tmp_path / "store")
    (last,) = fill(store, 1, topic="T5", first=25)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    path = log_file(copy, last.physical_offset // 4096 * 4096)
    overwrite(path, last.physical_offset % 4096, b"\0" * 300)
    again = open_store(copy)
    assert ("T5", 0) in again.resting_queues()
    assert again.look_at_queues([("T5", 0)]) == []
    assert len(bodies(again, "T5")) == 25
    assert fill(again, 1, topic="T5", first=25)[0].queue_offset == 25


def test_what_lies_among_the_queues_and_is_none_is_named(tmp_path: Path) -> None:
    closed(tmp_path)
    queues = tmp_path / "consumequeue"
    for number in range(STRAYS_NAMED_MAX - 1):
        (queues / f"note-{number}.txt").touch()
    for folder in ("copy of 0", "007", "-1"):
        (queues / "TopicA" / folder).mkdir()
    (tmp_path / "regulusQueues").unlink()       # with it, topics that rest are not looked into
    store = FileMessageStore(small_config(tmp_path))
    report = store.open()
    assert report.is_warning
    (note,) = report.notes
    assert note.startswith(f"{queues} has what is no queue of a topic: 'note-0.txt', ")
    assert note.endswith("'TopicA/-1' and 2 more; it is left alone")
    store.close()
    assert (queues / "TopicA" / "007").is_dir()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_tells_how_far_the_check_of_the_log_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       is_killed: bool) -> None:
    monkeypatch.setattr(recovery, "SCAN_WINDOW", 1024)
    told: list[tuple[str, int, int]] = []
    store = open_store(tmp_path / "store")
    fill(store, 40)
    end = store.commit_log_max_offset()
    if is_killed:
        root = crashed_copy(tmp_path / "store", tmp_path / "copy")
    else:
        root = tmp_path / "store"
        store.close()
    again = FileMessageStore(small_config(root))
    again.open(tell=lambda *told_now: told.append(told_now))
    checks = [(done, total) for step, done, total in told if step.startswith("checking the log from")]
    assert checks[0][0] == 0
    assert len(checks) > 2
    assert [done for done, _ in checks] == sorted(done for done, _ in checks)
    assert {total for _, total in checks} == {checks[0][1]}
    assert 0 < checks[-1][0] <= min(end, checks[0][1])
    assert any(step.startswith("bringing to disk") for step, _, _ in told) == is_killed
    again.close()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As long as something is in it, the disk has no room for queues; `once` is taken out when it had none."""
    reserve, full = disk.reserve, ["full"]

    def refuse_queues(path: str, offset: int, length: int) -> None:
        if full and "consumequeue" in path:
            full[:] = [text for text in full if text != "once"]
            raise StoreNotWritable("the disk is full")
        reserve(path, offset, length)

    monkeypatch.setattr(disk, "reserve", refuse_queues)
    return full


def test_no_table_is_written_while_units_that_it_vouches_for_are_missing(tmp_path: Path, full: list[str]) -> None:
    """A start on a full disk walks the log to its end, and builds the units of what it walked only later."""
    full.clear()
    store = open_store(tmp_path / "store")
    expected = [message.body for message in fill(store, 30, size=300)]
    store.flush_commit_log()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    shutil.rmtree(copy / "consumequeue")
    full.append("full")
    store = FileMessageStore(small_config(copy))
    assert store.open().unfinished
    store.flush_queue_table()
    assert not (copy / "regulusQueues").exists()
    full.clear()
    store.dispatch(1000)
    store.flush_queue_table()
    assert (copy / "regulusQueues").exists()
    assert bodies(store) == expected


def test_no_queue_offset_is_given_twice_while_units_are_missing_that_a_start_found_no_room_for(
        tmp_path: Path, full: list[str]) -> None:
    """With room again they are built a part at a time, and messages come in between."""
    full.clear()
    store = open_store(tmp_path / "store")
    fill(store, 30, size=300)
    store.flush_commit_log()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    shutil.rmtree(copy / "consumequeue")
    full.append("full")
    store = FileMessageStore(small_config(copy))
    assert store.open().unfinished
    full.clear()
    store.dispatch(1)
    store.finish_start()
    assert store.dispatch_behind_bytes()
    came = store.append(a_message(), NOW)
    assert (came.status, came.queue_offset) == (PutStatus.PUT_OK, 30)
    dispatch(store)
    assert store.max_offset("TopicA", 0) == len(bodies(store)) == 31


@pytest.mark.parametrize("room", ["full", "once"])
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_queue_that_is_lost_is_built_when_there_is_room(tmp_path: Path, full: list[str], stop: str,
                                                          room: str) -> None:
    full.clear()
    store = open_store(tmp_path / "store")
    expected = [message.body for message in fill(store, 33, size=300)]
    store.flush_commit_log()
    store.flush_queue_table()
    if stop == "clean":
        store.close()
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    shutil.rmtree(copy / "consumequeue")
    full.append(room)
    store = FileMessageStore(small_config(copy))
    assert store.open().unfinished
    full.clear()
    store.dispatch(1000)
    assert bodies(store) == expected
    assert fill(store, 1, first=33)[0].queue_offset == 33
    assert len(bodies(store)) == 34


def test_a_lost_queue_of_which_the_log_has_nothing_counts_on_when_there_is_room(tmp_path: Path,
                                                                               full: list[str]) -> None:
    full.clear()
    store = open_store(tmp_path)
    fill(store, 25, topic="TopicB")
    fill(store, 40, size=300)
    while store.commit_log_min_offset() < 8192:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        assert store.old_files.delete_hanging(NOW, 0)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue/TopicB")
    full.append("full")
    store = open_store(tmp_path)
    full.clear()
    assert fill(store, 1, topic="TopicB")[0].queue_offset == 25
    assert (len(bodies(store, "TopicB")), store.max_offset("TopicB", 0)) == (1, 26)
