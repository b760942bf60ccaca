"""The end of a log is where recovery ends it; cuts are where records begin."""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.errors import DataLoss, StoreNewer
from regulus.pipeline import log_ranges
from regulus.record.dispatch_request import request_at
from regulus.record.log_units import LogWalk
from regulus.spark.store import files as store_files
from regulus.spark.store import log_walk
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, crashed_copy, fill, open_store, small_config

GOLDEN = Path(__file__).parents[2] / "golden"
SIZES = {
    "store-4.9.8": {"mapped_file_size_commit_log": 131_072, "mapped_file_size_consume_queue": 1280,
                    "max_hash_slot_num": 256, "max_index_num": 1024},
    "store-4.9.8-killed": {"mapped_file_size_commit_log": 262_144, "mapped_file_size_consume_queue": 6000,
                           "max_hash_slot_num": 512, "max_index_num": 2048},
}


def end_of(store: Path) -> log_ranges.LogEnd:
    return log_ranges.recovered_end(str(store), log_ranges.open_log(str(store)))


@pytest.mark.parametrize("name", list(SIZES))
def test_the_end_is_that_of_recovery(name, tmp_path):
    end = end_of(GOLDEN / name)
    root = tmp_path / "store"
    shutil.copytree(GOLDEN / name, root)
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), **SIZES[name]))
    assert store.open().kept_to == end.offset
    store.close()


def test_a_crash_with_a_torn_tail(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 50)
    copy = crashed_copy(tmp_path / "store", tmp_path / "copy")
    store.close()
    last = sorted((copy / "commitlog").iterdir())[-1]
    data = bytearray(last.read_bytes())
    torn = data.rindex(b"TopicA") + 3
    data[torn:] = bytes(len(data) - torn)
    last.write_bytes(data)
    end = end_of(copy)
    assert end.reason
    recovered = FileMessageStore(small_config(copy))
    assert recovered.open().kept_to == end.offset
    assert len(bodies(recovered)) == 49
    recovered.close()


def test_a_later_format_is_refused(store):
    last = sorted((store / "commitlog").iterdir())[0]
    data = bytearray(last.read_bytes())
    data[7] = 0xAF
    for path in sorted((store / "commitlog").iterdir())[1:]:
        path.unlink()
    shutil.rmtree(store / "consumequeue")
    last.write_bytes(data)
    with pytest.raises(StoreNewer, match="later format"):
        end_of(store)


def test_cuts_join_up_and_begin_with_records(store):
    log = log_ranges.open_log(str(store))
    end = end_of(store).offset
    cuts = log_ranges.cut(log, 0, end, 1000)
    assert cuts[0][0] == 0
    assert cuts[-1][1] == end
    assert all(left[1] == right[0] for left, right in pairwise(cuts))
    for start, _ in cuts:
        piece = log.piece_at(start)
        data = log.window(piece.start, piece.size).data
        assert request_at(data, start - piece.start, piece.size, True).physical_offset == start
    assert log_ranges.cut(log, 0, end, 1 << 30) == [(start, min(start + 4096, end)) for start in range(0, end, 4096)]
    with pytest.raises(DataLoss):
        log_ranges.cut(log, 0, log.end + 1, 1000)


@pytest.mark.parametrize("filled", [0, 1, 70_000, 600_000, 1 << 20])
def test_about_where_a_log_ends(tmp_path, filled):
    files = [bytes([1]) * (1 << 20), bytes([1]) * filled + bytes((1 << 20) - filled), bytes(1 << 20)]
    (tmp_path / "commitlog").mkdir()
    for number, data in enumerate(files):
        (tmp_path / "commitlog" / f"{number << 20:020d}").write_bytes(data)
    end = log_walk.filled_end(log_ranges.open_log(str(tmp_path))) - (1 << 20)
    assert filled <= end <= min(filled + log_walk.PROBE_SIZE, 1 << 20)


def test_a_longer_log_is_cut_alike(store):
    log = log_ranges.open_log(str(store))
    end = end_of(store).offset
    early = log_ranges.cut(log, 0, end // 2 // 1000 * 1000, 1000)
    assert log_ranges.cut(log, 0, end, 1000)[:len(early) - 1] == early[:-1]


def test_a_body_with_a_copy_of_a_record_is_no_place_to_cut(tmp_path):
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 16)
    fill(store, 1)
    record = bytes((tmp_path / "store/commitlog" / f"{0:020d}").read_bytes()[:300])
    store.append(a_message(body=bytes(500) + record + bytes(500)), NOW)
    start = store.commit_log_max_offset()
    fill(store, 1, first=7)
    store.close()
    log = log_ranges.open_log(str(tmp_path / "store"))
    assert log_walk.next_record(log.window(0, 1 << 16).data, 300, 1 << 16, 0) == start
    assert log_walk.next_record_in(log, 300, 1 << 16) == start


def walked_to_the_end(log: log_ranges.CommitLogFiles, limit: int) -> list[tuple[int, int, str]]:
    """Of each stop of a walk over the first file: where it was, where it goes on, why."""
    stops, at = [], 0
    for passage in log_ranges.passages(log, LogWalk((), False, False, False), 0, limit):
        if isinstance(passage, log_ranges.Skipped):
            stops.append(passage)
        elif not passage.rows.table.shape[1] and not passage.fault:
            stops.append((at, passage.end, ""))
        at = passage.end
    return stops


def test_a_walk_steps_over_a_flaw_a_blank_and_its_limit(store, change_log):
    log = log_ranges.open_log(str(store))
    data = log.window(0, 4096).data
    second = int.from_bytes(data[:4], "big")
    third = second + int.from_bytes(data[second:second + 4], "big")
    blank = walked_to_the_end(log, 4096)[-1][0]
    assert walked_to_the_end(log, 4096) == [(blank, 4096, "")]
    assert walked_to_the_end(log, second + 20) == [(second, third, "")]
    change_log(second + 4, bytes(4))
    assert walked_to_the_end(log_ranges.open_log(str(store)), 4096) == [
        (second, third, "no record: magic number is 0x00000000"), (blank, 4096, "")]


def test_whether_a_broker_has_the_store(tmp_path):
    store = open_store(tmp_path / "store")
    assert store_files.is_in_use(str(tmp_path / "store"))
    store.close()
    assert not store_files.is_in_use(str(tmp_path / "store"))
    assert not store_files.is_in_use(str(tmp_path))


def test_an_empty_store(tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert end_of(tmp_path) == (0, "")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 40_000), st.integers(20_000, 20_004)), max_size=30),
       st.booleans())
def test_rows_are_sorted_by_all_keys_and_stay_in_order(rows, few):
    rows = [(first, second % 3 if few else second, third) for first, second, third in rows]
    keys = [np.array([row[number] for row in rows], dtype=np.int64) for number in range(3)]
    assert log_ranges.stable_order(*keys).tolist() == sorted(range(len(rows)), key=lambda number: rows[number])
