"""Messages that wait for a time of their own, when one of their files is lost or damaged, or not there yet."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from tests.crash.timed_store import NOW, TimedStore

from regulus.broker.timers.timers import DAMAGED
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


@pytest.mark.parametrize("seconds", [0, 1, 7, 30])
def test_counts_are_right_after_a_kill(seconds: int, tmp_path: Path) -> None:
    """Whatever of note, document and book is older than the others."""
    timed = TimedStore(tmp_path / "first")
    for number, key in enumerate(WAITING):
        timed.send(key, number % 100 * 1000 + 500)
        if number == 120:
            timed.run(500)
            timed.flush()
            timed.save_documents()
    for _ in range(seconds):
        timed.run(1000)
    timed.store.flush_commit_log()
    again = TimedStore(copytree(tmp_path / "first", tmp_path / "second"), timed.now_ms + 300)
    again.run(0)
    assert again.waiting() == len(WAITING) - len(again.came())
    for _ in range(50):
        again.run(1000)
    assert 0 < again.waiting() == len(WAITING) - len(again.came())
    for _ in range(60):
        again.run(1000)
    assert again.waiting() == 0


def test_counts_are_right_after_a_kill_within_a_tick(tmp_path: Path) -> None:
    timed = TimedStore(tmp_path / "first")
    for number in range(400):
        timed.send(f"K{number}", 3_000)
    timed.run(0)
    timed.flush()
    timed.now_ms += 3_000
    timed.broker.timers.tick(timed.now_ms)
    timed.flush()
    again = TimedStore(copytree(tmp_path / "first", tmp_path / "second"), timed.now_ms)
    again.dispatch()
    assert 0 < again.waiting() == 400 - len(again.came()) < 400
    again.run(0)
    assert (len(again.came()), again.waiting()) == (400, 0)


def test_counts_are_not_made_anew_after_a_clean_stop(tmp_path: Path) -> None:
    timed = TimedStore(tmp_path / "store")
    timed.send("K", 50_000)
    timed.send("L", 1_000)
    timed.run(2_000)
    timed.stop()
    again = TimedStore(tmp_path / "store", timed.now_ms)
    assert (again.waiting(), again.broker.timers.counts.version) == (1, 3)
    again.stop()
    # RocketMQ would have written the note without what is ours in it.
    note = tmp_path / "store" / "config" / "timercheck"
    note.write_bytes(note.read_bytes()[:56].ljust(4096, b"\0"))
    again = TimedStore(tmp_path / "store", timed.now_ms)
    assert (again.waiting(), again.broker.timers.counts.version) == (1, 5)
    again.run(60_000)
    assert (again.came(), again.waiting()) == (["L", "K"], 0)


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
