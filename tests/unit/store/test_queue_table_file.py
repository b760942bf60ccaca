"""What is deleted is not in the table, whenever that is."""

from pathlib import Path

from regulus.record import queue_table
from regulus.record.synced_mark import SyncedMark
from regulus.store.queue_table_file import QueueTableFile

MARK = SyncedMark(0, 120, 1_700_000_000_000, 2_368_364_337)
QUEUES = [("TopicA", 0, 0, 1), ("TopicB", 0, 0, 25)]


def saved(file: QueueTableFile) -> None:
    file.save(MARK, 0, [], QUEUES, [])


def topics(path: Path) -> set[str]:
    return set(queue_table.decode(path.read_bytes()).queues)


def test_what_is_deleted_behind_the_table_is_taken_out(tmp_path: Path) -> None:
    file = QueueTableFile(tmp_path / "table")
    file.begin()
    saved(file)
    assert topics(tmp_path / "table") == {"TopicA", "TopicB"}
    file.note_gone("TopicA", 0, 500)
    assert topics(tmp_path / "table") == {"TopicB"}


def test_what_is_deleted_while_the_table_is_made_is_not_in_it(tmp_path: Path) -> None:
    file = QueueTableFile(tmp_path / "table")
    file.begin()
    file.note_gone("TopicA", 0, 500)
    saved(file)
    assert topics(tmp_path / "table") == {"TopicB"}
    file.begin()        # TopicA was made anew meanwhile
    saved(file)
    assert topics(tmp_path / "table") == {"TopicA", "TopicB"}


def test_a_table_that_cannot_be_told_of_a_deletion_goes(tmp_path: Path) -> None:
    path = tmp_path / "table"
    file = QueueTableFile(path)
    file.begin()
    saved(file)
    path.unlink()
    path.symlink_to("/dev/full")
    file.note_gone("TopicA", 0, 500)
    assert not path.is_symlink()
    file.note_gone("TopicB", 0, 500)
    assert not path.exists()
