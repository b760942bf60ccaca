from collections.abc import Iterator
from pathlib import Path

import pytest

from regulus.model.sys_flag import TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from regulus.record.index_entry import ENTRY_SIZE, entry_position
from regulus.store import index as index_module
from regulus.store.file_message_store import FileMessageStore
from regulus.store.index import Index
from tests.stores import NOW, a_message, dispatch, fill, open_store

COUNT = 60
FLIP = b""
"""Stands for the byte that is there with another last bit."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileMessageStore]:
    """Each message has three keys; an index file holds 31 entries, so records lie in two of them."""
    store = open_store(tmp_path)
    fill(store, COUNT)
    yield store
    store.close()


def index_of(store: FileMessageStore) -> Index:
    index = store.deep_check._index
    assert index is not None
    return index


def missed(store: FileMessageStore, count: int = COUNT) -> list[str]:
    """Keys whose message is not found."""
    keys = [key for number in range(count) for key in (f"U{number:08d}", f"k{number}")]
    return [key for key in keys if not store.query_message("TopicA", key, 10, 0, NOW * 2).buffers]


def check(store: FileMessageStore) -> list[str]:
    return [fault for step in store.deep_check.index_steps() for fault in step.faults]


def mend(store: FileMessageStore) -> list[str]:
    told = []
    while (rebuild := store.deep_check.next_rebuild()) is not None:
        list(rebuild.steps())
        told += rebuild.take_over()
    return told


def overwrite(store: FileMessageStore, number: int, position: int, data: bytes) -> str:
    path = Path(index_of(store).files[number].file.path)
    with path.open("r+b") as file:
        file.seek(position)
        data = data or bytes((file.read(1)[0] ^ 1,))
        file.seek(position)
        file.write(data)
    return path.name


def test_whole_files_have_no_fault(store: FileMessageStore) -> None:
    assert len(index_of(store).files) == 6
    assert check(store) == []
    assert mend(store) == []
    assert missed(store) == []


def entry(number: int) -> int:
    return entry_position(16, number)


@pytest.mark.parametrize(("place", "data"), [
    (40, bytes(16 * 4)), (40, b"\x77" * 8), (entry(7) + 3, FLIP), (entry(7), b"\xff"),
    (entry(7) + 4, b"\0\0\0\0\0\0\xff\xff"),
    (entry(7) + 4, b"\x01"), (entry(7) + 12, b"\xff"), (entry(7) + 16, b"\0\0\0\x1c"),
    (entry(7), bytes(ENTRY_SIZE * 5)),
    (entry(7), b"\x5a" * ENTRY_SIZE * 9)])
@pytest.mark.parametrize("number", [0, 2, 5])
def test_noise_anywhere_is_found_and_the_file_built_anew(store: FileMessageStore, number: int, place: int,
                                                         data: bytes) -> None:
    name = overwrite(store, number, place, data)
    (fault,) = check(store)
    assert fault.startswith(f"index file {name} has a")
    (told,) = mend(store)
    assert told.startswith(f"index file {name} was built anew from the log")
    assert missed(store) == []
    assert check(store) == []
    fill(store, 20, first=COUNT)
    assert missed(store, COUNT + 20) == []


def test_what_was_built_anew_is_there_after_a_restart(store: FileMessageStore, tmp_path: Path) -> None:
    for number in (1, 5):
        overwrite(store, number, 40, bytes(64))
    check(store)
    assert len(mend(store)) == 2
    fill(store, 1, first=COUNT)
    store.close()
    again = FileMessageStore(store.config)
    assert not again.open().is_warning
    assert missed(again, COUNT + 1) == []
    assert check(again) == []
    again.close()


def test_a_file_that_is_built_anew_has_each_key_of_a_record_between_two_files_once(store: FileMessageStore) -> None:
    counts = [file.index_count for file in index_of(store).files]
    for number in range(5):
        overwrite(store, number, 40, bytes(64))
    check(store)
    mend(store)
    assert [file.index_count for file in index_of(store).files][:5] == counts[:5]
    found = store.query_message("TopicA", "all", 1000, 0, NOW * 2)
    assert len(found.buffers) == len({bytes(data) for data in found.buffers}) == COUNT


def test_entries_may_come_while_the_newest_file_is_looked_at(store: FileMessageStore) -> None:
    steps = store.deep_check.index_steps()
    for _ in range(2 * len(index_of(store).files) - 1):     # all but the last file's slots
        assert next(steps).faults == ()
    fill(store, 1, first=COUNT)
    assert [fault for step in steps for fault in step.faults] == []


def test_a_chain_without_end_among_those_that_come_meanwhile_is_found(store: FileMessageStore) -> None:
    steps = store.deep_check.index_steps()
    for _ in range(2 * len(index_of(store).files) - 1):     # all but the last file's slots
        next(steps)
    newest = index_of(store).files[-1]
    number = newest.index_count
    fill(store, 1, first=COUNT)
    assert newest is index_of(store).files[-1]
    for late in range(number, newest.index_count):
        overwrite(store, -1, entry(late) + 16, late.to_bytes(4, "big"))
    assert ["slot that does not fit" in fault for step in steps for fault in step.faults] == [True]


def test_a_file_that_is_deleted_while_it_is_looked_at_has_no_fault(store: FileMessageStore) -> None:
    steps = store.deep_check.index_steps()
    next(steps)
    while store.commit_log_min_offset() <= index_of(store).files[1].end_physical_offset:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        store.old_files.delete_hanging(NOW, 0)
    gone = store.old_files.take_index_files()
    assert len(gone) >= 2
    store.old_files.delete_all(gone)
    assert [fault for step in steps for fault in step.faults] == []


@pytest.mark.parametrize("field", [0, 4, 16])
def test_a_query_that_meets_noise_has_the_file_built_anew(store: FileMessageStore, field: int) -> None:
    """In a file with one chain for each message, the noise is in the way of some key."""
    for number in range(1, 31):
        overwrite(store, 0, entry(number) + field, b"\0\0\0\0\0\0\0\x09"[8 - {0: 4, 4: 8, 16: 4}[field]:])
    assert missed(store)
    assert index_of(store).files[0].fault
    mend(store)
    assert missed(store) == []


def test_a_slot_that_leads_just_behind_the_last_entry_has_the_file_built_anew(store: FileMessageStore) -> None:
    overwrite(store, 5, 40, index_of(store).files[5].index_count.to_bytes(4, "big") * 16)
    assert missed(store)
    assert "slot that does not fit" in index_of(store).files[5].fault
    mend(store)
    assert missed(store) == []


def test_a_file_that_is_built_anew_has_halves_and_no_rollbacks(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number, sys_flag in enumerate((TRANSACTION_NOT, TRANSACTION_ROLLBACK, TRANSACTION_PREPARED)):
        store.append(a_message(sys_flag=sys_flag, UNIQ_KEY=f"U{number}"), NOW)
        dispatch(store)
    overwrite(store, 0, 40, bytes(64))
    assert len(check(store)) == 1
    assert [told.rpartition(", ")[2] for told in mend(store)] == ["with 2 entries"]
    store.close()


def test_a_record_of_another_key_is_not_served(store: FileMessageStore) -> None:
    file = index_of(store).files[0]
    data = Path(file.file.path).read_bytes()
    first = data[entry(1) + 4:entry(1) + 12]
    for number in range(1, 31):
        overwrite(store, 0, entry(number) + 4, first)
    for key in ("U00000003", "k3"):
        assert store.query_message("TopicA", key, 10, 0, NOW * 2).buffers == []
    assert file.fault


def test_entries_of_records_that_were_deleted_do_fit(store: FileMessageStore) -> None:
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    assert "U00000000" in missed(store)
    assert not any(file.fault for file in index_of(store).files)


def test_what_comes_after_a_cut_of_the_log_is_found_by_its_keys(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    cut = fill(store, COUNT)[55].physical_offset      # in the last file of the log, which a start walks
    store.close()
    log = tmp_path / "commitlog" / f"{cut // 4096 * 4096:020d}"
    data = bytearray(log.read_bytes())
    data[cut % 4096 + 100] ^= 1
    log.write_bytes(data)
    store = open_store(tmp_path, cut_damaged_log=cut)
    assert store.commit_log_max_offset() == cut
    fill(store, 3, first=100)
    kept, new = [*range(55)], [*range(100, 103)]

    def unfound() -> list[int]:
        return [number for number in (*kept, *new)
                if not store.query_message("TopicA", f"k{number}", 10, 0, NOW * 2).buffers]

    assert set(unfound()).isdisjoint(new)
    mend(store)
    assert unfound() == []
    assert check(store) == []
    fill(store, 5, first=103)
    new += range(103, 108)
    store.close()
    store = open_store(tmp_path)
    assert unfound() == []
    assert check(store) == []
    store.close()


def test_an_index_file_of_which_the_log_has_nothing_goes(store: FileMessageStore) -> None:
    overwrite(store, 0, 40, bytes(64))
    assert len(check(store)) == 1
    while store.commit_log_min_offset() <= index_of(store).files[0].end_physical_offset:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        store.old_files.delete_hanging(NOW, 0)
    (told,) = mend(store)
    assert "is removed" in told
    dispatch(store)
    assert check(store) == []


def test_a_file_that_is_deleted_while_it_is_built_stays_deleted(store: FileMessageStore) -> None:
    name = overwrite(store, 0, 40, bytes(64))
    check(store)
    rebuild = store.deep_check.next_rebuild()
    assert rebuild is not None
    list(rebuild.steps())
    while store.commit_log_min_offset() <= index_of(store).files[0].end_physical_offset:
        assert store.old_files.take_log_file(store.commit_log_min_offset(), NOW)
        store.old_files.delete_hanging(NOW, 0)
    files = store.old_files.take_index_files()
    store.old_files.delete_all(files)
    assert list(rebuild.take_over()) == []
    assert name not in [file.name for file in index_of(store).files]
    assert not Path(files[0].path).exists()


def test_a_file_that_does_not_fit_when_it_was_just_built_is_left(store: FileMessageStore) -> None:
    for _ in range(2):
        overwrite(store, 1, 40, bytes(64))
        assert len(check(store)) == 1
        told = mend(store)
    assert told == []


def test_a_file_that_cannot_be_read_is_built_anew(store: FileMessageStore) -> None:
    path = Path(index_of(store).files[1].file.path)
    path.unlink()
    (fault,) = check(store)
    assert fault.startswith(f"index file {path.name} cannot be read")
    assert len(mend(store)) == 1
    assert path.exists()
    assert missed(store) == []
    assert check(store) == []


def with_time_in_header(store: FileMessageStore, number: int, place: int, time: int) -> FileMessageStore:
    path = Path(index_of(store).files[number].file.path)
    store.close()
    with path.open("r+b") as file:
        file.seek(place)
        file.write(time.to_bytes(8, "big"))
    again = FileMessageStore(store.config)
    again.open()
    return again


@pytest.mark.parametrize(("place", "time"), [(0, 1), (0, NOW - 86_400_000), (0, 1 << 60), (8, 1), (8, 1 << 60)])
@pytest.mark.parametrize("number", [0, 3, 5])
def test_times_in_the_header_that_hide_the_file_are_found_and_it_is_built_anew(
        store: FileMessageStore, number: int, place: int, time: int) -> None:
    again = with_time_in_header(store, number, place, time)
    name = index_of(again).files[number].name
    (fault,) = check(again)
    assert fault.startswith(f"index file {name} has a time in its header that is not that of the record at ")
    assert len(mend(again)) == 1
    file = index_of(again).files[number]
    assert [again.query_message("TopicA", f"k{key}", 9, file.begin_timestamp, file.end_timestamp).buffers == []
            for key in range(number * 10 + 2, number * 10 + 9)] == [False] * 7
    assert missed(again) == []
    assert check(again) == []
    again.close()


@pytest.mark.parametrize("time", [1, NOW - 86_400_000, NOW + 86_400_000, 1 << 60])
def test_a_time_in_the_header_is_found_where_the_log_has_the_record_no_more(store: FileMessageStore, time: int) -> None:
    again = with_time_in_header(store, 3, 0, time)
    begin = index_of(again).files[3].begin_physical_offset
    places = [unit.physical_offset for unit in again.queue_units("TopicA", 0, 0, 10)]
    while again.commit_log_min_offset() <= begin:
        assert again.old_files.take_log_file(again.commit_log_min_offset(), NOW)
        assert again.old_files.delete_hanging(NOW, 0)
    assert places[9] < again.commit_log_min_offset()
    (fault,) = check(again)
    assert "has times in its header that its last entry does not bear out" in fault
    assert len(mend(again)) == 1
    assert check(again) == []
    again.close()


def test_an_entry_that_comes_while_its_slot_is_looked_at_is_no_fault(store: FileMessageStore,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Only interpreted can another thread look there; compiled it waits until the entry is in."""
    write_slot = index_module.write_slot
    faults: list[str] = []
    looked: list[int] = []

    def look(cells: memoryview, slot: int, entry: int) -> None:
        write_slot(cells, slot, entry)
        looked.append(slot)
        faults.extend(fault for step in remaining for fault in step.faults)

    remaining = store.deep_check.index_steps()
    monkeypatch.setattr(index_module, "write_slot", look)
    fill(store, 1, first=COUNT)
    assert looked or not index_module.__file__.endswith(".py")
    assert faults == []


def test_a_file_that_is_built_anew_while_it_is_looked_at_has_no_fault(store: FileMessageStore) -> None:
    """It has fewer entries then, for the log begins later."""
    steps = store.deep_check.index_steps()
    for _ in range(3):      # two of the first file, and the entries of the second
        next(steps)
    assert store.old_files.take_log_file(0, NOW)
    assert store.old_files.delete_hanging(NOW, 0)
    index_of(store).files[1].fault = "was met by a query"
    (told,) = mend(store)
    assert "was built anew" in told
    assert "with 31 entries" not in told
    assert [fault for step in steps for fault in step.faults] == []
