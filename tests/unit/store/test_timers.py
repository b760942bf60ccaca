"""The files of messages that wait: what a start finds of them, whatever ended the last run."""

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.record import timer_units
from regulus.record.timer_units import (
    AGAIN_KIND,
    DEFAULT_KIND,
    DELETE_KIND,
    NOWHERE,
    RECORD_SIZE,
    SLOT_SIZE,
    SLOTS,
    TimerCheck,
    TimerRecord,
)
from regulus.store.timers import TimerFiles

TICK = 1_700_000_000_000
FILE_SIZE = 4096        # 78 records and a blank
LOG_END = 1 << 40


def make(path: Path, log_end: int = LOG_END, precision: int = 1000) -> TimerFiles:
    timers = TimerFiles(path, FILE_SIZE, precision)
    timers.open(log_end)
    return timers


def enter(timers: TimerFiles, slot_ms: int, physical_offset: int, kind: int = DEFAULT_KIND) -> None:
    timers.enter(TimerRecord(slot_ms, kind, TICK, physical_offset, 100, 7))


def places(timers: TimerFiles, slot_ms: int) -> list[int]:
    """Of all that waits for a tick, in the order in which it was entered."""
    records, position = timers.chain(timers.slot(slot_ms).last, 1000)
    assert position == NOWHERE
    return [record.physical_offset for record in reversed(records)]


def flush(timers: TimerFiles, **fields: int) -> None:
    timers.take(TimerCheck(log_position=0, **fields))
    deed = timers.begin_flush(0)
    assert deed is not None
    deed()
    timers.end_flush(is_done=True)


def test_records_of_a_slot_are_a_chain_over_files(tmp_path):
    timers = make(tmp_path)
    for number in range(400):
        enter(timers, TICK + 1000 * (number % 2), number)
    assert places(timers, TICK) == list(range(0, 400, 2))
    assert places(timers, TICK + 1000) == list(range(1, 400, 2))
    assert places(timers, TICK + 2000) == []
    slot = timers.slot(TICK)
    assert (slot.first, slot.waiting) == (0, 200)
    assert sorted(each.name for each in (tmp_path / "timerlog").iterdir()) == [
        f"{number * FILE_SIZE:020d}" for number in range(6)]


def test_a_file_ends_as_rocketmq_ends_it(tmp_path):
    timers = make(tmp_path)
    for number in range(79):
        enter(timers, TICK, number)
    data = (tmp_path / "timerlog" / f"{0:020d}").read_bytes()
    end = 78 * RECORD_SIZE
    assert data[end - RECORD_SIZE:end] == timer_units.encode(
        TimerRecord(TICK, DEFAULT_KIND, TICK, 77, 100, 7), 76 * RECORD_SIZE)
    assert data[end:end + 16] == (FILE_SIZE - end).to_bytes(4, "big") + bytes(8) + bytes.fromhex("cbd43194")


def test_a_marker_lowers_the_count(tmp_path):
    timers = make(tmp_path)
    enter(timers, TICK, 1)
    enter(timers, TICK, 2, DEFAULT_KIND | DELETE_KIND)
    assert timers.slot(TICK).waiting == 0
    assert places(timers, TICK) == [1, 2]


@pytest.mark.parametrize("flushed", [1, 77, 78, 100, 154, 155, 200])
def test_a_start_enters_what_was_appended_behind_the_checkpoint(tmp_path, flushed):
    timers = make(tmp_path)
    for number in range(200):
        if number == flushed:
            flush(timers, read_ms=TICK)
        enter(timers, TICK + 1000 * (number % 3), number)
    if flushed == 200:
        flush(timers, read_ms=TICK)
    again = make(tmp_path)
    for rest in range(3):
        assert places(again, TICK + 1000 * rest) == list(range(rest, 200, 3))
        assert again.slot(TICK + 1000 * rest).waiting == len(range(rest, 200, 3))
    assert again.last_record().physical_offset == 199
    assert again.check.read_ms == TICK
    enter(again, TICK, 200)
    assert places(again, TICK)[-1] == 200


def test_records_of_messages_that_the_log_lost_are_gone(tmp_path):
    timers = make(tmp_path)
    for number in range(100):
        enter(timers, TICK, number)
        if number == 50:
            flush(timers, read_ms=TICK)
    again = make(tmp_path, log_end=90)
    assert places(again, TICK) == list(range(90))
    assert again.last_record().physical_offset == 89


def test_a_wheel_that_knows_more_than_the_log_of_timers_is_put_right(tmp_path):
    """As RocketMQ leaves it: what came while it brought the wheel to disk may be in that alone."""
    timers = make(tmp_path)
    for number in range(200):
        enter(timers, TICK + 1000 * (number % 3), number)
        if number == 79:
            flush(timers, read_ms=TICK)
            noted = (tmp_path / "config" / "timercheck").read_bytes()
    flush(timers, read_ms=TICK)
    (tmp_path / "config" / "timercheck").write_bytes(noted)
    _, second, third = sorted((tmp_path / "timerlog").iterdir())
    third.unlink()
    second.write_bytes(second.read_bytes()[:10 * RECORD_SIZE].ljust(FILE_SIZE, b"\0"))
    again = make(tmp_path)
    assert again.damage == ""
    for rest in range(3):
        assert places(again, TICK + 1000 * rest) == list(range(rest, 88, 3))


def cut(path: Path, records: int) -> None:
    path.write_bytes(path.read_bytes()[:records * RECORD_SIZE].ljust(FILE_SIZE, b"\0"))


def cut_note(root: Path) -> None:
    note = root / "config" / "timercheck"
    note.write_bytes(note.read_bytes()[:20])


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x80
    path.write_bytes(data)


DAMAGES = {
    "no wheel": (lambda root: (root / "timerwheel").unlink(), "timerwheel is not there"),
    "an empty wheel": (lambda root: (root / "timerwheel").write_bytes(bytes(SLOTS * SLOT_SIZE)),
                       "timerwheel has nothing of the last message"),
    "a wheel cut short": (lambda root: (root / "timerwheel").write_bytes(bytes(3200)), "timerwheel has 3200 bytes"),
    "an empty file for a wheel": (lambda root: (root / "timerwheel").write_bytes(b""), "timerwheel has 0 bytes"),
    "no note": (lambda root: (root / "config" / "timercheck").unlink(), "timercheck is not there"),
    "an empty note": (lambda root: (root / "config" / "timercheck").write_bytes(b""), "not whole, or damaged"),
    "a note cut short": (lambda root: cut_note(root), "not whole, or damaged"),
    "a flipped bit in the note": (lambda root: flip(root / "config" / "timercheck", 3), "not whole, or damaged"),
    "no records": (lambda root: rmtree(root / "timerlog"), "timerlog ends at 0"),
    "no last file": (lambda root: (root / "timerlog" / f"{2 * FILE_SIZE:020d}").unlink(), "timerlog ends at 8192"),
    "a last file cut short": (lambda root: cut(root / "timerlog" / f"{2 * FILE_SIZE:020d}", 3), "has no record before"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_start_that_finds_a_file_damaged_trusts_none_of_them(tmp_path, damage):
    timers = make(tmp_path)
    for number in range(200):
        enter(timers, TICK + 1000 * (number % 3), number)
    flush(timers, read_ms=TICK, queue_offset=200, master_offset=200)
    do, told = DAMAGES[damage]
    do(tmp_path)
    again = make(tmp_path)
    assert told in again.damage
    assert (again.check, again.last_record(), places(again, TICK)) == (TimerCheck(), None, [])
    enter(again, TICK, 7)
    # Before its first note there is none, so that another start does not take the rest for all.
    assert "timercheck is not there" in make(tmp_path).damage


@pytest.mark.parametrize(("before", "after"), [(1000, 100), (100, 1000), (1000, 500), (500, 1000), (200, 100)])
def test_files_of_another_precision_are_not_trusted(tmp_path, before, after):
    """Also where the place of the last message is one of a slot that is done."""
    timers = make(tmp_path, precision=before)
    tick = TICK // before
    done_ms = (tick - (tick - TICK // after) % SLOTS) * before      # the slot where the other precision looks for 2
    enter(timers, done_ms, 0)
    enter(timers, TICK + 5000, 1)
    enter(timers, TICK, 2)
    timers.clear(done_ms)
    flush(timers, read_ms=TICK)
    assert make(tmp_path, precision=before).damage == ""
    again = make(tmp_path, precision=after)
    assert f"slots of another timerPrecisionMs than {after}" in again.damage
    assert again.check == TimerCheck()


def test_notes_of_messages_that_the_log_has_lost_are_not_trusted(tmp_path):
    timers = make(tmp_path)
    for number in range(100):
        enter(timers, TICK, number)
    timers.take(TimerCheck(read_ms=TICK, log_position=100))
    timers.begin_flush(100)()
    for log_end in (99, 100):
        copytree(tmp_path, tmp_path / "copy")
        assert make(tmp_path / "copy", log_end).damage == (
            f"the log ends at 99, before messages that {tmp_path}/copy/timerlog has" if log_end == 99 else "")
        rmtree(tmp_path / "copy")


def test_what_is_forgotten_is_not_noted_by_a_flush_that_is_under_way(tmp_path):
    timers = make(tmp_path)
    enter(timers, TICK, 1)
    timers.take(TimerCheck(read_ms=TICK, log_position=0))
    deed = timers.begin_flush(0)
    with pytest.raises(StoreNotWritable, match="just being written"):
        timers.forget()
    deed()
    timers.end_flush(is_done=True)
    timers.forget()
    assert not (tmp_path / "config" / "timercheck").exists()


def test_a_record_that_is_none_is_told(tmp_path):
    timers = make(tmp_path)
    for number in range(3):
        enter(timers, TICK, number)
    with (tmp_path / "timerlog" / f"{0:020d}").open("r+b") as file:
        file.seek(RECORD_SIZE)
        file.write(bytes(RECORD_SIZE))
    with pytest.raises(StoreDamaged, match="no record at 52"):
        places(timers, TICK)
    timers.forget()
    assert places(timers, TICK) == []
    enter(timers, TICK, 9)
    assert places(timers, TICK) == [9]


def test_a_note_goes_to_disk_behind_the_log_alone(tmp_path):
    timers = make(tmp_path)
    enter(timers, TICK, 1)
    timers.take(TimerCheck(read_ms=TICK, log_position=500))
    assert timers.begin_flush(499) is None
    enter(timers, TICK, 2)
    timers.take(TimerCheck(read_ms=TICK + 5000, log_position=900))      # the first is still to be brought to disk
    deed = timers.begin_flush(500)
    deed()
    timers.end_flush(is_done=True)
    check = timer_units.decode_check((tmp_path / "config" / "timercheck").read_bytes())
    assert (check.read_ms, check.log_position, check.timer_log_end) == (TICK, 500, RECORD_SIZE)
    assert places(timers, TICK) == [1, 2]
    assert places(make(tmp_path), TICK) == [1, 2]


def test_a_flush_that_failed_is_done_with_the_next(tmp_path):
    timers = make(tmp_path)
    enter(timers, TICK, 1)
    timers.take(TimerCheck(read_ms=TICK, log_position=0))
    assert timers.begin_flush(0) is not None
    enter(timers, TICK + 1000, 2)
    timers.end_flush(is_done=False)
    assert places(timers, TICK) == [1]
    flush(timers, read_ms=TICK)
    again = make(tmp_path)
    assert (places(again, TICK), places(again, TICK + 1000)) == ([1], [2])


def test_a_slot_that_is_done_is_empty_after_a_start(tmp_path):
    timers = make(tmp_path)
    enter(timers, TICK, 1)
    flush(timers, read_ms=TICK)
    timers.clear(TICK)
    assert places(timers, TICK) == []
    flush(timers, read_ms=TICK + 1000)
    assert places(make(tmp_path), TICK) == []


def test_old_files_go_with_the_log(tmp_path):
    timers = make(tmp_path)
    for number in range(200):
        enter(timers, TICK + 1000 * number, number)
    flush(timers, read_ms=TICK)
    timers.drop_before(77)
    assert len(list((tmp_path / "timerlog").iterdir())) == 3
    timers.drop_before(78)
    assert len(list((tmp_path / "timerlog").iterdir())) == 2
    timers.drop_before(LOG_END)
    assert len(list((tmp_path / "timerlog").iterdir())) == 1
    assert places(timers, TICK + 199_000) == [199]
    assert places(make(tmp_path), TICK + 199_000) == [199]


def test_a_file_stays_while_one_that_waits_in_it_is_younger_than_its_last_record(tmp_path):
    timers = make(tmp_path)
    for number in range(77):
        enter(timers, TICK + 1000 * number, 100 + number)
    enter(timers, TICK + 90_000, 7, DEFAULT_KIND | AGAIN_KIND)
    enter(timers, TICK + 91_000, 200)
    timers.drop_before(176)
    assert len(list((tmp_path / "timerlog").iterdir())) == 2
    timers.drop_before(177)
    assert len(list((tmp_path / "timerlog").iterdir())) == 1


@pytest.mark.parametrize("count", [1, 77, 78, 79])
def test_the_last_record_is_one_that_was_not_entered_before(tmp_path, count):
    timers = make(tmp_path)
    enter(timers, TICK, 100)
    flush(timers, read_ms=TICK)
    for number in range(count):
        enter(timers, TICK + 1000, number, DEFAULT_KIND | AGAIN_KIND)
    assert timers.last_record().physical_offset == 100
    again = make(tmp_path)
    assert again.last_record().physical_offset == 100
    assert list(again.again) == list(range(count))
    again.forget()
    assert (again.again, again.last_record()) == ({}, None)


def test_two_times_with_one_place_in_the_wheel_wait_both(tmp_path):
    timers = make(tmp_path)
    turn = SLOTS * 1000
    for slot_ms, offset in ((TICK + turn, 1), (TICK, 2), (TICK + turn, 3)):
        timers.enter(TimerRecord(slot_ms, DEFAULT_KIND, TICK + turn // 2, offset, 100, 7))
    assert places(timers, TICK) == [1, 2, 3]
    flush(timers, read_ms=TICK)
    assert places(make(tmp_path), TICK) == [1, 2, 3]
    timers.clear(TICK)
    enter(timers, TICK + 5000, 4)
    flush(timers, read_ms=TICK + 10_000)
    again = make(tmp_path)      # what others leave before their note is done
    again.enter(TimerRecord(TICK + 5000 + turn, DEFAULT_KIND, TICK + turn // 2, 5, 100, 7))
    assert places(again, TICK + 5000 + turn) == [5]


def test_a_store_without_timers_has_no_files_of_them(tmp_path):
    timers = make(tmp_path)
    timers.take(TimerCheck(read_ms=TICK, log_position=0))
    assert timers.begin_flush(0) is None
    assert list(tmp_path.iterdir()) == []
