"""Messages that wait for a time of their own, when one of their files is lost or damaged, or not there yet."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from tests.crash.timed_store import NOW, TimedStore

from regulus.broker.timers import DAMAGED
from regulus.record.timer_units import RECORD_SIZE

WAITING = [f"K{number}" for number in range(200)]


def zero(path: Path, first: int = 0, behind: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[first:behind] = bytes(len(data[first:behind]))
    path.write_bytes(data)


def timer_log(root: Path, index: int) -> Path:
    return sorted((root / "timerlog").iterdir())[index]


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the wheel is lost": lambda root: (root / "timerwheel").unlink(),
    "the wheel is empty": lambda root: zero(root / "timerwheel"),
    "the note is lost": lambda root: (root / "config" / "timercheck").unlink(),
    "all records are lost": lambda root: rmtree(root / "timerlog"),
    "the first file of records is lost": lambda root: timer_log(root, 0).unlink(),
    "the last file of records is lost": lambda root: timer_log(root, -1).unlink(),
    "the last file of records is empty": lambda root: zero(timer_log(root, -1)),
    "records in the midst are empty": lambda root: zero(timer_log(root, 0), 20 * RECORD_SIZE, 40 * RECORD_SIZE),
}


@pytest.mark.parametrize("is_killed_again", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_file_is_damaged_each_message_comes_once(damage: str, is_killed_again: bool, tmp_path: Path) -> None:
    timed = TimedStore(tmp_path / "first")
    for number, key in enumerate(WAITING):
        timed.send(key, number % 100 * 1000 + 500)
    timed.run(0)
    for _ in range(30):
        timed.run(1000)
        timed.flush()
    assert len(timed.came()) == 60
    copy = copytree(tmp_path / "first", tmp_path / "second")
    DAMAGES[damage](copy)
    again = TimedStore(copy, timed.now_ms + 10_000)
    told = dict(again.broker.timers.happenings.take())
    if is_killed_again:
        again.dispatch()
        again.broker.timers.tick(again.now_ms)
        again.flush()
        again = TimedStore(copytree(copy, tmp_path / "third"), again.now_ms)
    for _ in range(80):
        again.run(1000)
    told.update(again.broker.timers.happenings.take())
    assert sorted(again.came()) == sorted(WAITING)
    assert DAMAGED in told


def test_all_timer_files_may_be_lost(tmp_path: Path) -> None:
    timed = TimedStore(tmp_path / "first")
    for number, key in enumerate(WAITING):
        timed.send(key, number % 100 * 1000 + 500)
    for _ in range(30):
        timed.run(1000)
        timed.flush()
    copy = copytree(tmp_path / "first", tmp_path / "second")
    rmtree(copy / "timerlog")
    (copy / "timerwheel").unlink()
    (copy / "config" / "timercheck").unlink()
    again = TimedStore(copy, timed.now_ms + 10_000)
    for _ in range(80):
        again.run(1000)
    assert sorted(again.came()) == sorted(WAITING)


def test_the_first_note_of_a_store_needs_nothing_that_is_there(tmp_path: Path) -> None:
    timed = TimedStore(tmp_path / "store")
    assert not (tmp_path / "store" / "config").exists()
    timed.send("K", 5_000)
    timed.run(0)
    timed.flush()
    assert (tmp_path / "store" / "config" / "timercheck").stat().st_size == 4096
    again = TimedStore(copytree(tmp_path / "store", tmp_path / "copy"), NOW + 9_000)
    again.run(0)
    assert again.came() == ["K"]
