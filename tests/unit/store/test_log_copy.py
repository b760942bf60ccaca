import random
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged
from regulus.model.message_filter import EVERYTHING
from regulus.model.store_result import PutStatus
from regulus.store.file_message_store import FileMessageStore
from tests.stores import NOW, a_message, bodies, dispatch, fill, open_store, small_config

RECORD_SIZE_MAX = 10_000
FILE_SIZE = 4096


def copying_store(root: Path, record_size_max: int = RECORD_SIZE_MAX, **settings: int) -> FileMessageStore:
    store = FileMessageStore(small_config(root, **settings))
    store.be_copy("this broker is a slave", record_size_max)
    store.open()
    return store


def log_from(store: FileMessageStore, offset: int = 0, size_max: int = 1 << 20) -> list[tuple[int, bytes]]:
    """Its pieces, as a master sends them."""
    pieces = []
    while (piece := store.log_bytes(offset, size_max)) is not None:
        pieces.append((offset, bytes(piece)))
        offset += len(piece)
    return pieces


def copy_all(original: FileMessageStore, copy: FileMessageStore) -> None:
    for piece in log_from(original, 0, 300):
        copy.copy.take(*piece)


def files_of(root: Path, *folders: str) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for folder in folders
            for path in sorted((root / folder).rglob("*")) if path.is_file()}


@pytest.mark.parametrize("size_max", [1, 7, 500, 1 << 20])
def test_a_copy_has_the_bytes_and_the_queues_of_the_original(tmp_path: Path, size_max: int) -> None:
    original = open_store(tmp_path / "original")
    fill(original, 40, size=300, queues=3)
    copy = copying_store(tmp_path / "copy")
    for offset, piece in log_from(original, 0, size_max):
        copy.copy.take(offset, piece)
    dispatch(copy)
    assert copy.commit_log_max_offset() == original.commit_log_max_offset()
    for store in (original, copy):
        store.close()
    folders = ("commitlog", "consumequeue", "index")
    ours, theirs = files_of(tmp_path / "copy", *folders), files_of(tmp_path / "original", *folders)
    assert {name: data for name, data in ours.items() if "index" not in name} \
        == {name: data for name, data in theirs.items() if "index" not in name}
    assert sorted(data for name, data in ours.items() if "index" in name) \
        == sorted(data for name, data in theirs.items() if "index" in name)


def test_a_copy_goes_on_after_a_restart_and_an_interruption(tmp_path: Path) -> None:
    chance = random.Random(1)
    original = open_store(tmp_path / "original")
    expected = [message.body for message in fill(original, 60, size=500)]
    copy = copying_store(tmp_path / "copy")
    while copy.commit_log_max_offset() < original.commit_log_max_offset():
        offset = copy.commit_log_max_offset()
        for _ in range(chance.randint(1, 5)):
            piece = original.log_bytes(offset, chance.randint(1, 900))
            if piece is None:
                break
            copy.copy.take(offset, bytes(piece))
            offset += len(piece)
        if chance.random() < 0.5:
            copy.copy.interrupt()
        else:
            copy.close()
            copy = copying_store(tmp_path / "copy")
    dispatch(copy)
    assert bodies(copy) == expected


def test_an_empty_copy_begins_with_any_file_of_the_original(tmp_path: Path) -> None:
    original = open_store(tmp_path / "original")
    expected = [message.body for message in fill(original, 40, size=500)]
    begin = 2 * FILE_SIZE
    copy = copying_store(tmp_path / "copy")
    assert not copy.wants_allocation
    for offset, piece in log_from(original, begin, 100):
        copy.copy.take(offset, piece)
    dispatch(copy)
    first = copy.min_offset("TopicA", 0)
    assert 0 < first < 30
    assert copy.commit_log_min_offset() == begin
    found = [copy.get_message("TopicA", 0, number, 1, 1 << 20, EVERYTHING).buffers for number in range(first, 40)]
    assert all(expected[number] in bytes(buffers[0]) for number, buffers in enumerate(found, first))
    copy.close()
    again = copying_store(tmp_path / "copy")
    assert (again.commit_log_min_offset(), again.min_offset("TopicA", 0)) == (begin, first)
    assert again.commit_log_max_offset() == original.commit_log_max_offset()


def test_a_copy_takes_no_messages_of_its_own(tmp_path: Path) -> None:
    copy = copying_store(tmp_path)
    refused = copy.append(a_message(), NOW)
    assert (refused.status, refused.remark) == (PutStatus.SERVICE_NOT_AVAILABLE, "this broker is a slave")
    copy.refuse_writes("the disk is full")
    copy.refuse_writes("")
    assert copy.append_batch([a_message()], NOW).remark == "this broker is a slave"
    assert copy.fault == ""
    assert not copy.is_writable
    assert copy.commit_log_max_offset() == 0


@pytest.mark.parametrize("offset", [8, FILE_SIZE, 0])
def test_what_does_not_go_on_where_the_copy_ends_is_refused(tmp_path: Path, offset: int) -> None:
    original = open_store(tmp_path / "original")
    fill(original, 3)
    copy = copying_store(tmp_path / "copy")
    (piece,) = log_from(original)
    copy.copy.take(*piece)
    end = copy.commit_log_max_offset()
    with pytest.raises(StoreDamaged, match="not copies of one another"):
        copy.copy.take(end + offset if offset else 0, piece[1])
    assert copy.commit_log_max_offset() == end


@pytest.mark.parametrize(("place", "words"), [
    (4, "magic number is"), (0, "record of .* bytes"), (30, "says it is at"), (90, "body and its checksum differ")])
def test_what_is_no_record_is_refused_and_what_came_before_stays(tmp_path: Path, place: int, words: str) -> None:
    original = open_store(tmp_path / "original")
    fill(original, 3)
    (_, data), = log_from(original)
    second = int.from_bytes(data[:4], "big")
    harmed = bytearray(data)
    harmed[second + place] ^= 0x40
    copy = copying_store(tmp_path / "copy")
    with pytest.raises(StoreDamaged, match=words):
        copy.copy.take(0, bytes(harmed))
    assert copy.commit_log_max_offset() == second
    copy.copy.take(second, data[second:])
    assert copy.commit_log_max_offset() == len(data)


def linked(copy: FileMessageStore, original: FileMessageStore) -> list[tuple[int, bytes]]:
    """What a new link brings of the original."""
    return log_from(original, copy.copy.ask_from(), 50)


def test_a_link_begins_with_the_last_record_and_goes_on_behind_it(tmp_path: Path) -> None:
    original = open_store(tmp_path / "original")
    expected = [message.body for message in fill(original, 9)]
    copy = copying_store(tmp_path / "copy")
    copy_all(original, copy)
    dispatch(copy)
    end = copy.commit_log_max_offset()
    expected += [message.body for message in fill(original, 9, first=9)]
    pieces = linked(copy, original)
    assert pieces[0][0] == copy.copy.asked == end - end // 9
    for piece in pieces[:2]:
        copy.copy.take(*piece)
    assert copy.copy.asked is not None
    for piece in pieces[2:]:
        copy.copy.take(*piece)
    assert copy.copy.asked is None
    dispatch(copy)
    assert bodies(copy) == expected


def test_a_log_with_records_at_the_same_places_is_no_copy(tmp_path: Path) -> None:
    """Nothing but what is in the last record tells the two apart."""
    original = open_store(tmp_path / "original")
    copy = copying_store(tmp_path / "copy")
    fill(original, 5)
    copy_all(original, copy)
    dispatch(copy)
    copy.close()
    for store in (original, own := open_store(tmp_path / "copy")):
        fill(store, 3, first=5 if store is original else 15)
    fill(original, 3, first=8)
    own.close()
    copy = copying_store(tmp_path / "copy")
    end = copy.commit_log_max_offset()
    start = copy.copy.ask_from()
    piece = bytes(original.log_bytes(start, 1000) or b"")
    with pytest.raises(StoreDamaged, match=rf"the record at {start} differs: stop this slave and run `regulus store"):
        copy.copy.take(start, piece)
    assert copy.commit_log_max_offset() == end


def test_a_log_of_one_record_is_compared_as_well(tmp_path: Path) -> None:
    """It lies at 0, and who asks a master for that gets its last file."""
    original, other = open_store(tmp_path / "original"), open_store(tmp_path / "other")
    fill(original, 1)
    fill(other, 2, first=5)
    copy = copying_store(tmp_path / "copy")
    copy_all(original, copy)
    dispatch(copy)
    end = copy.commit_log_max_offset()
    start = copy.copy.ask_from()
    assert start > 0
    with pytest.raises(StoreDamaged, match="are not copies of one another"):
        copy.copy.take(start, bytes(other.log_bytes(start, 1000) or b""))
    copy.copy.interrupt()
    fill(original, 1, first=1)
    for piece in linked(copy, original):
        copy.copy.take(*piece)
    assert (copy.copy.asked, copy.commit_log_max_offset()) == (None, 2 * end)


def test_a_log_that_ends_before_the_copy_does_is_told(tmp_path: Path) -> None:
    original = open_store(tmp_path / "original")
    fill(original, 5)
    copy = copying_store(tmp_path / "copy")
    copy_all(original, copy)
    dispatch(copy)
    start = copy.copy.ask_from()
    copy.copy.hear_nothing(start)       # a master says so before it sends anything
    copy.copy.take(start, bytes(original.log_bytes(start, 60) or b""))
    copy.copy.hear_nothing(start + 60)
    with pytest.raises(StoreDamaged, match=f"the master's log ends at {start + 60}, and the log here at "):
        copy.copy.hear_nothing(start + 60)
    copy.copy.interrupt()
    copy.copy.hear_nothing(start)


def test_files_of_another_size_are_told(tmp_path: Path) -> None:
    original = open_store(tmp_path / "original", mapped_file_size_commit_log=2 * FILE_SIZE)
    fill(original, 40, size=500)
    for size, words in ((FILE_SIZE, "bytes for .* left: set"), (3 * FILE_SIZE, "'s file ends .* bytes behind")):
        copy = copying_store(tmp_path / f"{size}", mapped_file_size_commit_log=size)
        with pytest.raises(StoreDamaged, match=words):
            copy_all(original, copy)
    with pytest.raises(StoreDamaged, match="set mappedFileSizeCommitLog to what the master has"):
        copying_store(tmp_path / "third", mapped_file_size_commit_log=3 * FILE_SIZE).copy.take(FILE_SIZE, b"")


def test_a_record_that_is_too_long_is_not_waited_for(tmp_path: Path) -> None:
    original = open_store(tmp_path / "original")
    fill(original, 1, size=1000)
    copy = copying_store(tmp_path / "copy", record_size_max=900)
    with pytest.raises(StoreDamaged, match="set maxMessageSize to what the master has"):
        copy.copy.take(0, bytes(original.log_bytes(0, 8) or b""))
