"""The jobs on a log map small windows of its files: what they make depends neither on the windows nor on the memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regulus.pipeline import log_ranges
from regulus.record.log_units import LogWalk
from regulus.spark.store import files as store_files
from regulus.spark.store import log_walk
from tests.archives import archive_store, files_of
from tests.store_ends import write
from tests.stores import a_message, dispatch, fill, open_store
from tests.unit.pipeline.index.test_rebuild import SMALL, rebuild, tree

FILE_SIZE = 1 << 16
ROTTEN = {"nothing": (0, b""), "magic": (4, b"\1\2\3\4"), "larger": (0, b"\0\0\x3f\0"),
          "largest": (0, b"\x7f\xff\xff\xff"), "body": (100, b"XX"), "zeros": (0, bytes(5_000))}


@pytest.fixture
def store(tmp_path):
    """Records of all sizes, some larger than a small window, in files of many such windows."""
    opened = open_store(tmp_path / "store", mapped_file_size_commit_log=FILE_SIZE)
    for number in range(0, 150, 10):
        fill(opened, 10, queues=3, first=number, size=10 + 37 * (number % 70))
        opened.append(a_message("TopicB", body=bytes(number * 90), KEYS="large"), 1_700_000_000_000 + number)
        dispatch(opened)
    opened.close()
    return tmp_path / "store"


def starts(root):
    log = log_ranges.open_log(str(root))
    return [passage.window.start + int(position) for piece in log.pieces[:2] for passage in log_ranges.passages(
        log, LogWalk((), False, False, False), piece.start, piece.start + piece.size)
        if isinstance(passage, log_ranges.Passage) for position in passage.rows.column("position")]


@pytest.mark.parametrize("kind", sorted(ROTTEN))
@pytest.mark.parametrize("number", [0, 40])
def test_the_same_whatever_the_windows(store, tmp_path, monkeypatch, kind, number):
    within, data = ROTTEN[kind]
    write(store, starts(store)[number] + within, data)
    made = []
    for name, size in (("whole", 32 << 20), ("windows", 4096)):
        monkeypatch.setattr(store_files, "WINDOW_BYTES", size)
        report = archive_store(store, tmp_path / name / "archive", range_size=30_000, accept_gaps=True)
        rebuilt = rebuild(store, tmp_path / name / "out", range_size=20_000, **{**SMALL, "max_index_num": 400})
        made.append((report, rebuilt, files_of(tmp_path / name / "archive"), tree(tmp_path / name / "out", "")))
    assert made[0] == made[1]
    assert made[0][0].rows > 125


def test_no_more_is_mapped_than_a_window_or_a_record(tmp_path, monkeypatch):
    """A rotten size does not decide about it."""
    opened = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20)
    fill(opened, 100)
    opened.close()
    monkeypatch.setattr(store_files, "WINDOW_BYTES", 4096)
    sizes = []
    mapped = store_files._mapped
    monkeypatch.setattr(store_files, "_mapped", lambda piece, start, size: sizes.append(size) or mapped(
        piece, start, size))
    for place in starts(tmp_path / "store")[3::7]:
        write(tmp_path / "store", place, b"\0\x0c\0\0")
    log = log_ranges.open_log(str(tmp_path / "store"))
    log_ranges.recovered_end(str(tmp_path / "store"), log)
    log_ranges.cut(log, 0, 20_000, 9_000)
    passages = list(log_ranges.passages(log, LogWalk((), True, False, False), 0, 1 << 20))
    assert sum(isinstance(passage, log_ranges.Skipped) for passage in passages) == 15
    assert max(sizes) < 2 * 4096


def test_the_next_record_is_found_over_the_borders_of_windows(store, monkeypatch):
    monkeypatch.setattr(store_files, "WINDOW_BYTES", 4096)
    log = log_ranges.open_log(str(store))
    places = starts(store)
    whole = log.window(0, FILE_SIZE).data
    for place in [0, *places[:40], *(place + 1 for place in places[:40]), *range(4085, 4105)]:
        assert log_walk.next_record_in(log, place, FILE_SIZE) == log_walk.next_record(whole, place, FILE_SIZE, 0)


@pytest.mark.parametrize("before", range(1, 9))
def test_a_record_that_begins_right_before_a_border_is_found(tmp_path, monkeypatch, before):
    monkeypatch.setattr(store_files, "WINDOW_BYTES", 4096)
    opened = open_store(tmp_path / "store", mapped_file_size_commit_log=FILE_SIZE)
    opened.append(a_message(body=b""), 1_700_000_000_000)
    empty = opened.commit_log_max_offset()
    opened.append(a_message(body=bytes(4096 - before - 2 * empty)), 1_700_000_000_000)
    place = opened.commit_log_max_offset()
    opened.append(a_message(), 1_700_000_000_000)
    opened.close()
    assert place == 4096 - before
    assert log_walk.next_record_in(log_ranges.open_log(str(tmp_path / "store")), empty + 1, FILE_SIZE) == place


_LIMITED = """
import resource, sys
from pathlib import Path
from tests.archives import archive_store
from tests.unit.pipeline.index.test_rebuild import SMALL, rebuild
used = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), used + (600 << 20)))
store, out = map(Path, sys.argv[1:])
print(archive_store(store, out / "archive", range_size=8 << 20).rows)
print(rebuild(store, out / "rebuilt", range_size=64 << 20, **SMALL).units)
"""


def test_a_log_larger_than_the_memory_is_archived_and_rebuilt(tmp_path):
    """As `spark.executor.pyspark.memory` limits a worker; the file is sparse, and nearly empty."""
    opened = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 30)
    fill(opened, 50)
    opened.close()
    root = Path(__file__).parents[3]
    run = subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path / "store"), str(tmp_path)], cwd=root,
                         capture_output=True, text=True, timeout=100, check=False,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(root)])})
    assert (run.returncode, run.stdout.split()) == (0, ["50", "50"]), run.stderr
