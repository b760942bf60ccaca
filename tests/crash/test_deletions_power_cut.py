"""What was deleted stays deleted, whatever a power cut leaves and however full the disk is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores import NOW, a_message, bodies, crashed_copy, dispatch, fill, open_store, small_config

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.store_result import PutStatus
from regulus.record import queue_table, synced_mark
from regulus.store import disk
from regulus.store.file_message_store import FileMessageStore
from regulus.store.mapped_file_queue import file_name
from regulus.testing.forgetful_disk import EVERYTHING, SURE_ONLY, ForgetfulDisk, rebooted

SEEDS = (SURE_ONLY, EVERYTHING, *range(2, 12))
OLD, NEW = 20, 3
FIRST_NEW = 1000


@pytest.fixture
def power(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    with ForgetfulDisk(tmp_path / "store") as disk:
        yield disk


def refuse(path: Path, *_: object, **__: object) -> None:
    raise StoreNotWritable(f"the disk of {path} is full")


def refuse_the_table(patch: pytest.MonkeyPatch) -> None:
    """Let there be room for all but the table of queues."""
    write_file = disk.write_file

    def written(path: Path, data: bytes) -> None:
        if path.name == "regulusQueues":
            refuse(path)
        write_file(path, data)

    patch.setattr(disk, "write_file", written)
    patch.setattr(disk, "append_to", refuse)


def after_a_power_cut(power: ForgetfulDisk, target: Path, seed: int) -> FileMessageStore:
    target.mkdir(exist_ok=True)
    copy = power.crash(seed, target / f"copy-{seed}")
    with rebooted():
        store = open_store(copy)
    dispatch(store)
    return store


def flush_all(store: FileMessageStore) -> None:
    store.flush_commit_log()
    store.flush_queue_table()
    store.flush_checkpoint()


def check_nothing_came_back(power: ForgetfulDisk, target: Path) -> None:
    """Whatever is left, the topic has none but its new messages, from 0 on; so after another start and one more
    message."""
    for seed in SEEDS:
        store = after_a_power_cut(power, target, seed)
        for _ in range(2):
            numbers = [int(body[:8]) for body in bodies(store)]
            assert numbers == list(range(FIRST_NEW, FIRST_NEW + len(numbers))), f"seed {seed}"
            assert store.max_offset("TopicA", 0) == len(numbers)
            assert [each.queue_offset for each in fill(store, 1, first=FIRST_NEW + len(numbers))] == [len(numbers)]
            store.close()
            store = open_store(store.config.root)
        store.close()


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("tabled", [OLD // 2, OLD])
def test_messages_of_a_deleted_topic_do_not_come_back(tmp_path: Path, power: ForgetfulDisk, tabled: int,
                                                      is_made_anew: bool) -> None:
    store = open_store(power.root)
    fill(store, tabled)
    flush_all(store)
    fill(store, OLD - tabled, first=tabled)
    store.flush_commit_log()
    power.look()
    store.delete_topic("TopicA")
    assert not store.deletion_fault
    if is_made_anew:
        power.look()
        fill(store, NEW, first=FIRST_NEW)
        store.flush_commit_log()
    check_nothing_came_back(power, tmp_path)


def test_a_queue_made_anew_whose_units_were_lost_has_none_of_before(tmp_path: Path, power: ForgetfulDisk) -> None:
    """Its folder is there, and nothing in it."""
    store = open_store(power.root)
    fill(store, 1, topic="TopicB")
    flush_all(store)
    fill(store, OLD)
    store.delete_topic("TopicA")
    fill(store, NEW, first=FIRST_NEW)
    store.flush_commit_log()
    for name in ("TopicA/0", "TopicA", ""):
        disk.sync_directory(store.config.consume_queue_directory / name)
    again = after_a_power_cut(power, tmp_path / "whole", SURE_ONLY)
    assert [int(body[:8]) for body in bodies(again)] == list(range(FIRST_NEW, FIRST_NEW + NEW))
    check_nothing_came_back(power, tmp_path)


def test_a_table_speaks_of_no_record_that_a_power_cut_may_take(tmp_path: Path, power: ForgetfulDisk) -> None:
    """Else it would be another log's after that, and what it says of deletions forgotten."""
    store = open_store(power.root)
    fill(store, OLD)
    flush_all(store)
    store.delete_topic("TopicA")
    fill(store, 1, topic="TopicB")
    flush_all(store)
    fill(store, 1, topic="TopicB")
    store.flush_queue_table()
    check_nothing_came_back(power, tmp_path)


def test_the_first_table_of_a_start_speaks_of_no_record_that_a_power_cut_may_take(tmp_path: Path,
                                                                                  power: ForgetfulDisk) -> None:
    """Nothing was synced since."""
    store = open_store(power.root)
    fill(store, OLD)
    store.flush_queue_table()
    assert not (power.root / "regulusQueues").exists()      # nor before
    flush_all(store)
    store.delete_topic("TopicA")
    store.close()
    store = open_store(power.root)
    fill(store, 1, topic="TopicB")
    store.flush_queue_table()
    check_nothing_came_back(power, tmp_path)


@pytest.mark.parametrize("tabled", [False, True])
def test_on_a_full_disk_what_was_deleted_is_noted_when_there_is_room(
        tmp_path: Path, power: ForgetfulDisk, monkeypatch: pytest.MonkeyPatch, tabled: bool) -> None:
    store = open_store(power.root)
    fill(store, OLD)
    store.flush_commit_log()
    if tabled:
        flush_all(store)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "append_to", refuse)
        patch.setattr(disk, "write_file", refuse)
        store.delete_topic("TopicA")
        assert store.deletion_fault
        assert store.wants_queue_table
        with pytest.raises(StoreNotWritable, match="full"):
            store.flush_queue_table()
        assert store.deletion_fault
    # What it said before of others still holds.
    assert (power.root / "regulusQueues").exists() is tabled
    store.flush_queue_table()
    assert not store.deletion_fault
    assert not store.wants_queue_table
    assert queue_table.decode((power.root / "regulusQueues").read_bytes()).births.keys() == {("TopicA", 0)}
    check_nothing_came_back(power, tmp_path)


def test_the_first_table_is_there_before_anything_can_be_deleted(tmp_path: Path) -> None:
    """A Java broker leaves none; and of the first second of a new store a deletion says that it may come back."""
    store = open_store(tmp_path)
    assert not store.wants_queue_table      # nothing was sent yet
    fill(store, OLD)
    assert not store.wants_queue_table      # nor was anything synced
    store.flush_commit_log()
    assert store.wants_queue_table
    store.delete_topic("TopicA")
    assert "regulusQueues is not written yet" in store.deletion_fault
    store.close()
    (tmp_path / "regulusQueues").unlink()
    (tmp_path / "regulusSynced").unlink()
    store = open_store(tmp_path)
    assert not store.wants_queue_table
    assert (tmp_path / "regulusQueues").exists()


def test_where_the_log_lost_its_end_no_message_is_taken_before_its_queue_is_born_there(
        tmp_path: Path, power: ForgetfulDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is born behind the end would hide what comes up to there, after the next crash."""
    store = open_store(power.root)
    fill(store, 2)
    flush_all(store)
    fill(store, OLD, first=2)
    store.delete_topic("TopicA")
    copy = power.crash(SURE_ONLY, tmp_path / "copy")
    with monkeypatch.context() as patch, rebooted():
        refuse_the_table(patch)
        store = FileMessageStore(small_config(copy))
        assert store.open().is_clean_stop is False
        assert "is full" in store.fault
        assert store.append(a_message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.wants_queue_table
    store.flush_queue_table()
    assert store.is_writable
    fill(store, NEW, first=FIRST_NEW)
    store.flush_commit_log()
    again = open_store(crashed_copy(copy, tmp_path / "again"))
    assert [int(body[:8]) for body in bodies(again)] == list(range(FIRST_NEW, FIRST_NEW + NEW))


def lost_its_end(power: ForgetfulDisk, target: Path) -> Path:
    """A store whose table speaks of ten messages that a power cut took."""
    store = open_store(power.root)
    fill(store, OLD // 2)
    flush_all(store)
    fill(store, OLD // 2, first=OLD // 2)
    store.flush_queue_table()
    return power.crash(SURE_ONLY, target)


def test_what_comes_where_the_log_lost_its_end_is_there_after_another_power_cut(tmp_path: Path,
                                                                                power: ForgetfulDisk) -> None:
    """The table said that all up to the lost end was in queues; what takes that place is not, and was acknowledged."""
    root = lost_its_end(power, tmp_path / "copy")
    with rebooted():
        store = open_store(root)
    with ForgetfulDisk(root) as again:
        fill(store, NEW, topic="TopicB")
        fill(store, NEW, first=FIRST_NEW)
        store.flush_commit_log()
        for seed in SEEDS:
            after = after_a_power_cut(again, tmp_path / "again", seed)
            assert len(bodies(after, "TopicB")) == NEW, f"seed {seed}"
            assert [int(body[:8]) for body in bodies(after)] == \
                [*range(OLD // 2), *range(FIRST_NEW, FIRST_NEW + NEW)], f"seed {seed}"
            # Nor does the next message leave room for those that are lost.
            assert fill(after, 1)[0].queue_offset == OLD // 2 + NEW
            after.close()


def test_no_message_is_taken_before_the_table_speaks_of_none_that_are_lost(
        tmp_path: Path, power: ForgetfulDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    root = lost_its_end(power, tmp_path / "copy")
    with monkeypatch.context() as patch, rebooted():
        refuse_the_table(patch)
        store = open_store(root)
        assert "is full" in store.fault
        assert store.append(a_message(), NOW).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.wants_queue_table
        assert not store.is_writable
    store.flush_queue_table()
    assert store.is_writable
    assert not store.wants_queue_table


def test_a_log_without_a_record_has_no_table(tmp_path: Path) -> None:
    """It could be bound to none; and messages are taken."""
    store = open_store(tmp_path)
    fill(store, 2)
    store.close()
    (file,) = (tmp_path / "commitlog").iterdir()
    with file.open("r+b") as log:       # within the first record, and not within what the table knows it by
        log.seek(synced_mark.HEAD_SIZE)
        log.write(bytes(64))
    store = open_store(tmp_path, cut_damaged_log=0)
    assert not (tmp_path / "regulusQueues").exists()
    assert store.is_writable
    fill(store, 1)


def test_a_table_is_bound_to_the_last_record_as_soon_as_that_is_on_disk(tmp_path: Path) -> None:
    """The file of an earlier one is deleted first, and the table would be another log's then."""
    store = open_store(tmp_path)
    fill(store, 1)
    store.flush_commit_log()
    fill(store, OLD)
    store.flush_queue_table()
    store._log.flush()      # as one that began before the record was dispatched: nobody syncs a quiet log once more
    store.flush_queue_table()
    table = queue_table.decode((tmp_path / "regulusQueues").read_bytes())
    assert table.mark.end == table.position == store.commit_log_max_offset()


def deleted_topic(root: Path) -> FileMessageStore:
    """A store that knows of a deleted topic, and its log has a file or more behind that."""
    store = open_store(root)
    fill(store, OLD)
    flush_all(store)
    store.delete_topic("TopicA")
    fill(store, OLD, topic="TopicB")
    flush_all(store)
    return store


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_start_that_is_refused_forgets_no_deletion(tmp_path: Path, is_missing: bool) -> None:
    """The table's own record is damaged; then its file is brought back, as the refusal says."""
    store = deleted_topic(tmp_path / "store")
    mark = queue_table.decode((tmp_path / "store" / "regulusQueues").read_bytes()).mark
    fill(store, 2 * OLD, topic="TopicB")
    store.flush_commit_log()
    store.flush_mark()
    root = crashed_copy(tmp_path / "store", tmp_path / "copy")
    position = mark.start % store.config.mapped_file_size_commit_log
    path = root / "commitlog" / file_name(mark.start - position)
    well = path.read_bytes()
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(well[:position].ljust(len(well), b"?"))
    with pytest.raises(StoreDamaged):
        open_store(root)
    path.write_bytes(well)
    store = open_store(root)
    assert bodies(store) == []
    assert len(bodies(store, "TopicB")) == 3 * OLD


def test_a_log_that_is_cut_where_a_file_begins_forgets_no_deletion(tmp_path: Path) -> None:
    """The walk meets no record then."""
    root = tmp_path / "store"
    deleted_topic(root).close()
    path = max((root / "commitlog").iterdir())
    with path.open("r+b") as log:       # within the first record
        log.seek(synced_mark.HEAD_SIZE)
        log.write(bytes(64))
    store = open_store(root, cut_damaged_log=int(path.name))
    assert bodies(open_store(crashed_copy(root, tmp_path / "copy"))) == []
    store.close()
    check_that_it_knows_the_deletion(root)


def test_a_log_that_ends_with_a_blank_after_a_clean_stop_is_the_tables(tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no room for another file."""
    store = deleted_topic(tmp_path)
    create_sized = disk.create_sized

    def created(path: Path, size: int, *, is_anew: bool = False) -> None:
        if path.parent.name == "commitlog":
            refuse(path)
        create_sized(path, size, is_anew=is_anew)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "create_sized", created)
        while store.append(a_message("TopicB", bytes(100)), NOW).status is PutStatus.PUT_OK:
            store.dispatch(1)
    dispatch(store)
    store.close()
    check_that_it_knows_the_deletion(tmp_path)


def check_that_it_knows_the_deletion(root: Path) -> None:
    open_store(root).close()
    assert queue_table.decode((root / "regulusQueues").read_bytes()).births.keys() == {("TopicA", 0)}
