import shutil
from pathlib import Path
from struct import Struct

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.record import message_record
from regulus.record.layout import BODY_START_V4, QUEUE_ID, QUEUE_OFFSET
from regulus.record.queue_table import encode_gone
from regulus.store import disk, recovery
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, fill, open_store, small_config


def damaged_store(root: Path, monkeypatch: pytest.MonkeyPatch, *topics: str, is_made: bool = False) -> FileMessageStore:
    """Of six topics, with queues that rest; those named have noise in their middle file."""
    if not is_made:
        store = open_store(root)
        for number in range(6):
            fill(store, 25, topic=f"T{number}")
        store.close()
    for topic in topics:
        with (root / "consumequeue" / topic / "0" / f"{200:020d}").open("r+b") as file:
            file.seek(40)
            file.write(b"\1" * 60)
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    return open_store(root)


def take_out(store: FileMessageStore) -> None:
    for found in store.look_at_queues(store.resting_queues()):
        assert store.take_out_queue(*found)


def mend(store: FileMessageStore) -> list[str]:
    told = []
    while (rebuild := store.deep_check.next_rebuild()) is not None:
        for step in rebuild.steps():
            assert not [fault for fault in step.faults if "is missing" not in fault]
        told += rebuild.take_over()
    return told


def test_a_faulty_queue_is_built_anew_and_serves_again_without_a_restart(tmp_path: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1", "T4")
    take_out(store)
    assert store.append(a_message("T1"), NOW).status is PutStatus.QUEUE_DAMAGED
    assert store.append_batch([a_message("T1"), a_message("T1")], NOW).status is PutStatus.QUEUE_DAMAGED
    told = mend(store)
    assert told == [f"queue 0 of {topic} was built anew from the log, from 0 to 25, and serves again"
                    for topic in ("T1", "T4")]
    for topic in ("T1", "T4"):
        assert len(bodies(store, topic)) == 25
        assert fill(store, 1, topic=topic, first=25)[0].queue_offset == 25
        assert len(bodies(store, topic)) == 26
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert not again.open().is_warning
    assert [len(bodies(again, f"T{number}")) for number in range(6)] == [25, 26, 25, 25, 26, 25]


def test_queues_that_are_well_are_not_built_beside_the_faulty_one(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1")
    take_out(store)
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    list(rebuild.steps())
    assert [path.name for path in (tmp_path / "consumequeue" / ".anew").iterdir()] == ["T1"]


def test_a_queue_that_was_found_faulty_when_it_was_used_is_built_anew(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1")
    with pytest.raises(StoreDamaged, match=r"queue 0 of T1 ends at 12.* until it is built anew"):
        store.get_message("T1", 0, 0, 32, 1 << 20, EVERYTHING)
    assert len(mend(store)) == 1
    assert len(bodies(store, "T1")) == 25
    assert mend(store) == []


def test_records_that_were_not_dispatched_when_the_queue_went_are_in_it_afterwards(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be: after a start on a full disk the walk goes on later."""
    store = damaged_store(tmp_path, monkeypatch, "T1")
    take_out(store)
    store.old_files._dispatcher.position = 0
    arrivals = store.dispatch(1000)
    assert store.dispatch_behind_bytes() == 0
    assert {arrival.topic for arrival in arrivals} == {"T0", "T2", "T3", "T4", "T5"}
    assert len(mend(store)) == 1
    assert len(bodies(store, "T1")) == 25


def test_a_message_whose_body_is_rotten_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch)
    (unit,) = store.queue_units("T1", 0, 5, 1)
    store.close()
    with (tmp_path / "commitlog" / f"{unit.physical_offset // 4096 * 4096:020d}").open("r+b") as file:
        file.seek(unit.physical_offset % 4096 + BODY_START_V4)
        file.write(b"!")
    store = damaged_store(tmp_path, monkeypatch, "T1", is_made=True)
    take_out(store)
    mend(store)
    assert [unit.queue_offset for unit in store.queue_units("T1", 0, 0, 32)] == [*range(25)]
    # A rebuild reads no body's checksum, nor does a pull: it is the deep check that knows, and from then on none is
    # given the message.
    rotten = store.get_message("T1", 0, 5, 1, 1 << 20, EVERYTHING)
    assert bytes(rotten.buffers[0]).count(b"!") == 1
    assert [fault for step in store.deep_check.log_steps() for fault in step.faults
            if f"damaged at {unit.physical_offset}" in fault]
    with pytest.raises(StoreDamaged, match="message 5 of queue 0 of T1 is damaged"):
        store.get_message("T1", 0, 5, 1, 1 << 20, EVERYTHING)
    assert store.look_message(unit.physical_offset) is None


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_queue_that_is_deleted_meanwhile_is_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                               is_made_anew: bool) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1", "T2")
    take_out(store)
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    steps = rebuild.steps()
    next(steps)
    store.delete_topic("T1")
    if is_made_anew:
        fill(store, 3, topic="T1")
    list(steps)
    assert [sentence[:13] for sentence in rebuild.take_over()] == ["queue 0 of T2"]
    assert len(bodies(store, "T1")) == store.max_offset("T1", 0) == (3 if is_made_anew else 0)
    assert (tmp_path / "consumequeue/T1/0").exists() == is_made_anew
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert not again.open().is_warning
    assert len(bodies(again, "T1")) == (3 if is_made_anew else 0)


def test_a_queue_of_which_the_log_has_nothing_goes_on_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T0")
    take_out(store)
    (last,) = store.queue_units("T1", 0, 24, 1)
    while store.commit_log_min_offset() <= last.physical_offset:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        assert store.old_files.delete_hanging(NOW, 0)
    (told,) = mend(store)
    assert told == "queue 0 of T0 was built anew from the log, from 25 to 25, and serves again"
    assert bodies(store, "T0") == []
    assert fill(store, 1, topic="T0")[0].queue_offset == 25
    assert len(bodies(store, "T0")) == 1


def test_a_queue_that_was_half_built_when_the_broker_went_is_built_by_the_next_start(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path / "store", monkeypatch, "T1")
    take_out(store)
    store.flush_queue_table()
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    next(rebuild.steps())
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    again = FileMessageStore(small_config(tmp_path / "copy"))
    assert "queue 0 of T1 ends at" in str(again.open())
    assert len(bodies(again, "T1")) == 25


def test_a_light_queue_that_cannot_be_opened_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its units cannot be made from the log's records alone."""
    store = open_store(tmp_path)
    fill(store, 25, topic="T0")
    store.close()
    light = tmp_path / "consumequeue" / "%LMQ%123" / "0"
    shutil.copytree(tmp_path / "consumequeue" / "T0" / "0", light)
    (tmp_path / "regulusQueues").unlink()
    open_store(tmp_path).close()        # it is in the table now, and rests the next time
    with (light / f"{200:020d}").open("ab") as file:
        file.write(b"!")
    before = {path.name: path.read_bytes() for path in light.iterdir()}
    store = damaged_store(tmp_path, monkeypatch, is_made=True)
    take_out(store)
    assert ("%LMQ%123", 0) in store.deep_check._queues.faulty
    assert mend(store) == []
    assert {path.name: path.read_bytes() for path in light.iterdir()} == before


@pytest.mark.parametrize("is_at_start", [False, True])
def test_what_lies_behind_a_lost_file_of_the_log_keeps_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  is_at_start: bool) -> None:
    """The gap is longer than a file of the queue."""
    store = open_store(tmp_path)
    fill(store, 60, topic="T1")
    units = store.queue_units("T1", 0, 0, 60)
    lost = units[20].physical_offset // 4096
    store.close()
    (tmp_path / "commitlog" / f"{lost * 4096:020d}").unlink()
    with (tmp_path / "consumequeue" / "T1" / "0" / f"{200:020d}").open("r+b") as file:
        file.write(Struct(">qiq").pack(0, units[0].size, 0))
    if not is_at_start:
        monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    store = open_store(tmp_path)
    if not is_at_start:
        take_out(store)
    mend(store)
    there = [unit.queue_offset for unit in units if unit.physical_offset // 4096 != lost]
    assert len(units) - len(there) > 10
    assert [offset for offset in range(60) if found(store, "T1", offset)] == there
    assert fill(store, 1, topic="T1", first=60)[0].queue_offset == 60


def found(store: FileMessageStore, topic: str, queue_offset: int) -> bool:
    try:
        result = store.get_message(topic, 0, queue_offset, 1, 1 << 20, EVERYTHING)
    except StoreDamaged:
        return False
    return bool(result.buffers) and message_record.decode_all(result.buffers[0])[0].queue_offset == queue_offset


def test_a_queue_that_cannot_be_put_in_place_keeps_nothing_else_from_being_built(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1", "T4")
    take_out(store)
    index = store.deep_check._index
    assert index is not None
    index.files[0].fault = "does not fit"
    topic = tmp_path / "consumequeue" / "T1"
    shutil.rmtree(topic)
    topic.write_text("in the way")
    with pytest.raises(StoreNotWritable):
        mend(store)
    assert len(bodies(store, "T4")) == 25
    with pytest.raises(StoreNotWritable):
        mend(store)
    assert index.files[0].fault == ""
    topic.unlink()
    assert mend(store) == ["queue 0 of T1 was built anew from the log, from 0 to 25, and serves again"]
    assert len(bodies(store, "T1")) == 25


def test_what_was_built_is_not_gone_through_once_more_when_it_is_taken_back(tmp_path: Path,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the thread that serves which takes it back."""
    store = damaged_store(tmp_path, monkeypatch, "T1", "T4")
    take_out(store)
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    list(rebuild.steps())
    read_at, sizes = disk.read_at, []

    def note(path: str, offset: int, length: int) -> bytes:
        sizes.append(length)
        return read_at(path, offset, length)

    monkeypatch.setattr(disk, "read_at", note)
    assert len(list(rebuild.take_over())) == 2
    assert sizes == [20, 20]
    bounds, found = (store.min_offset("T1", 0), store.max_offset("T1", 0)), bodies(store, "T1")
    store.close()
    gone_through = FileMessageStore(small_config(tmp_path))
    gone_through.open()
    assert (gone_through.min_offset("T1", 0), gone_through.max_offset("T1", 0)) == bounds
    assert bodies(gone_through, "T1") == found
    gone_through.close()


def test_a_queue_begins_where_the_log_begins_when_it_is_taken_back(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    store = damaged_store(tmp_path, monkeypatch, "T1")
    take_out(store)
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    list(rebuild.steps())
    while store.commit_log_min_offset() < 8192:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        assert store.old_files.delete_hanging(NOW, 0)
    list(rebuild.take_over())
    assert store.min_offset("T1", 0) == store.max_offset("T1", 0) - len(bodies(store, "T1")) > 0


def test_what_a_killed_broker_was_building_goes_without_a_word(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    (tmp_path / "consumequeue" / ".anew" / "T1" / "0").mkdir(parents=True)
    (tmp_path / "regulusQueues").unlink(missing_ok=True)
    store = FileMessageStore(small_config(tmp_path))
    assert not store.open().is_warning
    assert not (tmp_path / "consumequeue" / ".anew").exists()
    store.close()


def test_a_unit_that_leads_out_of_the_log_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    """Noise leads anywhere; only what lies before the log, or in a file of it that is gone, was deleted."""
    store = open_store(tmp_path)
    fill(store, 60, topic="T1")
    store.close()
    with (tmp_path / "consumequeue" / "T1" / "0" / f"{200:020d}").open("r+b") as file:
        file.seek(40)
        file.write(b"\1" * 60)
    store = open_store(tmp_path)
    last = store.get_message("T1", 0, 11, 32, 1 << 20, EVERYTHING)
    assert [last.message_count, last.next_begin_offset] == [1, 12]
    with pytest.raises(StoreDamaged, match=r"message 12 of queue 0 of T1 is damaged, .* which is not in the log"):
        store.get_message("T1", 0, 12, 32, 1 << 20, EVERYTHING)
    assert found(store, "T1", 15)


def overwrite_record(root: Path, physical_offset: int, place: int, data: bytes) -> None:
    with (root / "commitlog" / f"{physical_offset // 4096 * 4096:020d}").open("r+b") as file:
        file.seek(physical_offset % 4096 + place)
        file.write(data)


def rebuilt(root: Path, monkeypatch: pytest.MonkeyPatch, number: int, place: int, data: bytes, *,
            is_at_start: bool) -> tuple[FileMessageStore, str]:
    """A store whose queue T1 was built anew from a log with damage in the head of its message `number`; what was
    told."""
    damaged_store(root, monkeypatch).close()
    store = damaged_store(root, monkeypatch, is_made=True)
    (unit,) = store.queue_units("T1", 0, number, 1)
    store.close()
    overwrite_record(root, unit.physical_offset, place, data)
    with (root / "consumequeue" / "T1" / "0" / f"{200:020d}").open("r+b") as file:
        file.seek(40)
        file.write(b"\1" * 60)
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 100 if is_at_start else 0)
    store = FileMessageStore(small_config(root))
    told = str(store.open())
    if not is_at_start:
        take_out(store)
        told = "; ".join(mend(store))
    return store, told


@pytest.mark.parametrize("is_at_start", [False, True])
@pytest.mark.parametrize(("number", "said"), [(0, 1 << 40), (5, 0), (10, 20), (24, 4), (24, 0)])
def test_a_rotten_queue_offset_moves_no_message_and_hides_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                               number: int, said: int, is_at_start: bool) -> None:
    store, told = rebuilt(tmp_path, monkeypatch, number, QUEUE_OFFSET, said.to_bytes(8, "big"), is_at_start=is_at_start)
    assert f"it is message {said} and lies where {number} does" in told
    assert [offset for offset in range(25) if offset != number and not found(store, "T1", offset)] == []
    with pytest.raises(StoreDamaged, match=f"message {number} of queue 0 of T1 is damaged"):
        store.get_message("T1", 0, number, 1, 1 << 20, EVERYTHING)
    assert fill(store, 1, topic="T1")[0].queue_offset == 25
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert "built anew" not in str(again.open())
    again.close()


@pytest.mark.parametrize("is_at_start", [False, True])
def test_a_record_that_is_in_no_queue_any_more_is_told_as_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                is_at_start: bool) -> None:
    store, told = rebuilt(tmp_path, monkeypatch, 5, QUEUE_ID, b"\0\0\0\7", is_at_start=is_at_start)
    assert "queue 0 of T1: the log has no record of messages 5 to 5; they are passed over" in told
    assert [offset for offset in range(25) if not found(store, "T1", offset)] == [5]


def test_a_rotten_queue_offset_among_what_a_start_dispatches_hides_nothing(tmp_path: Path) -> None:
    """Without queues, all is dispatched by the walk itself."""
    store = open_store(tmp_path)
    messages = fill(store, 20)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "regulusQueues").unlink()
    (tmp_path / "abort").write_text("")
    for number, said in ((7, 0), (12, 3), (19, 4)):
        overwrite_record(tmp_path, messages[number].physical_offset, QUEUE_OFFSET, said.to_bytes(8, "big"))
    store = FileMessageStore(small_config(tmp_path))
    told = str(store.open())
    assert "it is message 0 and lies where 7 does" in told
    assert "it is message 3 and lies where 12 does" in told
    assert f"the record at {messages[19].physical_offset} of the log says that it is message 4, which came" in told
    assert [offset for offset in range(20) if not found(store, "TopicA", offset)] == [7, 12, 19]
    store.close()


def rotten(root: Path, count: int, *places: tuple[int, int]) -> None:
    """A store with messages in T1, and others behind them; of some of T1's, what their queue offset is to read."""
    store = open_store(root)
    units = [message.physical_offset for message in fill(store, count, topic="T1")]
    fill(store, 20, topic="T2")
    store.close()
    for number, said in places:
        overwrite_record(root, units[number], QUEUE_OFFSET, said.to_bytes(8, "big"))


@pytest.mark.parametrize("has_table", [True, False])
@pytest.mark.parametrize(("count", "places"), [
    (25, [(23, 0), (24, 0)]), (25, [(0, 77), (1, 77)]), (25, [(9, 0), (10, 0)]), (25, [(24, 0)]), (1, [(0, 77)]),
    (1, [(0, 1 << 40)]), (2, [(0, 5), (1, 5)])])
def test_starts_leave_a_queue_with_rotten_records_as_it_is(tmp_path: Path, count: int, places: list[tuple[int, int]],
                                                           has_table: bool) -> None:
    rotten(tmp_path, count, *places)
    if not has_table:
        (tmp_path / "regulusQueues").unlink()
    for number in range(3):
        store = FileMessageStore(small_config(tmp_path))
        assert ("built anew" in str(store.open())) <= (not has_table and not number)
        assert [store.min_offset("T1", 0), store.max_offset("T1", 0)] == [0, count]
        assert [offset for offset in range(count) if not found(store, "T1", offset)] == [at for at, _ in places]
        store.close()
    assert fill(open_store(tmp_path), 1, topic="T1")[0].queue_offset == count


def test_a_start_that_held_a_last_record_remembers_where_the_log_ended(tmp_path: Path) -> None:
    rotten(tmp_path, 25, (24, 0))
    with (tmp_path / "consumequeue" / "T1" / "0" / f"{200:020d}").open("r+b") as file:
        file.write(b"\1" * 60)
    ends = []
    for _ in range(3):
        store = FileMessageStore(small_config(tmp_path))
        ends.append(str(store.open()).count("built anew"))
        assert store.max_offset("T1", 0) == 25
        store.close()
        assert (tmp_path / "regulusQueues").exists()
    assert ends == [1, 0, 0]


def overwrite_topic(root: Path, physical_offset: int, old: bytes, new: bytes) -> None:
    file = root / "commitlog" / f"{physical_offset // 4096 * 4096:020d}"
    data, at = file.read_bytes(), physical_offset % 4096
    size = int.from_bytes(data[at:at + 4], "big")
    place = data.rindex(bytes((len(old),)) + old, at, at + size)
    overwrite_record(root, physical_offset, place + 1 - at, new)


@pytest.mark.parametrize("field", ["topic", "queue id", "queue offset"])
@pytest.mark.parametrize(("count", "at"), [(6, 0), (2, 1), (1, 0), (6, 5)])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_rot_brings_no_deleted_message_back(tmp_path: Path, field: str, count: int, at: int, is_damaged: bool) -> None:
    store = open_store(tmp_path)
    fill(store, 9, topic="T1")
    store.close()
    store = open_store(tmp_path)
    store.delete_topic("T1")
    place = fill(store, count, topic="T1", first=1000)[at].physical_offset
    fill(store, 5, topic="T2")
    store.close()
    if field == "topic":
        overwrite_topic(tmp_path, place, b"T1", b"T9")
    elif field == "queue id":
        overwrite_record(tmp_path, place, QUEUE_ID, b"\0\0\0\5")
    else:
        overwrite_record(tmp_path, place, QUEUE_OFFSET, (1 << 40).to_bytes(8, "big"))
    if is_damaged:
        shutil.rmtree(tmp_path / "consumequeue" / "T1")
    for _ in range(2):
        store = open_store(tmp_path)
        # A whole queue vouches for a record whose topic is another: a pull does not look at that.
        lost = at if field != "topic" or is_damaged or count == 1 else -1
        assert [offset for offset in range(12) if found(store, "T1", offset)] == \
            [offset for offset in range(count) if offset != lost]
        served = [store.get_message("T1", 0, offset, 1, 1 << 20, EVERYTHING).buffers[0] for offset in range(12)
                  if found(store, "T1", offset)]
        assert all(message_record.decode_all(buffer)[0].body.startswith(b"000010") for buffer in served)
        store.close()
    assert fill(open_store(tmp_path), 1, topic="T1")[0].queue_offset == count


def test_a_queue_that_was_deleted_behind_a_lost_end_of_the_log_has_all_that_comes_later(tmp_path: Path) -> None:
    """A power cut took the end of the log, and left that the topic was deleted."""
    store = open_store(tmp_path / "0")
    fill(store, 9, topic="T1")
    store.close()
    table = (tmp_path / "0" / "regulusQueues").read_bytes()
    (tmp_path / "0" / "abort").write_text("1\nno boot\n")
    (tmp_path / "0" / "regulusQueues").write_bytes(table + encode_gone("T1", 0, 4000))
    shutil.rmtree(tmp_path / "0" / "consumequeue" / "T1")
    for number in range(2):
        store = open_store(tmp_path / str(number))
        assert len(fill(store, 3, topic="T1", first=1000)) == 3
        assert [body[:8] for body in bodies(store, "T1")][-3:] == [b"00001000", b"00001001", b"00001002"]
        shutil.copytree(tmp_path / str(number), tmp_path / str(number + 1))     # what a kill leaves
    assert len(bodies(open_store(tmp_path / "2"), "T1")) == 6
