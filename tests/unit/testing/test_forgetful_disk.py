"""What the disk that forgets keeps, and what it does not."""

from collections.abc import Iterator
from mmap import mmap
from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.store import disk
from regulus.testing.forgetful_disk import EVERYTHING, PAGE_SIZE, SURE_ONLY, ForgetfulDisk, SyncPoint, rebooted

SIZE = 4 * PAGE_SIZE


@pytest.fixture
def power(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    (tmp_path / "root" / "old").mkdir(parents=True)
    (tmp_path / "root" / "old" / "file").write_bytes(b"o" * SIZE)
    with ForgetfulDisk(tmp_path / "root") as entered:
        yield entered


def found(power: ForgetfulDisk, seed: int = SURE_ONLY) -> dict[str, bytes]:
    """What a crash leaves: each file, with its bytes but for the zeros at its end, and empty folders as None."""
    target = power.crash(seed, power.root.with_name(f"crash-{len(list(power.root.parent.iterdir()))}"))
    return {str(path.relative_to(target)): path.read_bytes().rstrip(b"\0") for path in sorted(target.rglob("*"))
            if path.is_file()}


def mapped(power: ForgetfulDisk, name: str = "new") -> tuple[Path, mmap]:
    path = power.root / name
    disk.create_sized(path, SIZE)
    disk.reserve(path, 0, SIZE)
    return path, disk.map_file(path, SIZE, False)


OLD = {"old/file": b"o" * SIZE}


def test_what_was_there_is_sure(power: ForgetfulDisk) -> None:
    assert found(power) == OLD


def test_a_new_file_needs_the_sync_of_its_bytes_and_of_its_name(power: ForgetfulDisk) -> None:
    path, mapping = mapped(power)
    mapping[:3] = b"new"
    assert found(power) == OLD
    disk.sync_data(path)
    assert found(power) == OLD
    disk.sync_directory(power.root)
    assert found(power) == OLD | {"new": b"new"}
    assert found(power, EVERYTHING) == OLD | {"new": b"new"}


def test_a_name_alone_is_an_empty_file(power: ForgetfulDisk) -> None:
    _, mapping = mapped(power)
    mapping[:3] = b"new"
    disk.sync_directory(power.root)
    assert found(power) == OLD | {"new": b""}
    target = power.crash(SURE_ONLY, power.root.with_name("empty"))
    assert (target / "new").stat().st_size == 0


def test_what_is_written_while_a_sync_runs_is_not_vouched_for(power: ForgetfulDisk) -> None:
    path, mapping = mapped(power)
    disk.sync_directory(power.root)
    mapping[:5] = b"first"
    points = []

    def write(point: SyncPoint) -> None:
        points.append((point.kind, point.path))
        mapping[:5] = b"later"

    power.on_sync = write
    disk.sync_data(path)
    assert points == [("file", path)]
    assert found(power)["new"] == b"first"
    assert found(power, EVERYTHING)["new"] == b"later"
    power.on_sync = None
    disk.sync_data(path)
    assert found(power)["new"] == b"later"


def test_a_range_brings_its_pages(power: ForgetfulDisk) -> None:
    path, mapping = mapped(power)
    disk.sync_directory(power.root)
    for page in range(4):
        mapping[page * PAGE_SIZE:page * PAGE_SIZE + 1] = b"%d" % page
    disk.sync_range(path, mapping, PAGE_SIZE + 100, 2 * PAGE_SIZE + 1)
    page = bytes(PAGE_SIZE - 1)
    assert found(power)["new"] == b"\0" + page + b"1" + page + b"2"


def test_a_new_folder_needs_the_sync_of_its_own_name(power: ForgetfulDisk) -> None:
    disk.make_directory(power.root / "a" / "b", is_durable=False)
    disk.write_file(power.root / "a" / "b" / "file", b"x")
    assert found(power) == OLD
    disk.sync_directory(power.root / "a")
    assert found(power) == OLD
    disk.sync_directory(power.root)
    assert found(power) == OLD | {"a/b/file": b"x"}
    disk.make_directory(power.root / "c" / "d")
    disk.write_file(power.root / "c" / "d" / "file", b"y")
    assert found(power) == OLD | {"a/b/file": b"x", "c/d/file": b"y"}


def test_removed_and_replaced_names_come_back_with_their_bytes(power: ForgetfulDisk) -> None:
    path = power.root / "old" / "file"
    replacing = path.with_name("tmp")
    replacing.write_bytes(b"replaced")
    replacing.replace(path)
    assert found(power) == OLD
    assert found(power, EVERYTHING) == {"old/file": b"replaced"}
    disk.sync_directory(path.parent)
    assert found(power) == {"old/file": b""}        # renamed before its bytes were synced
    disk.sync_data(path)
    assert found(power) == {"old/file": b"replaced"}
    disk.remove_file(path)
    assert found(power) == {"old/file": b"replaced"}
    disk.sync_directory(path.parent)
    assert found(power) == {}


def test_the_whole_file_system_is_synced(power: ForgetfulDisk) -> None:
    _, mapping = mapped(power)
    mapping[:3] = b"new"
    disk.make_directory(power.root / "a", is_durable=False)
    (power.root / "a" / "file").write_bytes(b"x")
    disk.sync_filesystem(power.root)
    assert found(power) == OLD | {"new": b"new", "a/file": b"x"}


def test_what_lies_elsewhere_is_none_of_its_business(power: ForgetfulDisk, tmp_path: Path) -> None:
    """The store in a copy is opened beside the one that was copied, and its syncs are its own."""
    _, mapping = mapped(power)
    mapping[:3] = b"new"
    disk.write_file(tmp_path / "other", b"x")
    disk.sync_filesystem(tmp_path)
    assert found(power) == OLD


def test_what_a_failed_sync_lost_no_later_one_brings_unless_it_is_written_again(power: ForgetfulDisk) -> None:
    path, mapping = mapped(power)
    disk.sync_directory(power.root)
    mapping[:5] = b"first"
    power.fails = lambda point: True
    with pytest.raises(StoreNotWritable, match="new cannot be written: Input/output error"):
        disk.sync_data(path)
    with pytest.raises(StoreNotWritable):
        disk.sync_range(path, mapping, 0, 5)
    with pytest.raises(StoreNotWritable):
        disk.sync_directory(power.root)
    with pytest.raises(StoreNotWritable):
        disk.sync_filesystem(power.root)
    power.fails = None
    mapping[PAGE_SIZE:PAGE_SIZE + 1] = b"2"
    disk.sync_data(path)
    assert found(power)["new"] == bytes(PAGE_SIZE) + b"2"
    disk.write_again(path, 0, 5)
    disk.sync_data(path)
    assert found(power)["new"] == b"first".ljust(PAGE_SIZE, b"\0") + b"2"


def test_by_chance_each_page_is_one_that_was_there(power: ForgetfulDisk) -> None:
    """In the order of the pages or in none; the same seed leaves the same."""
    path, mapping = mapped(power)
    disk.sync_data(path)
    disk.sync_directory(power.root)
    for text in (b"one", b"two"):
        for page in range(4):
            mapping[page * PAGE_SIZE:page * PAGE_SIZE + 3] = text
        power.look()
    left = {seed: found(power, seed)["new"].ljust(SIZE, b"\0") for seed in range(2, 60)}
    pages = {seed: [data[page * PAGE_SIZE:page * PAGE_SIZE + 3] for page in range(4)] for seed, data in left.items()}
    assert {page for each in pages.values() for page in each} == {b"\0\0\0", b"one", b"two"}
    assert len({(each[0], each[3]) for each in pages.values()}) > 6
    assert all(found(power, seed)["new"].ljust(SIZE, b"\0") == left[seed] for seed in (2, 30))


def test_names_are_forgotten_in_their_order(power: ForgetfulDisk) -> None:
    for number in range(6):
        (power.root / f"{number}").write_bytes(b"x")
        power.look()
    left = {tuple(sorted(name for name in found(power, seed) if name != "old/file")) for seed in range(2, 40)}
    assert left <= {tuple("012345"[:count]) for count in range(7)}
    assert len(left) > 2


def test_a_folder_is_handed_over_as_a_cut_left_it_and_is_sure_from_then_on(power: ForgetfulDisk) -> None:
    (power.root / "old" / "late").write_bytes(b"never synced")
    handed = power.hand_over(power.root / "old", power.root / "second", SURE_ONLY)
    assert [path.name for path in handed.iterdir()] == ["file"]
    (handed / "later").write_bytes(b"never synced")
    third = power.hand_over(handed, power.root / "third", SURE_ONLY)
    assert {path.name: path.read_bytes() for path in third.iterdir()} == {"file": b"o" * SIZE}
    kept = power.hand_over(handed, power.root / "fourth")
    assert sorted(path.name for path in kept.iterdir()) == ["file", "later"]


def test_a_full_disk_has_no_blocks(power: ForgetfulDisk) -> None:
    power.is_full = True
    with pytest.raises(StoreNotWritable, match="is full"):
        mapped(power)


def test_afterwards_all_is_as_before(tmp_path: Path) -> None:
    before = (disk.os, disk._libc, disk.mmap, disk.boot_id())
    with ForgetfulDisk(tmp_path), rebooted():
        assert disk.boot_id() != before[3]
    assert (disk.os, disk._libc, disk.mmap, disk.boot_id()) == before
