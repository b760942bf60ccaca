"""What is deleted is not in the table, whenever that is."""

from pathlib import Path

import pytest

from regulus.errors import StoreNotWritable
from regulus.record import queue_table
from regulus.record.synced_mark import SyncedMark
from regulus.store import disk
from regulus.store.mapped_file import MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue
from regulus.store.queue_table_file import NAME, SAVES_MAX, QueueTableFile
from tests.stores import fill, open_store

MARK = SyncedMark(0, 120, 1_700_000_000_000, 2_368_364_337)
QUEUES = [("TopicA", 0, 0, 1), ("TopicB", 0, 0, 25)]


def saved(file: QueueTableFile) -> None:
    file.save(MARK, MARK.end, 0, [], QUEUES, [])


def note_gone(file: QueueTableFile, topic: str) -> None:
    file.note_gone(topic, [0], 500, is_durable=True)


def topics(path: Path) -> set[str]:
    return set(queue_table.decode(path.read_bytes()).queues)


def test_what_is_deleted_behind_the_table_is_taken_out(tmp_path: Path) -> None:
    file = QueueTableFile(tmp_path / "table")
    file.begin()
    saved(file)
    assert topics(tmp_path / "table") == {"TopicA", "TopicB"}
    note_gone(file, "TopicA")
    assert topics(tmp_path / "table") == {"TopicB"}


def test_what_is_deleted_while_the_table_is_made_is_not_in_it(tmp_path: Path) -> None:
    file = QueueTableFile(tmp_path / "table")
    file.begin()
    note_gone(file, "TopicA")
    saved(file)
    assert topics(tmp_path / "table") == {"TopicB"}
    file.begin()        # TopicA was made anew meanwhile
    saved(file)
    assert topics(tmp_path / "table") == {"TopicA", "TopicB"}


def refuse(path: Path, *_: object, **__: object) -> None:
    raise StoreNotWritable(f"the disk of {path} is full")


def test_a_table_that_cannot_be_told_of_a_deletion_stays_and_is_to_be_written_anew(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knows of other deletions is nowhere else."""
    path = tmp_path / "table"
    file = QueueTableFile(path)
    assert file.is_behind
    file.begin()
    saved(file)
    assert not file.is_behind
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "append_to", refuse)
        note_gone(file, "TopicA")
        assert file.fault == f"the disk of {path} is full"
        note_gone(file, "TopicB")
        patch.setattr(disk, "write_file", refuse)
        for _ in range(2):
            file.begin()
            with pytest.raises(StoreNotWritable):
                saved(file)
            assert file.is_behind
    assert path.read_bytes() == before
    file.begin()
    saved(file)
    assert not file.is_behind


def test_what_is_deleted_while_the_table_is_written_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = QueueTableFile(tmp_path / "table")
    write_file, left = disk.write_file, ["TopicA", "TopicB"]

    def written(path: Path, data: bytes) -> None:
        write_file(path, data)
        if left:
            note_gone(file, left.pop())
            path.write_bytes(data)      # the line went to the file that was there before

    monkeypatch.setattr(disk, "write_file", written)
    file.begin()
    saved(file)
    assert topics(tmp_path / "table") == set()
    assert not file.is_behind
    left += ["TopicA"] * 9      # there is always more
    file.begin()
    saved(file)
    assert file.is_behind
    assert len(left) == 9 - SAVES_MAX


def test_a_line_that_a_power_cut_left_half_makes_no_other_of_the_next(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the queue of a topic whose name begins the same way would be born too late, and messages not be served."""
    store = open_store(tmp_path / "store")
    fill(store, 1)
    store.close()
    path = tmp_path / "store" / NAME
    whole = path.read_bytes()
    path.write_bytes(whole + b"born 0 4000 Top")
    log_files = MappedFileQueue(tmp_path / "store" / "commitlog", 4096, MappedFilePool(4), "mappedFileSizeCommitLog")
    log_files.load()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_file", refuse)
        file = QueueTableFile(path)
        assert file.load(log_files, is_log_ended=True) is not None
        note_gone(file, "TopicB")
        assert file.fault
    file = QueueTableFile(path)
    assert file.load(log_files, is_log_ended=True) is not None
    note_gone(file, "TopicB")
    assert queue_table.decode(path.read_bytes()).births == {("TopicB", 0): 500}
