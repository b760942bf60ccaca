import errno
import os
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.steps import run_to_end
from regulus.record import index_entry
from regulus.record.dispatch_request import DispatchRequest
from regulus.record.index_entry import IndexEntry
from regulus.store.index import CHAIN_STEP, Index
from regulus.store.mapped_file import MappedFilePool
from tests.stores import fill, open_store

NOW = 1_700_000_000_000
FOREVER = 2**63 - 1


def make(directory: Path, slots: int = 8, entries: int = 16) -> Index:
    return Index(directory, slots, entries, MappedFilePool(16))


def record(topic: str, uniq_key: str, keys: str, physical_offset: int, store_timestamp: int) -> DispatchRequest:
    request = DispatchRequest(100)
    request.topic, request.uniq_key, request.keys = topic, uniq_key, keys
    request.physical_offset, request.store_timestamp = physical_offset, store_timestamp
    return request


def query(index: Index, key: str, count_max: int = 100, begin: int = 0, end: int = FOREVER) -> list[int]:
    return run_to_end(index.query("TopicA", key, count_max, begin, end))


def test_unique_key_and_each_key_are_found(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.put(record("TopicA", "U1", "a  b", 100, NOW))
    index.put(record("TopicA", "U2", "", 200, NOW + 1))
    index.put(record("TopicB", "", "a", 300, NOW + 2))
    assert [query(index, key) for key in ("U1", "U2", "a", "b", "", "c")] == [[100], [200], [100], [100], [], []]
    assert index.last_update == (NOW + 2, 300)


def test_the_newest_comes_first_and_no_more_than_wanted(tmp_path: Path) -> None:
    index = make(tmp_path, entries=100)
    for number in range(20):
        index.put(record("TopicA", "", "same", number * 10, NOW + number))
    assert query(index, "same", 3) == [190, 180, 170]


def test_full_files_are_followed_by_new_ones(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(40):
        index.put(record("TopicA", f"U{number}", "", number * 10, NOW + number * 1000))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size == 40 + 4 * 8 + 20 * 16 for path in files)
    assert all(len(path.name) == 17 and path.name.isdigit() for path in files)
    assert [query(index, f"U{number}") for number in range(40)] == [[number * 10] for number in range(40)]


def test_files_made_within_a_millisecond_keep_their_order(tmp_path: Path) -> None:
    index = make(tmp_path, entries=3)
    for number in range(10):
        index.put(record("TopicA", f"U{number}", "", number * 10, NOW))
    names = [file.name for file in index.files]
    assert names == sorted(set(names))
    assert len(names) == 5


def test_the_first_entry_of_a_later_file_counts_from_the_file_before(tmp_path: Path) -> None:
    index = make(tmp_path, entries=3)
    for number in range(3):
        index.put(record("TopicA", f"U{number}", "", number * 10, NOW + number * 5000))
    data = Path(index.files[1].file.path).read_bytes()
    first = index_entry.decode_entry(data, index_entry.entry_position(8, 1))
    assert first.time_difference == 5
    assert index_entry.decode_header(data).begin_timestamp == NOW + 10_000


def test_only_the_time_asked_for(tmp_path: Path) -> None:
    index = make(tmp_path, entries=100)
    for number in range(10):
        index.put(record("TopicA", "", "k", number, NOW + number * 1000))
    assert query(index, "k", begin=NOW + 3000, end=NOW + 5000) == [5, 4, 3]
    assert query(index, "k", begin=NOW + 60_000) == []


def test_an_indexed_record_is_not_indexed_again_except_the_last(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.put(record("TopicA", "U1", "", 100, NOW))
    index.put(record("TopicA", "U2", "", 200, NOW))
    index.put(record("TopicA", "U1", "", 100, NOW))
    index.put(record("TopicA", "U2", "", 200, NOW))
    assert query(index, "U1") == [100]
    assert query(index, "U2") == [200, 200]


def test_it_comes_back_and_goes_on(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(20):
        index.put(record("TopicA", f"U{number}", "", number, NOW + number))
    again = make(tmp_path)
    assert again.load(None, {}, 0, 1000)
    assert [file.header for file in again.files] == [file.header for file in index.files]
    again.put(record("TopicA", "U20", "", 20, NOW + 20))
    assert [query(again, f"U{number}") for number in range(21)] == [[number] for number in range(21)]


def test_after_a_crash_what_was_not_flushed_is_dropped(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(20):
        index.put(record("TopicA", f"U{number}", "", number, NOW + number))
    again = make(tmp_path)
    assert not again.load(NOW + 14, {}, 0, 1000)
    assert [path.name for path in tmp_path.iterdir()] == [index.files[0].name]
    assert [query(again, "U14"), query(again, "U15")] == [[14], []]


def test_a_wrong_size_names_file_and_mend(tmp_path: Path) -> None:
    make(tmp_path).put(record("TopicA", "U", "", 0, NOW))
    with pytest.raises(StoreDamaged, match="maxHashSlotNum 9 and maxIndexNum 16"):
        make(tmp_path, slots=9).load(None, {}, 0, 1000)


def test_a_file_that_never_got_its_size_is_removed(tmp_path: Path) -> None:
    (tmp_path / "20260101000000000").touch()
    (tmp_path / "notes").touch()
    assert not make(tmp_path).load(None, {}, 0, 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_full_files_are_flushed_once(tmp_path: Path) -> None:
    index = make(tmp_path, entries=3)
    for number in range(5):
        index.put(record("TopicA", f"U{number}", "", number, NOW + number))
    assert index.flush_full() == NOW + 3
    assert index.flush_full() == 0
    index.flush()


def test_keys_are_found_that_came_as_hashes(tmp_path: Path) -> None:
    index = make(tmp_path)
    request = record("TopicA", "", "", 100, NOW)
    request.uniq_hash = index_entry.key_hash(index_entry.index_key("TopicA", "U1"))
    request.keys_hash = index_entry.key_hash(index_entry.index_key("TopicA", "k"))
    index.put(request)
    assert [query(index, key) for key in ("U1", "k", "")] == [[100], [100], []]


def test_a_time_beyond_the_calendar_names_a_file_all_the_same(tmp_path: Path) -> None:
    """A record whose time is damaged is still indexed, and what comes behind it has its own files."""
    index = make(tmp_path, entries=3)
    for number in range(5):
        index.put(record("TopicA", f"U{number}", "", number * 10, 2**56 + number))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0].startswith("9999123")
    assert len(names) == len(set(names)) == 3
    assert [query(index, f"U{number}") for number in range(5)] == [[number * 10] for number in range(5)]


@pytest.mark.parametrize("count", [3 * CHAIN_STEP, 6 * CHAIN_STEP])
def test_a_long_chain_is_walked_in_steps(tmp_path: Path, count: int) -> None:
    index = make(tmp_path, entries=2 * count)
    for number in range(count):
        index.put(record("TopicA", "", "same", number * 10, NOW + number * 1000))
    steps = index.query("TopicA", "same", 5, NOW, NOW + 5_000)
    assert sum(1 for _ in iter(lambda: next(steps, "done"), "done")) == count // CHAIN_STEP - 1
    assert query(index, "same", 3, NOW, NOW + 5_000) == [50, 40, 30]
    assert query(index, "same", 3) == [number * 10 for number in (count - 1, count - 2, count - 3)]


def test_a_chain_that_leads_back_ends(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(4):
        index.put(record("TopicA", "", "same", number * 10, NOW))
    with (tmp_path / index.files[0].name).open("r+b") as file:
        file.seek(index_entry.entry_position(8, 2))
        file.write(index_entry.encode_entry(IndexEntry(index_entry.key_hash("TopicA#same"), 10, 0, 4)))
    assert query(index, "same") == [30, 20, 10]


@pytest.mark.parametrize("harm", ["missing", "its last entry", "its end"])
def test_files_behind_a_damaged_one_are_built_anew(tmp_path: Path, harm: str) -> None:
    index = make(tmp_path)
    for number in range(40):
        index.put(record("TopicA", f"U{number}", "", number, NOW + number))
    known = dict(index.names())
    path = tmp_path / index.files[1].name
    data = bytearray(path.read_bytes())
    if harm == "missing":
        path.unlink()
    elif harm == "its last entry":
        data[-19:] = bytes(19)
        path.write_bytes(data)
    else:
        path.write_bytes(data[:24] + (1000).to_bytes(8, "big") + data[32:])
    again = make(tmp_path)
    assert not again.load(None, known, 0, 1000)
    assert [file.name for file in again.files] == [index.files[0].name]


def test_a_file_whose_messages_are_all_gone_is_not_missed(tmp_path: Path) -> None:
    index = make(tmp_path)
    for number in range(20):
        index.put(record("TopicA", f"U{number}", "", number, NOW + number))
    known = dict(index.names())
    (tmp_path / index.files[0].name).unlink()
    assert make(tmp_path).load(None, known, 16, 1000)
    assert not make(tmp_path).load(None, known, 10, 1000)


def deny_writing(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """As where another user owns it."""
    before_open, before_access = os.open, os.access

    def opened(path: Path | str, flags: int, *rest: int) -> int:
        if Path(path) == denied and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return before_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "access", lambda path, mode, **more: Path(path) != denied
                        and before_access(path, mode, **more))


@pytest.mark.parametrize("whose", ["first file", "last file", "folder"])
def test_a_store_whose_index_is_another_users_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                            whose: str) -> None:
    """It would say that it is ready, and refuse every message."""
    store = open_store(tmp_path)
    fill(store, 40)
    store.close()
    files = sorted((tmp_path / "index").iterdir())
    assert len(files) > 1
    denied = {"first file": files[0], "last file": files[-1], "folder": tmp_path / "index"}[whose]
    with monkeypatch.context() as patch:
        deny_writing(patch, denied)
        with pytest.raises(StoreNotWritable, match=f"{denied} cannot be written .*: let user {os.geteuid()} "):
            open_store(tmp_path)
    again = open_store(tmp_path)
    assert sorted((tmp_path / "index").iterdir()) == files
    again.close()
