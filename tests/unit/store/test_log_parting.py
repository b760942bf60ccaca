import random
import shutil
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.store.log_parting import LogTail, Look, RestingLog, find_parting
from regulus.store.mapped_file_queue import file_name
from tests.stores import fill, open_store

FILE_SIZE = 4096


def two_logs(tmp_path: Path, common: int, ours: int, theirs: int, size: int = 300) -> tuple[RestingLog, RestingLog]:
    """Which parted behind `common` records."""
    store = open_store(tmp_path / "ours")
    fill(store, common, size=size)
    store.close()
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    for name, count in (("ours", ours), ("theirs", theirs)):
        store = open_store(tmp_path / name)
        fill(store, count, first=common + (50_000 if name == "ours" else 60_000), size=size)    # of the same sizes
        store.close()
    return RestingLog(tmp_path / "ours" / "commitlog"), RestingLog(tmp_path / "theirs" / "commitlog")


def end_of(log: RestingLog) -> int:
    return log.behind(0).end


def parting(ours: RestingLog, theirs: RestingLog, first: int = 0, looks: list[Look] | None = None,
            end: int = 0) -> int | None:
    end = end or end_of(theirs)
    finding = find_parting(ours, first, end)
    try:
        look = next(finding)
        while True:
            assert first <= look.offset
            assert look.offset + look.size <= end
            assert look.offset // FILE_SIZE == (look.offset + look.size - 1) // FILE_SIZE
            assert look.offset, "a master takes 0 for a wish to begin with its last file"
            if looks is not None:
                looks.append(look)
            look = finding.send(theirs.read(*look))
    except StopIteration as stop:
        found = stop.value
        assert found is None or isinstance(found, int)
        return found


def record_starts(log: RestingLog) -> list[int]:
    return [begin for start in log.starts for begin, _, is_blank in log.units(start) if not is_blank]


@pytest.mark.parametrize("common", [2, 8, 9, 10, 11, 29, 30, 31, 60])
@pytest.mark.parametrize("more", [1, 5, 25])
def test_two_logs_part_at_the_first_record_that_differs(tmp_path: Path, common: int, more: int) -> None:
    ours, theirs = two_logs(tmp_path, common, more, 40)
    begin = parting(ours, theirs)
    starts = record_starts(ours)
    # The file may end in a blank here where the other has it, too: that is no difference.
    assert begin == starts[common]
    assert ours.behind(begin) == LogTail(end_of(ours), more)


def test_what_the_other_has_not_is_cut(tmp_path: Path) -> None:
    ours, theirs = two_logs(tmp_path, 20, 15, 0)
    assert parting(ours, theirs) == record_starts(ours)[20]


def test_a_log_of_which_the_other_has_all_is_cut_nowhere(tmp_path: Path) -> None:
    for number, theirs_more in enumerate((0, 1, 30)):
        ours, theirs = two_logs(tmp_path / f"{number}", 20, 0, theirs_more)
        assert parting(ours, theirs) is None


def test_files_are_gone_through_by_halves(tmp_path: Path) -> None:
    ours, theirs = two_logs(tmp_path, 500, 100, 100)
    looks: list[Look] = []
    assert parting(ours, theirs, looks=looks) == record_starts(ours)[500]
    assert len(ours.starts) > 60
    assert len(looks) <= 8


def test_files_that_the_other_has_deleted_are_not_asked_for(tmp_path: Path) -> None:
    ours, theirs = two_logs(tmp_path, 40, 10, 10)
    assert parting(ours, theirs, first=2 * FILE_SIZE) == record_starts(ours)[40]


@pytest.mark.parametrize("first", [0, 4 * FILE_SIZE])
def test_logs_that_have_nothing_in_common_are_told(tmp_path: Path, first: int) -> None:
    ours, theirs = two_logs(tmp_path, 0, 60, 60)
    with pytest.raises(StoreDamaged, match="nothing of the log here, which begins at 0, is found in the master's"):
        parting(ours, theirs, first)


def test_any_byte_tells_them_apart(tmp_path: Path) -> None:
    chance = random.Random(3)
    ours, theirs = two_logs(tmp_path, 30, 0, 0)
    starts, place, end = record_starts(ours), tmp_path / "theirs" / "commitlog", end_of(theirs)
    for _ in range(20):
        number = chance.randrange(27, 30)       # of the last file: a log only grows
        at = chance.randrange(starts[number], [*starts, end][number + 1])
        path = place / file_name(at - at % FILE_SIZE)
        data = path.read_bytes()
        path.write_bytes(data[:at % FILE_SIZE] + bytes([data[at % FILE_SIZE] ^ 1]) + data[at % FILE_SIZE + 1:])
        assert parting(ours, theirs, end=end) == starts[number]
        path.write_bytes(data)


def test_a_log_with_a_missing_file_is_told(tmp_path: Path) -> None:
    two_logs(tmp_path, 40, 0, 0)
    (tmp_path / "ours" / "commitlog" / file_name(FILE_SIZE)).unlink()
    with pytest.raises(StoreDamaged, match="or one is missing between them"):
        RestingLog(tmp_path / "ours" / "commitlog")
