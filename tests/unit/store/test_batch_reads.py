"""Topics of `queue.type=BatchCQ` in a store: reads, and all that a store does with queues beside them."""

import shutil
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.model.message import Message, MessageExt
from regulus.model.message_filter import EVERYTHING, LOOKED_MAX, Filter
from regulus.model.store_result import GetStatus, PutStatus
from regulus.record import layout, message_record
from regulus.store import file_message_store, recovery
from regulus.store.file_message_store import FileMessageStore
from regulus.store.queue_rebuild import QueueRebuild
from regulus.store.queue_table_file import NAME as TABLE_NAME
from regulus.wire import message_batch
from tests.stores import NOW, a_message, crashed_copy, dispatch, small_config

INNER = 0xC0
COUNTS = (3, 1, 2, 5, 1, 1, 4, 2, 3, 1, 6, 2)
BASES = [sum(COUNTS[:number]) for number in range(len(COUNTS) + 1)]
SIZES = {"mapper_file_size_batch_consume_queue": 4 * 46}
QUEUE = ("B", 0)
interpreted = pytest.mark.skipif(not file_message_store.__file__.endswith(".py"),
                                 reason="it reaches for what a compiled store shows nobody; interpreted it is run")


def opened(root: Path) -> FileMessageStore:
    store = FileMessageStore(small_config(root, **SIZES), batch_topics=lambda: ["B"])
    store.open()
    return store


def batch(count: int, number: int = 0, topic: str = "B") -> MessageExt:
    """One of a single message is none of a batch."""
    if count == 1:
        return a_message(topic, b"%04d" % number, UNIQ_KEY=f"U{number}", TAGS="alone")
    body = message_batch.encode([Message(topic, b"%04d" % number)] * count)
    return a_message(topic, body, 0, INNER, UNIQ_KEY=f"U{number}", INNER_NUM=str(count), INNER_BASE="0")


def filled(root: Path, counts: tuple[int, ...] = COUNTS, size: int = 0) -> FileMessageStore:
    store = opened(root)
    for number, count in enumerate(counts):
        message = batch(count, number)
        if size:
            message.properties["PAD"] = "." * size
        assert store.append(message, NOW + number).status is PutStatus.PUT_OK
    dispatch(store)
    return store


def bases(store: FileMessageStore, topic: str = "B") -> list[tuple[int, str]]:
    """Of each record the offset of its first message, and its key."""
    found: list[tuple[int, str]] = []
    offset = store.min_offset(topic, 0)
    while offset < store.max_offset(topic, 0):
        result = store.get_message(topic, 0, offset, 4, 1 << 20, EVERYTHING)
        for buffer in result.buffers:
            found += [(message.queue_offset, message.message_id) for message in message_record.decode_all(buffer)]
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


EXPECTED = [(base, f"U{number}") for number, base in enumerate(BASES[:-1])]


def units_of(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "batchconsumequeue" / "B" / "0").iterdir())]


def test_messages_are_numbered_through_their_records(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert bases(store) == EXPECTED
    assert (store.min_offset(*QUEUE), store.max_offset(*QUEUE)) == (0, 31)
    assert store.append(batch(2), NOW + 99).queue_offset == 31
    assert store.append(batch(1), NOW + 99).queue_offset == 33
    assert store.append_batch([batch(1), batch(1)], NOW + 99).queue_offset == 34


@pytest.mark.parametrize(("count_max", "records", "messages", "next_offset"), [
    (1, 1, 3, 3), (3, 1, 3, 3), (4, 2, 4, 4), (5, 2, 4, 4), (6, 3, 6, 6), (32, 4, 11, 11)])
def test_messages_are_counted_and_the_first_record_is_given_whole(tmp_path: Path, count_max: int, records: int,
                                                                  messages: int, next_offset: int) -> None:
    result = filled(tmp_path).get_message(*QUEUE, 0, count_max, 1 << 20, EVERYTHING)
    assert (len(result.buffers), result.message_count, result.next_begin_offset) == (records, messages, next_offset)
    assert result.size == sum(map(len, result.buffers))


def test_bytes_end_a_read_behind_the_first_record(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.get_message(*QUEUE, 5, 32, 1, EVERYTHING)[:2] == (GetStatus.FOUND, 6)
    size = sum(unit.size for unit in store.queue_units(*QUEUE, 0, 2))
    assert [store.get_message(*QUEUE, 0, 32, size_max, EVERYTHING).next_begin_offset
            for size_max in (size - 1, size)] == [3, 4]


def test_what_tags_do_not_name_is_passed_over(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 3, 1)
    result = store.get_message(*QUEUE, 0, 32, 1 << 20, Filter(frozenset({unit.tags_code})))
    assert (result.status, result.message_count, result.next_begin_offset) == (GetStatus.FOUND, 1, 11)
    result = store.get_message(*QUEUE, 4, 32, 1 << 20, Filter(frozenset({12345})))
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 11)


class OfOne(Filter):
    def __init__(self, weight: int = 1) -> None:
        super().__init__(None, True, weight, ("UNIQ_KEY",))

    def matches(self, values: list[str | None]) -> bool:
        return values == ["U2"]


def test_a_condition_sees_the_properties_of_the_record(tmp_path: Path) -> None:
    result = filled(tmp_path).get_message(*QUEUE, 0, 32, 1 << 20, OfOne())
    assert (result.message_count, result.next_begin_offset) == (2, 11)
    assert result.looked > 0


def test_a_condition_that_looked_at_much_goes_on_with_the_next_read(tmp_path: Path) -> None:
    store = filled(tmp_path)
    result = store.get_message(*QUEUE, 0, 32, 1 << 20, OfOne(LOOKED_MAX))
    assert (result.status, result.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)
    assert result.looked >= LOOKED_MAX


def test_properties_that_cannot_be_read_fulfil_no_condition(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 6, 1)
    overwrite(tmp_path, unit.physical_offset + 84, (1 << 30).to_bytes(4, "big"))     # the length of its body
    everyone = Filter(None, True, 1, ("UNIQ_KEY",))
    result = store.get_message(*QUEUE, 0, 32, 1 << 20, everyone)
    assert (result.message_count, result.next_begin_offset) == (6, 11)


def overwrite(root: Path, position: int, data: bytes) -> None:
    """In the log, which is one file here."""
    with next((root / "commitlog").iterdir()).open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.parametrize(("place", "size"), [(layout.TOTAL_SIZE, 4), (layout.MAGIC, 4), (layout.QUEUE_ID, 4),
                                             (layout.QUEUE_OFFSET, 8), (layout.PHYSICAL_OFFSET, 8)])
def test_whatever_a_record_says_else_than_its_unit_it_is_refused(tmp_path: Path, place: int, size: int) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 4, 1)
    overwrite(tmp_path, unit.physical_offset + place, (77).to_bytes(size, "big"))
    assert store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)[:2] == (GetStatus.FOUND, 4)
    with pytest.raises(StoreDamaged, match=r"message 4 of queue 0 of B is damaged"):
        store.get_message(*QUEUE, 4, 32, 1 << 20, EVERYTHING)


@pytest.mark.parametrize(("place", "data"), [(28, b"\1"), (28, b"\xff"), (36, bytes(2)), (36, b"\x7f")],
                         ids=["far behind", "far before", "no message", "more than there are"])
def test_a_unit_that_has_rotted_leads_nobody_past_other_messages(tmp_path: Path, place: int, data: bytes) -> None:
    """A reader by tags does not look at the records that it passes over."""
    store = filled(tmp_path)
    with (tmp_path / "batchconsumequeue" / "B" / "0" / f"{0:020d}").open("r+b") as file:
        file.seek(2 * 46 + place)
        file.write(data)
    with pytest.raises(StoreDamaged, match=r"message 4 of queue 0 of B is damaged, or what leads to it"):
        store.get_message(*QUEUE, 0, 32, 1 << 20, Filter(frozenset({12345})))
    result = store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)
    assert (result.status, result.next_begin_offset) == (GetStatus.FOUND, 4)


def overwrite_unit(root: Path, number: int, place: int, data: bytes) -> None:
    with (root / "batchconsumequeue" / "B" / "0" / f"{number // 4 * 184:020d}").open("r+b") as file:
        file.seek(number % 4 * 46 + place)
        file.write(data)


@pytest.mark.parametrize("more", [1, 4, 300])
@pytest.mark.parametrize("number", [0, 2, 3, 10, 11])
def test_a_count_that_has_rotted_hides_no_other_message(tmp_path: Path, number: int, more: int) -> None:
    """Whoever asks for a message gets it or hears of the damage: also where the next unit lies in another file."""
    store = filled(tmp_path)
    overwrite_unit(tmp_path, number, 36, (COUNTS[number] + more).to_bytes(2, "big"))
    for asked in range(31):
        if BASES[number] <= asked < BASES[number + 1]:
            behind = asked + 1 if number == 11 else BASES[number + 1]
            with pytest.raises(StoreDamaged, match=rf"message {asked} of queue 0 of B .* is set to {behind}$"):
                store.get_message(*QUEUE, asked, 1, 1 << 20, EVERYTHING)
            continue
        result = store.get_message(*QUEUE, asked, 1, 1 << 20, EVERYTHING)
        base = max(base for base in BASES if base <= asked)
        (message,) = message_record.decode_all(result.buffers[0])
        assert (message.queue_offset, result.next_begin_offset) == (base, BASES[BASES.index(base) + 1])


def test_a_count_of_none_is_told_to_whoever_asks_for_its_message(tmp_path: Path) -> None:
    store = filled(tmp_path)
    overwrite_unit(tmp_path, 2, 36, bytes(2))
    with pytest.raises(StoreDamaged, match=r"message 4 of queue 0 of B is damaged.* is set to 6$"):
        store.get_message(*QUEUE, 4, 32, 1 << 20, EVERYTHING)


def test_a_record_that_is_known_to_be_rotten_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 4, 1)
    store._log.rotten.add(unit.physical_offset)
    assert store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)[:2] == (GetStatus.FOUND, 4)
    with pytest.raises(StoreDamaged, match=r"message 4 of queue 0 of B"):
        store.get_message(*QUEUE, 4, 32, 1 << 20, EVERYTHING)


def test_records_whose_log_file_was_deleted_are_passed_over(tmp_path: Path) -> None:
    store = filled(tmp_path, COUNTS * 3, size=300)
    store.flush_commit_log()
    begin = sum(unit.physical_offset < 4096 for unit in store.queue_units(*QUEUE, 0, 100))
    assert 4 < begin <= 12
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    result = store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)
    assert (result.status, result.message_count, result.next_begin_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 0, 11)
    while result.status is GetStatus.MESSAGE_WAS_REMOVING:
        result = store.get_message(*QUEUE, result.next_begin_offset, 32, 1 << 20, EVERYTHING)
    assert (result.status, store.min_offset(*QUEUE)) == (GetStatus.FOUND, 0)
    first = next(iter(message_record.decode_all(result.buffers[0])))
    assert first.queue_offset == sum(COUNTS[:begin])


def test_where_the_log_lacks_a_file_a_read_ends_and_the_next_one_names_it(tmp_path: Path) -> None:
    filled(tmp_path, COUNTS * 3, size=260).close()
    (tmp_path / "commitlog" / f"{4096:020d}").unlink()
    store = opened(tmp_path)
    units = store.queue_units(*QUEUE, 0, 100)
    number, lost = next((number, unit) for number, unit in enumerate(units) if unit.physical_offset >= 4096)
    assert number % 4       # not the first one in its file
    offset = 0
    while offset < lost.queue_offset:
        result = store.get_message(*QUEUE, offset, 32, 1 << 20, EVERYTHING)
        assert result.status is GetStatus.FOUND
        offset = result.next_begin_offset
    assert offset == lost.queue_offset
    with pytest.raises(StoreDamaged, match=f"{4096:020d}, which is missing"):
        store.get_message(*QUEUE, offset, 32, 1 << 20, EVERYTHING)


@interpreted
def test_units_whose_file_is_missing_are_passed_over(tmp_path: Path) -> None:
    store = filled(tmp_path, COUNTS * 2)
    queue = store._queues.find(*QUEUE)
    assert queue is not None
    del queue.files.files[1]
    for offset in (12, 19):
        result = store.get_message(*QUEUE, offset, 32, 1 << 20, EVERYTHING)
        assert (result.status, result.next_begin_offset) == (GetStatus.FOUND, 31)
        assert next(iter(message_record.decode_all(result.buffers[0]))).queue_offset == 19


def test_a_record_that_is_not_its_unit_s_own_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path)
    log = next((tmp_path / "commitlog").iterdir())
    (unit,) = store.queue_units(*QUEUE, 4, 1)
    with log.open("r+b") as file:
        file.seek(unit.physical_offset + 20)
        file.write((77).to_bytes(8, "big"))
    assert store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)[:2] == (GetStatus.FOUND, 4)
    with pytest.raises(StoreDamaged, match=r"message 4 of queue 0 of B is damaged.* is set to 6$"):
        store.get_message(*QUEUE, 4, 32, 1 << 20, EVERYTHING)


def test_it_is_the_same_after_a_clean_stop_and_after_a_kill(tmp_path: Path) -> None:
    store = filled(tmp_path / "a")
    killed = crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    for root in (tmp_path / "a", killed):
        again = opened(root)
        assert bases(again) == EXPECTED
        assert again.append(batch(2), NOW + 99).queue_offset == 31
        again.close()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", ["all", "last file"])
def test_units_that_are_lost_are_written_anew_as_they_were(tmp_path: Path, lost: str, is_clean: bool) -> None:
    store = filled(tmp_path / "a")
    root = tmp_path / "a" if is_clean else crashed_copy(tmp_path / "a", tmp_path / "b")
    store.close()
    written = units_of(tmp_path / "a")
    files = sorted((root / "batchconsumequeue" / "B" / "0").iterdir())
    for path in (files if lost == "all" else files[-1:]):
        path.unlink()
    again = opened(root)
    assert bases(again) == EXPECTED
    assert again.append(batch(2), NOW + 99).queue_offset == 31
    assert units_of(root) == written


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_last_count_that_has_rotted_gives_no_number_twice(tmp_path: Path, *, is_killed: bool) -> None:
    """Whoever had the first message of that number would never see the second."""
    store = filled(tmp_path / "a")
    root = crashed_copy(tmp_path / "a", tmp_path / "b") if is_killed else tmp_path / "a"
    store.close()
    (root / TABLE_NAME).unlink(missing_ok=True)
    overwrite_unit(root, 11, 36, (1).to_bytes(2, "big"))
    again = opened(root)
    assert again.append(batch(2), NOW + 99).queue_offset == 31


def test_a_count_beyond_what_its_record_has_leaves_the_queue_as_it_is(tmp_path: Path) -> None:
    """It is the record that may have rotted; and a number that nobody gets does no harm."""
    filled(tmp_path).close()
    overwrite_unit(tmp_path, 11, 36, (7).to_bytes(2, "big"))
    again = FileMessageStore(small_config(tmp_path, **SIZES), batch_topics=lambda: ["B"])
    assert not again.open().notes
    assert again.append(batch(2), NOW + 99).queue_offset == 36


@pytest.mark.parametrize("offset", [(1 << 63) - 1, (1 << 63) - 4, (1 << 62) - 2])
def test_a_record_that_says_more_than_any_queue_has_gets_no_unit_and_stops_none_behind_it(tmp_path: Path,
                                                                                         offset: int) -> None:
    """As a master's log may have it. No number would be left for what is sent here later."""
    original = filled(tmp_path / "original")
    lying = original.append(batch(5), NOW + 50)
    original.append(a_message("OTHER"), NOW + 51)
    log = bytearray(original.log_bytes(0, 1 << 20) or b"")
    log[lying.start + layout.QUEUE_OFFSET:lying.start + layout.QUEUE_OFFSET + 8] = offset.to_bytes(8, "big")
    copy = FileMessageStore(small_config(tmp_path / "copy", **SIZES), batch_topics=lambda: ["B"])
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()
    copy.copy.take(0, bytes(log))
    dispatch(copy)
    assert (copy.max_offset(*QUEUE), copy.max_offset("OTHER", 0)) == (31, 1)
    copy.close()
    for _ in range(2):
        again = opened(tmp_path / "copy")
        first = again.append(batch(2, 99), NOW + 60).queue_offset
        dispatch(again)
        assert 31 <= first < 100
        assert again.max_offset(*QUEUE) == first + 2
        assert (first, "U99") in bases(again)
        again.close()


def test_units_that_are_lost_are_written_anew_where_no_table_knows_of_them(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.append(a_message("OTHER"), NOW + 99)      # its unit says that all before it have theirs
    dispatch(store)
    store.close()
    (tmp_path / TABLE_NAME).unlink()
    overwrite_unit(tmp_path, 9, 8, bytes(4))
    assert bases(opened(tmp_path)) == EXPECTED


def test_a_last_unit_of_a_file_that_is_not_its_record_s_has_the_queue_built_anew(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, BASES[3], 1)
    store.close()
    overwrite_unit(tmp_path, 3, 8, (unit.size - 1).to_bytes(4, "big"))
    assert bases(opened(tmp_path)) == EXPECTED


def test_a_copied_record_that_says_more_messages_than_a_unit_can_counts_as_one(tmp_path: Path) -> None:
    original = filled(tmp_path / "original", (2, 1))
    message = batch(2)
    message.properties["INNER_NUM"] = "32768"
    message.queue_offset, message.physical_offset = 3, original.commit_log_max_offset()
    copy = FileMessageStore(small_config(tmp_path / "copy", **SIZES), batch_topics=lambda: ["B"])
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()
    copy.copy.take(0, bytes(original.log_bytes(0, 1 << 20) or b"") + message_record.encode(message))
    dispatch(copy)
    assert copy.max_offset(*QUEUE) == 4


def test_a_folder_without_queues_does_not_tell_the_kind(tmp_path: Path) -> None:
    """It is left where the last queue of a topic went before the topic did, which may be of the other kind now."""
    store = filled(tmp_path)
    store.delete_queue(*QUEUE)
    store.delete_topic("B")
    store.append(a_message("B", UNIQ_KEY="U0"), NOW)
    dispatch(store)
    store.close()
    store = FileMessageStore(small_config(tmp_path, **SIZES))
    assert not store.open().notes
    assert bases(store) == [(0, "U0")]


def test_a_damaged_queue_is_built_anew_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path).close()
    written = units_of(tmp_path)
    with (tmp_path / "batchconsumequeue" / "B" / "0" / f"{184:020d}").open("r+b") as file:
        file.write(b"\1" * 60)
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    store = opened(tmp_path)
    for found in store.look_at_queues(store.resting_queues()):
        assert store.take_out_queue(*found)
    assert store.append(batch(2), NOW + 99).status is PutStatus.QUEUE_DAMAGED
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    assert not [fault for step in rebuild.steps() for fault in step.faults]
    assert list(rebuild.take_over()) == ["queue 0 of B was built anew from the log, from 0 to 31, and serves again"]
    assert units_of(tmp_path) == written
    assert bases(store) == EXPECTED
    assert store.append(batch(2), NOW + 99).queue_offset == 31


def test_a_record_whose_number_has_rotted_does_not_cost_those_behind_it(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 6, 1)       # of five messages
    store.close()
    with next((tmp_path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(unit.physical_offset + 20)
        file.write((1000).to_bytes(8, "big"))
    written = units_of(tmp_path)
    shutil.rmtree(tmp_path / "batchconsumequeue")
    again = opened(tmp_path)
    assert units_of(tmp_path) == written
    assert again.max_offset(*QUEUE) == 31


def test_numbers_of_records_that_are_lost_at_the_end_are_given_to_none(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (unit,) = store.queue_units(*QUEUE, 29, 1)      # the last one, of two messages
    for number in range(200):
        store.append(a_message("OTHER", bytes(300)), NOW + 100 + number)
    dispatch(store)
    store.close()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(unit.physical_offset + 4)
        file.write(bytes(4))
    shutil.rmtree(tmp_path / "batchconsumequeue")
    for is_first in (True, False):
        store = FileMessageStore(small_config(tmp_path, **SIZES), batch_topics=lambda: ["B"])
        assert any("built anew" in note for note in store.open().notes) is is_first
        assert bases(store) == EXPECTED[:-1]
        assert (store.max_offset(*QUEUE), store.get_message(*QUEUE, 30, 9, 99, EVERYTHING)[:2]) == (
            31, (GetStatus.NO_MATCHED_MESSAGE, 31))
        if is_first:
            store.close()
    assert store.append(batch(2), NOW + 999).queue_offset == 31
    dispatch(store)
    assert store.get_message(*QUEUE, 31, 9, 99, EVERYTHING)[:2] == (GetStatus.FOUND, 33)


def test_old_records_go_with_their_log_file(tmp_path: Path) -> None:
    store = filled(tmp_path, COUNTS * 3, size=300)
    store.flush_commit_log()
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    begin = next(number for number, unit in enumerate(store.queue_units(*QUEUE, 0, 100))
                 if unit.physical_offset >= store.commit_log_min_offset())
    for trimmed in store.old_files.queue_starts():
        store.old_files.delete_all(store.old_files.trim_queue(trimmed))
    assert store.min_offset(*QUEUE) == sum((COUNTS * 3)[:begin]) > 0
    assert len(units_of(tmp_path)) == 9 - begin // 4
    assert store.get_message(*QUEUE, 0, 32, 1 << 20, EVERYTHING)[:2] == (
        GetStatus.OFFSET_TOO_SMALL, store.min_offset(*QUEUE))
    first = store.min_offset(*QUEUE)
    store.close()
    again = opened(tmp_path)
    assert (again.min_offset(*QUEUE), again.max_offset(*QUEUE)) == (first, 93)


def test_a_deleted_topic_is_gone_and_may_be_of_the_other_kind_then(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.delete_topic("B")
    assert not (tmp_path / "batchconsumequeue" / "B").exists()
    assert store.append(batch(2), NOW).status is PutStatus.MESSAGE_ILLEGAL
    assert store.append(a_message("B"), NOW).queue_offset == 0
    dispatch(store)
    assert bases(store) == [(0, "")]
    store.delete_topic("B")
    store.keep_batches("B")
    assert store.append(batch(2), NOW).queue_offset == 0
    assert store.append(batch(2), NOW).queue_offset == 2


def test_a_topic_that_was_made_anew_does_not_have_the_old_one_s_records(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.delete_topic("B")
    store.keep_batches("B")
    assert store.append(batch(2, 50), NOW).queue_offset == 0
    dispatch(store)
    assert bases(store) == [(0, "U50")]
    store.close()
    shutil.rmtree(tmp_path / "batchconsumequeue")
    assert bases(opened(tmp_path)) == [(0, "U50")]


def test_queues_that_rest_are_built_anew_where_their_topic_was_not_known(tmp_path: Path,
                                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    store = FileMessageStore(small_config(tmp_path, **SIZES))
    store.open()
    store.append(a_message("B", b"x", UNIQ_KEY="U0"), NOW)
    store.close()
    store = FileMessageStore(small_config(tmp_path, **SIZES))
    store.open()
    assert store.resting_queues() == [QUEUE]
    store.keep_batches("B")
    assert store.resting_queues() == []
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    for _ in rebuild.steps():
        pass
    list(rebuild.take_over())
    assert bases(store) == [(0, "U0")]


@interpreted
def test_queues_of_the_other_kind_that_lie_there_are_told(tmp_path: Path) -> None:
    filled(tmp_path).close()
    (tmp_path / "consumequeue" / "B" / "0").mkdir(parents=True)
    store = opened(tmp_path)
    assert store._queues.strays == ["B"]
    assert bases(store) == EXPECTED


def test_in_other_topics_there_are_no_inner_batches(tmp_path: Path) -> None:
    store = opened(tmp_path)
    appended = store.append(batch(2, topic="T"), NOW)
    assert (appended.status, appended.remark) == (PutStatus.MESSAGE_ILLEGAL, "topic T keeps no inner batches")
    assert store.commit_log_max_offset() == 0


def test_the_folder_tells_the_kind_where_no_document_does(tmp_path: Path) -> None:
    filled(tmp_path).close()
    store = FileMessageStore(small_config(tmp_path, **SIZES))
    store.open()
    assert bases(store) == EXPECTED
    assert not (tmp_path / "consumequeue" / "B").exists()


def test_queues_begun_before_their_topic_was_known_are_built_anew(tmp_path: Path) -> None:
    """As where a replica gets messages before it hears of their topic."""
    store = FileMessageStore(small_config(tmp_path, **SIZES))
    store.open()
    for number in range(3):
        store.append(a_message("B", b"x", UNIQ_KEY=f"U{number}"), NOW)
    dispatch(store)
    store.keep_batches("B")
    with pytest.raises(StoreDamaged, match="begun as one of another kind"):
        store.max_offset(*QUEUE)
    assert store.known_max_offset(*QUEUE) == 0
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    for _ in rebuild.steps():
        pass
    list(rebuild.take_over())
    assert bases(store) == [(0, "U0"), (1, "U1"), (2, "U2")]
    assert not (tmp_path / "consumequeue" / "B").exists()
    assert len(units_of(tmp_path)) == 1


def test_a_copy_of_the_log_has_the_same_units(tmp_path: Path) -> None:
    original = filled(tmp_path / "original", COUNTS * 3, size=300)
    copy = FileMessageStore(small_config(tmp_path / "copy", **SIZES), batch_topics=lambda: ["B"])
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()
    offset = 0
    while (piece := original.log_bytes(offset, 700)) is not None:
        copy.copy.take(offset, bytes(piece))
        offset += len(piece)
    dispatch(copy)
    assert bases(copy) == bases(original)
    for store in (original, copy):
        store.close()
    assert units_of(tmp_path / "copy") == units_of(tmp_path / "original")


@pytest.mark.parametrize("keeps_batches", [True, pytest.param(False, marks=interpreted)])
def test_what_a_copy_gets_while_a_queue_is_built_anew_is_in_it_then(tmp_path: Path, *, keeps_batches: bool) -> None:
    counts = COUNTS if keeps_batches else (1,) * len(COUNTS)
    original = filled(tmp_path / "original", counts)
    copy = FileMessageStore(small_config(tmp_path / "copy", **SIZES))
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()
    places = [unit.physical_offset for unit in original.queue_units(*QUEUE, 0, 100)]

    def take(end: int) -> None:
        begin = copy.commit_log_max_offset()
        copy.copy.take(begin, bytes(original.log_bytes(begin, end - begin) or b""))
        dispatch(copy)
    take(places[3])
    if keeps_batches:
        copy.keep_batches("B")
    else:
        copy._queues.delete_queue("B", 0, -1)
        copy._queues.set_faulty("B", 0, "0 3", "is taken out")
    take(places[4])
    rebuild = copy.deep_check.next_rebuild()
    assert isinstance(rebuild, QueueRebuild)
    take(places[6])
    steps = rebuild.steps()
    next(steps)
    take(places[8])
    for _ in steps:
        pass
    built = rebuild._built.find("B", 0)
    assert built is not None
    assert built.max_offset == sum(counts[:8])
    take(places[10])
    list(rebuild.take_over())
    take(original.commit_log_max_offset())
    assert bases(copy) == bases(original)


@pytest.mark.parametrize("hears_first", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_copy_that_did_not_see_a_topic_go_builds_the_new_one_of_the_other_kind(tmp_path: Path, count: int, *,
                                                                                 hears_first: bool) -> None:
    original = FileMessageStore(small_config(tmp_path / "original", **SIZES))
    original.open()
    copy = FileMessageStore(small_config(tmp_path / "copy", **SIZES))
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()

    def take() -> None:
        dispatch(original)
        begin = copy.commit_log_max_offset()
        copy.copy.take(begin, bytes(original.log_bytes(begin, 1 << 20) or b""))
        dispatch(copy)
    for number in range(12):
        original.append(a_message("B", b"old", UNIQ_KEY=f"old{number}"), NOW)
    take()
    original.delete_topic("B")
    original.keep_batches("B")
    for number in range(count):
        original.append(batch(3, number), NOW + 1)
    for deed in (lambda: copy.keep_batches("B"), take) if hears_first else (take, lambda: copy.keep_batches("B")):
        deed()
    rebuild = copy.deep_check.next_rebuild()
    assert rebuild is not None
    for _ in rebuild.steps():
        pass
    list(rebuild.take_over())
    original.append(batch(2, count), NOW + 2)
    take()
    assert bases(copy) == bases(original) == [(3 * number, f"U{number}") for number in range(count + 1)]


@interpreted
@pytest.mark.parametrize("keeps_batches", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_queue_that_ended_behind_the_new_one_of_its_name_leaves_out_nothing(tmp_path: Path, count: int, *,
                                                                              keeps_batches: bool) -> None:
    size = 3 if keeps_batches else 1
    original, copy = (FileMessageStore(small_config(tmp_path / name, **SIZES),
                                       batch_topics=lambda: ["B"] if keeps_batches else []) for name in "oc")
    original.open()
    copy.be_copy("this broker is a slave", 10_000)
    copy.open()

    def take() -> None:
        dispatch(original)
        begin = copy.commit_log_max_offset()
        copy.copy.take(begin, bytes(original.log_bytes(begin, 1 << 20) or b""))
        dispatch(copy)
    for number in range(12):
        original.append(batch(size, 100 + number), NOW)
    take()
    copy._queues.delete_queue("B", 0, -1)
    copy._queues.set_faulty("B", 0, f"0 {12 * size}", "is taken out")
    original.delete_topic("B")
    if keeps_batches:
        original.keep_batches("B")
    for number in range(count):
        original.append(batch(size, number), NOW + 1)
    take()
    rebuild = copy.deep_check.next_rebuild()
    assert rebuild is not None
    for _ in rebuild.steps():
        pass
    list(rebuild.take_over())
    original.append(batch(size, count), NOW + 2)
    take()
    assert bases(copy) == bases(original) == [(size * number, f"U{number}") for number in range(count + 1)]


@pytest.mark.parametrize("keeps_batches", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_start_builds_a_queue_of_a_topic_that_was_made_anew_unseen(tmp_path: Path, count: int, *,
                                                                     keeps_batches: bool) -> None:
    """Behind the last table of queues, on a broker that copies and was killed."""
    size = 3 if keeps_batches else 1

    def opened(name: str, *, is_copy: bool) -> FileMessageStore:
        store = FileMessageStore(small_config(tmp_path / name, **SIZES),
                                 batch_topics=lambda: ["B"] if keeps_batches else [])
        if is_copy:
            store.be_copy("this broker is a slave", 10_000)
        store.open()
        return store

    def take(copy: FileMessageStore) -> None:
        dispatch(original)
        begin = copy.commit_log_max_offset()
        copy.copy.take(begin, bytes(original.log_bytes(begin, 1 << 20) or b""))
        dispatch(copy)
    original, copy = opened("original", is_copy=False), opened("copy", is_copy=True)
    for number in range(12):
        original.append(batch(size, 100 + number), NOW)
    take(copy)
    copy.flush_commit_log()
    copy.flush_consume_queues()
    copy.flush_queue_table()
    original.delete_topic("B")
    if keeps_batches:
        original.keep_batches("B")
    for number in range(count):
        original.append(batch(size, number), NOW + 1)
    take(copy)
    crashed_copy(tmp_path / "copy", tmp_path / "killed")
    for folder in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(tmp_path / "killed" / folder / "B", ignore_errors=True)
    copy = opened("killed", is_copy=True)
    original.append(batch(size, count), NOW + 2)
    take(copy)
    assert bases(copy) == bases(original) == [(size * number, f"U{number}") for number in range(count + 1)]
