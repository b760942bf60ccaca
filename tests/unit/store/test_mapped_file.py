import errno
import os
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool


def make(directory: Path, pool: MappedFilePool, start: int = 0, size: int = 65_536) -> MappedFile:
    path = directory / f"{start:020d}"
    disk.create_sized(path, size)
    return MappedFile(str(path), start, size, 0, pool)


def test_written_bytes_are_in_the_file_and_in_slices(tmp_path: Path) -> None:
    file = make(tmp_path, MappedFilePool(10))
    file.write(100, b"hello")
    file.wrote_position = 105
    assert bytes(file.slice(100, 5)) == b"hello"
    assert file.slice(100, 5).readonly
    assert Path(file.path).read_bytes()[100:105] == b"hello"
    file.flush()
    assert file.flushed_position == 105


def test_only_what_was_appended_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[object] = []
    monkeypatch.setattr(disk, "sync_range", lambda path, mapping, begin, end: synced.append((begin, end)))
    monkeypatch.setattr(disk, "sync_data", synced.append)
    file = make(tmp_path, MappedFilePool(10))
    for end in (5, 5, 9000):
        file.write(end - 5, b"hello")
        file.wrote_position = end
        file.flush_appended()
    file.write(9000, b"hello")
    file.wrote_position = 9005
    file.unmap()
    file.flush_appended()
    assert synced == [(0, 5), (5, 9000), file.path]
    assert file.flushed_position == 9005


def test_an_unmapped_file_knows_whether_slices_are_held(tmp_path: Path) -> None:
    file = make(tmp_path, MappedFilePool(10))
    assert not file.is_held
    first = file.slice(0, 10)
    file.unmap()
    second = file.slice(0, 10)[3:5]
    file.unmap()
    assert file.is_held
    del first
    assert file.is_held
    del second
    assert not file.is_held
    file.unmap()
    assert not file.is_held


def test_nothing_is_written_beyond_what_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(tmp_path, MappedFilePool(10))
    file.write(0, b"fits")
    assert file.reserved_position == 4096

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    file.write(4, b"fits too")
    with pytest.raises(StoreNotWritable):
        file.write(4094, b"does not")
    assert file.reserved_position == 4096


def test_reserving_ends_with_the_file(tmp_path: Path) -> None:
    file = make(tmp_path, MappedFilePool(10), size=5000)
    file.reserve(1 << 30)
    assert file.reserved_position == 5000
    assert Path(file.path).stat().st_size == 5000


def test_a_slice_outlives_its_file(tmp_path: Path) -> None:
    file = make(tmp_path, MappedFilePool(10))
    file.write(0, b"hello")
    view = file.slice(0, 5)
    file.unmap()
    Path(file.path).unlink()
    assert bytes(view) == b"hello"


def test_the_pool_unmaps_what_is_not_used(tmp_path: Path) -> None:
    pool = MappedFilePool(16)
    files = [make(tmp_path, pool, start, 4096) for start in range(0, 40 * 4096, 4096)]
    for number, file in enumerate(files):
        file.write(0, b"%d" % number)
        files[0].slice(0, 1)
    mapped = [file for file in files if file.mapping is not None]
    assert len(mapped) <= 17
    assert files[0] in mapped
    assert [bytes(file.slice(0, 1)) for file in files] == [b"%d" % number for number in range(10)] + [
        b"%d" % (number // 10) for number in range(10, 40)]


def test_the_pool_holds_no_file_that_is_not_mapped(tmp_path: Path) -> None:
    """As one of a topic that was deleted: a broker makes and deletes more of them than any pool has room for."""
    pool = MappedFilePool(16)
    files = [make(tmp_path, pool, start, 4096) for start in range(0, 5 * 4096, 4096)]
    for file in files:
        file.map()
    assert len(pool) == 5
    for file in files[:3]:
        file.unmap()
    assert len(pool) == 2
    files[0].map()
    assert len(pool) == 3
    pool.unmap_all()
    assert len(pool) == 0
    assert all(file.mapping is None for file in files)


def test_a_file_mapped_ahead_makes_no_room_before_it_is_taken_up(tmp_path: Path) -> None:
    pool = MappedFilePool(1)
    used, ahead = (make(tmp_path, pool, start, 4096) for start in (0, 4096))
    used.map()
    ahead.map_ahead()
    assert used.mapping is not None
    ahead.take_up()
    assert used.mapping is None
    assert ahead.mapping is not None
