import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from regulus.errors import StoreError, StoreLocked, StoreNotWritable
from regulus.store import disk
from tests.stores import open_files


def test_a_sized_file_has_its_size_and_no_blocks(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    disk.create_sized(path, 1 << 20)
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks == 0


def test_reserved_bytes_have_blocks_and_the_size_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk.create_sized(path, 1 << 20)
    disk.reserve(path, 0, 65_536)
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks * 512 >= 65_536


def test_a_full_disk_is_named_with_its_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    disk.create_sized(path, 4096)
    monkeypatch.setattr(os, "posix_fallocate", _raise(errno.ENOSPC))
    with pytest.raises(StoreNotWritable, match=rf"disk of {path} is full .*make room"):
        disk.reserve(path, 0, 4096)


@pytest.mark.parametrize(("number", "inodes", "told"), [
    (errno.ENOSPC, (1000, 0), "takes no more files (0 inodes free, 409600 bytes are): delete files there"),
    (errno.ENOSPC, (0, 0), "is full (409600 bytes free): make room there"),     # it makes inodes as it needs them
    (errno.EDQUOT, (1000, 10), "has used up its quota on that disk"),
    (errno.EROFS, (1000, 10), "its file system is read-only: mount it for writing")])
def test_why_nothing_can_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int,
                                            inodes: tuple[int, int], told: str) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=100, f_frsize=4096, f_files=inodes[0],
                                                                    f_favail=inodes[1]))
    monkeypatch.setattr(Path, "mkdir", _raise(number))
    with pytest.raises(StoreNotWritable) as caught:
        disk.make_directory(tmp_path / "made")
    assert told in str(caught.value)


def test_a_refused_write_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", _raise(errno.EACCES))
    with pytest.raises(StoreNotWritable, match=r"cannot be written .* storePathRootDir"):
        disk.create_sized(tmp_path / "file", 10)


def test_a_directory_where_a_file_is_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(StoreNotWritable, match="store"):
        disk.make_directory(tmp_path / "store" / "commitlog")


def test_zero_clears_to_the_end_and_counts_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000 + b"\0" * 3000 + b"y" * 2 + b"\0" * 9998)
    assert disk.zero(path, 4000, 18_000) == 4002
    assert path.read_bytes() == b"x" * 4000 + b"\0" * 14_000
    assert disk.zero(path, 4000, 18_000) == 0


def test_zero_writes_where_holes_cannot_be_punched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    monkeypatch.setattr(disk._libc, "fallocate", lambda *_: -1)
    disk.zero(path, 10, 10_000)
    assert path.read_bytes() == b"x" * 10 + b"\0" * 9990


def test_a_written_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    disk.write_file(tmp_path / "a", b"one")
    disk.write_file(tmp_path / "a", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert disk.read_file(tmp_path / "a") == b"two"
    assert disk.read_file(tmp_path / "b") is None


def test_reading_stops_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    buffer = bytearray(10)
    assert disk.read_into(path, 2, memoryview(buffer)) == 4
    assert bytes(buffer[:4]) == b"cdef"
    assert disk.read_at(path, 4, 10) == b"ef"
    with pytest.raises(StoreError):
        disk.read_at(tmp_path / "none", 0, 1)


def test_populating_and_releasing_keep_the_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk.create_sized(path, 1 << 20)
    disk.reserve(path, 0, 1 << 20)
    mapping = disk.map_file(path, 1 << 20, False)
    mapping[5000:5003] = b"abc"
    disk.populate(mapping, 4096, 65_536)
    disk.release(mapping, 0, 1 << 20)
    assert mapping[5000:5003] == b"abc"
    assert disk.read_at(path, 5000, 3) == b"abc"


def test_a_sync_of_a_range_takes_whole_pages_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    disk.create_sized(path, 1 << 20)
    mapping = disk.map_file(path, 1 << 20, False)
    mapping[5000:5003] = b"abc"
    disk.sync_range(path, mapping, 5000, 9000)
    assert path.read_bytes()[5000:5003] == b"abc"
    synced = []
    begin = disk._address(mapping)
    monkeypatch.setattr(disk._libc, "msync", lambda address, size, _: synced.append((address - begin, size)) or 0)
    disk.sync_range(path, mapping, 5000, 9000)
    assert synced == [(4096, 9000 - 4096)]


def test_a_sync_of_a_range_that_fails_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk.create_sized(path, 8192)
    mapping = disk.map_file(path, 8192, False)
    with pytest.raises(StoreNotWritable, match="file cannot be written"):
        disk.sync_range(path, mapping, 0, 1 << 30)


def test_a_sync_of_a_deleted_file_is_nothing(tmp_path: Path) -> None:
    disk.sync_data(tmp_path / "gone")
    disk.sync_directory(tmp_path / "gone")


def test_names_are_sorted_and_of_one_kind(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert disk.names(tmp_path) == ["a", "b"]
    assert disk.names(tmp_path, directories=True) == ["folder"]
    assert disk.names(tmp_path / "none") == []


def test_used_ratio_is_whole_percents(tmp_path: Path) -> None:
    ratio = disk.used_ratio(tmp_path)
    assert 0 <= ratio <= 1
    assert ratio == round(ratio, 2)
    assert disk.free_bytes(tmp_path / "not" / "there") > 0


def test_the_lock_holds_within_the_process(tmp_path: Path) -> None:
    lock = disk.FileLock(tmp_path / "lock")
    with pytest.raises(StoreLocked, match="in this process"):
        disk.FileLock(tmp_path / "lock")
    lock.release()
    disk.FileLock(tmp_path / "lock").release()


def test_a_lock_that_nobody_has_any_more_is_no_lock(tmp_path: Path) -> None:
    lock = disk.FileLock(tmp_path / "lock")
    assert open_files(tmp_path) == [str(tmp_path / "lock")]
    del lock
    assert open_files(tmp_path) == []
    disk.FileLock(tmp_path / "lock").release()


def test_the_lock_holds_between_processes_and_names_the_holder(tmp_path: Path) -> None:
    script = ("import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX, 1, 0); "
              "print('held', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", script, tmp_path / "lock"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked, match=f"process {holder.pid}.*another storePathRootDir"):
            disk.FileLock(tmp_path / "lock")
        holder.communicate()
    disk.FileLock(tmp_path / "lock").release()


def _raise(number: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))
    return fail


def test_when_a_file_was_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert disk.modified_ms(path) == 1_700_000_000_123
    with pytest.raises(StoreError, match="cannot be read"):
        disk.modified_ms(tmp_path / "none")


def test_what_is_reserved_for_root_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As df: Use% is 95 here, and not 90."""
    state = SimpleNamespace(f_blocks=1000, f_bfree=100, f_bavail=50, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: state)
    assert disk.room(tmp_path) == (950 * 4096, 50 * 4096)
    assert disk.used_ratio(tmp_path) == 0.95


def test_what_has_no_room_as_a_whole_is_not_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n")
    disk.append_to(path, b"two\n", is_durable=True)

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "_write_all", half)
        with pytest.raises(StoreNotWritable, match=r"lines is full"):
            disk.append_to(path, b"three\n", is_durable=False)
    assert path.read_bytes() == b"one\ntwo\n"
