from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.model.message_filter import EVERYTHING
from regulus.record import queue_table
from regulus.store import queue_check, recovery
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, bodies, fill, open_store, small_config

LAST_UNITS = 3


def last_file(root: Path, topic: str = "T1") -> Path:
    return root / "consumequeue" / topic / "0" / f"{400:020d}"


def resting_store(root: Path, monkeypatch: pytest.MonkeyPatch, *topics: str) -> FileMessageStore:
    """Of three topics with 25 messages each; the last units of those named are zeros, which only the table can tell."""
    store = open_store(root)
    for topic in ("T0", "T1", "T2"):
        fill(store, 25, topic=topic)
    store.close()
    for topic in topics:
        with last_file(root, topic).open("r+b") as file:
            file.seek((5 - LAST_UNITS) * 20)
            file.write(bytes(LAST_UNITS * 20))
    monkeypatch.setattr(recovery, "QUEUES_CHECKED_MAX", 0)
    return open_store(root)


def looked(store: FileMessageStore) -> list[tuple[str, int, str]]:
    return store.look_at_queues(store.resting_queues())


def test_a_queue_that_ends_before_the_table_says_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch, "T1")
    assert looked(store) == [("T1", 0, "ends at 22, and something was there up to 25")]


def test_where_a_queue_ends_is_told_without_opening_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch, "T1")
    resting = store.resting_queues()
    assert [store.known_max_offset(topic, 0) for topic in ("T0", "T1", "None")] == [25, 25, 0]
    assert store.resting_queues() == resting
    for found in looked(store):
        assert store.take_out_queue(*found)
    assert store.known_max_offset("T1", 0) == 25
    assert store.max_offset("T0", 0) == store.known_max_offset("T0", 0) == 25


def test_a_queue_whose_log_file_is_deleted_while_it_is_looked_at_is_well(tmp_path: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch)
    owner_in = queue_check.owner_in

    def owner_in_time(file, physical_offset):
        if store.old_files.take_log_file(0, NOW):
            assert store.old_files.delete_hanging(NOW, 0)
        return owner_in(file, physical_offset)

    monkeypatch.setattr(queue_check, "owner_in", owner_in_time)
    assert looked(store) == []
    assert store.commit_log_min_offset() == 4096


def test_a_log_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    assert "cannot be read" in looked(store)[0][2]


def test_a_faulty_queue_is_deleted_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch, "T1", "T2")
    for found in looked(store):
        assert store.take_out_queue(*found)
    store.delete_queue("T1", 0)
    assert not last_file(tmp_path, "T1").parent.exists()
    store.delete_topic("T2")
    assert not last_file(tmp_path, "T2").parent.exists()
    assert fill(store, 1, topic="T1")[0].queue_offset == 0
    assert store.queues() == [("T0", 0), ("T1", 0)]


def test_a_faulty_queue_stays_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the table can tell the next start that units are missing."""
    store = resting_store(tmp_path, monkeypatch, "T1")
    for found in looked(store):
        assert store.take_out_queue(*found)
    fill(store, 1, topic="T0", first=25)
    store.close()
    again = FileMessageStore(small_config(tmp_path))
    assert "queue 0 of T1 ends at 22, and something was there up to 25" in str(again.open())
    assert len(bodies(again, "T1")) == 25


def test_a_queue_that_is_found_faulty_while_nothing_is_sent_comes_into_the_table(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch, "T1")
    store.flush_queue_table()
    for found in looked(store):
        assert store.take_out_queue(*found)
    store.flush_queue_table()
    assert queue_table.decode((tmp_path / "regulusQueues").read_bytes()).faulty == [("T1", 0)]


def test_a_queue_that_somebody_opened_well_meanwhile_stays_in_use(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch)
    whole = last_file(tmp_path).read_bytes()
    last_file(tmp_path).write_bytes(whole[:40] + bytes(len(whole) - 40))
    (found,) = looked(store)
    last_file(tmp_path).write_bytes(whole)
    assert len(bodies(store, "T1")) == 25
    assert store.take_out_queue(*found) == ""
    assert fill(store, 1, topic="T1", first=25)[0].queue_offset == 25
    assert len(bodies(store, "T1")) == 26


def test_a_queue_in_which_its_user_found_the_fault_first_is_told_of_all_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = resting_store(tmp_path, monkeypatch, "T1")
    (found,) = looked(store)
    with pytest.raises(StoreDamaged):
        store.get_message("T1", 0, 0, 32, 1 << 20, EVERYTHING)
    assert "queue 0 of T1 ends at 22" in store.take_out_queue(*found)
