from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.store.mapped_file import MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue, file_name


def queue(directory: Path) -> MappedFileQueue:
    return MappedFileQueue(directory, 4096, MappedFilePool(16), "mappedFileSizeCommitLog")


def put(directory: Path, start: int, content: bytes = b"x" * 4096) -> Path:
    path = directory / file_name(start)
    path.write_bytes(content)
    return path


def test_names_are_offsets_of_twenty_digits() -> None:
    assert file_name(131_072) == "00000000000000131072"


def test_files_are_found_by_offset(tmp_path: Path) -> None:
    for start in (4096, 8192, 12_288):
        put(tmp_path, start)
    files = queue(tmp_path)
    files.load()
    assert (files.start, files.end) == (4096, 16_384)
    for offset, start in ((4096, 4096), (8191, 4096), (8192, 8192), (16_383, 12_288)):
        found = files.find(offset)
        assert found is not None
        assert found.start == start
    assert files.find(4095) is None
    assert files.find(16_384) is None


def test_a_gap_between_files_is_no_file(tmp_path: Path) -> None:
    put(tmp_path, 0)
    put(tmp_path, 12_288)
    files = queue(tmp_path)
    files.load()
    assert files.find(5000) is None
    found = files.find(12_300)
    assert found is not None
    assert found.start == 12_288


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path, 0)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "12345678901234567890").mkdir()
    files = queue(tmp_path)
    files.load()
    assert len(files.files) == 1


def test_a_wrong_size_names_file_size_and_mend(tmp_path: Path) -> None:
    path = put(tmp_path, 0, b"short")
    put(tmp_path, 4096)
    with pytest.raises(StoreDamaged, match=f"{path} has 5 bytes where mappedFileSizeCommitLog says 4096: set .*"):
        queue(tmp_path).load()


def test_an_empty_last_file_is_removed(tmp_path: Path) -> None:
    put(tmp_path, 0)
    empty = put(tmp_path, 4096, b"")
    files = queue(tmp_path)
    files.load()
    assert not empty.exists()
    assert files.end == 4096


def test_overlapping_files_are_refused(tmp_path: Path) -> None:
    put(tmp_path, 0)
    put(tmp_path, 4000)
    with pytest.raises(StoreDamaged, match="overlaps"):
        queue(tmp_path).load()


def test_truncating_removes_later_files_and_zeroes_the_rest(tmp_path: Path) -> None:
    for start in (0, 4096, 8192):
        put(tmp_path, start)
    files = queue(tmp_path)
    files.load()
    files.truncate(5000)
    assert not (tmp_path / file_name(8192)).exists()
    assert files.end == 5000
    assert (tmp_path / file_name(4096)).read_bytes() == b"x" * 904 + b"\0" * 3192


def test_truncating_to_a_boundary_keeps_full_files_only(tmp_path: Path) -> None:
    for start in (0, 4096):
        put(tmp_path, start)
    files = queue(tmp_path)
    files.load()
    files.truncate(4096)
    assert [path.name for path in tmp_path.iterdir()] == [file_name(0)]
    assert files.end == 4096


def test_the_first_file_says_where_an_empty_log_goes_on(tmp_path: Path) -> None:
    put(tmp_path, 8192)
    files = queue(tmp_path)
    files.load()
    files.truncate(8192)
    assert files.end == 8192


def test_extending_makes_a_file_of_the_size(tmp_path: Path) -> None:
    files = queue(tmp_path / "new")
    file = files.extend(8192)
    assert file.is_new
    assert (tmp_path / "new" / file_name(8192)).stat().st_size == 4096
    files.remove_all()
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["²" * 20, "notes", "0" * 19, "٣" * 20])
def test_a_file_with_another_kind_of_name_is_left_alone(tmp_path: Path, name: str) -> None:
    put(tmp_path, 0)
    (tmp_path / name).write_bytes(b"x" * 4096)
    files = queue(tmp_path)
    files.load()
    assert [file.start for file in files.files] == [0]


def test_a_file_named_beyond_any_offset_is_told(tmp_path: Path) -> None:
    put(tmp_path, 0)
    (tmp_path / ("9" * 20)).write_bytes(b"x" * 4096)
    with pytest.raises(StoreDamaged, match=r"9999 is not a file of a store.* move it away"):
        queue(tmp_path).load()
