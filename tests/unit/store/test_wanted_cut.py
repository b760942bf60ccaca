"""A log is cut where it is wanted, and what is cut is kept."""

import json
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.store import disk
from regulus.store.log_parting import RestingLog
from regulus.store.mapped_file_queue import file_name
from regulus.store.wanted_cut import NAME, WantedCut, WantedCutFile
from tests.stores import NOW, a_message, bodies, crashed_copy, fill, open_store

FILE_SIZE = 4096
COUNT = 40


def filled(root: Path, is_clean: bool) -> list[bytes]:
    """A store whose broker was stopped, or killed."""
    store = open_store(root if is_clean else root.with_name("running"))
    expected = [message.body for message in fill(store, COUNT, size=300)]
    store.flush_commit_log()
    store.flush_queue_table()
    store.flush_mark()
    store.flush_checkpoint()
    if not is_clean:
        crashed_copy(root.with_name("running"), root)
    store.close()
    return expected


def cut_at(root: Path, number: int) -> WantedCut:
    """Before the record of this number."""
    log = RestingLog(root / "commitlog")
    begin = [begin for start in log.starts for begin, _, is_blank in log.units(start) if not is_blank][number]
    cut = WantedCut(begin=begin, records=log.behind(begin).records, end=log.behind(begin).end, reason="a test")
    WantedCutFile(root, root / "commitlog").save(cut)
    return cut


def kept(place: Path, cut: WantedCut) -> bytes:
    """What lies in a folder of cuts, each file under the name of its place, as one piece of the log."""
    piece = bytearray(cut.end - cut.begin)
    for path in place.iterdir():
        at = int(path.name) - cut.begin
        piece[at:at + len(path.read_bytes())] = path.read_bytes()
    return bytes(piece[:cut.end - cut.begin])


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("number", [2, 8, 9, 10, 17, 18, 35, 39])
def test_a_start_cuts_a_log_that_is_well_where_it_is_wanted(tmp_path: Path, number: int, is_clean: bool) -> None:
    root = tmp_path / "store"
    expected = filled(root, is_clean)
    log = b"".join([path.read_bytes() for path in sorted((root / "commitlog").iterdir())])
    cut = cut_at(root, number)
    store = open_store(root)
    assert store.commit_log_max_offset() == cut.begin
    assert bodies(store) == expected[:number]
    while (rebuild := store.deep_check.next_rebuild()) is not None:
        list(rebuild.steps())
        rebuild.take_over()
    assert store.query_message("TopicA", f"k{number}", 9, 0, 1 << 62).buffers == []
    assert len(store.query_message("TopicA", f"k{number - 1}", 9, 0, 1 << 62).buffers) == 1
    assert kept(root / "cut" / f"{file_name(cut.begin)}-1", cut) == log[cut.begin:cut.end]
    note = json.loads((root / "cut" / f"{file_name(cut.begin)}-1.json").read_bytes())
    assert note == {"begin": cut.begin, "end": cut.end, "records": COUNT - number, "reason": "a test"}
    assert not (root / NAME).exists()
    expected[number:] = [message.body for message in fill(store, 5, first=number)]
    for _ in range(2):
        store.close()
        store = open_store(root)
        assert [body[:8] for body in bodies(store)] == [body[:8] for body in expected]


def test_times_of_what_was_cut_say_nothing_of_what_comes(tmp_path: Path) -> None:
    """What the other machine stored meanwhile may be older than the last that was cut."""
    root = tmp_path / "store"
    filled(root, True)
    cut_at(root, 20)
    store = open_store(root)
    assert store.append(a_message(), NOW + 30).end
    store.flush_commit_log()
    store.flush_checkpoint()
    log = crashed_copy(root, tmp_path / "copy") / "commitlog"
    path = max(path for path in log.iterdir() if any(path.read_bytes()))
    path.write_bytes(path.read_bytes().replace(b"hello", b"hellO"))     # torn
    (tmp_path / "copy" / "regulusSynced").unlink(missing_ok=True)
    assert len(bodies(open_store(tmp_path / "copy"))) == 20


@pytest.mark.parametrize("step", ["copy_part", "move_file"])
def test_nothing_is_taken_before_the_cut_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    step: str) -> None:
    root = tmp_path / "store"
    filled(root, True)
    cut = cut_at(root, 20)

    def refuse(path: Path, *_: object) -> None:
        raise StoreNotWritable(f"the disk of {path} is full")

    with monkeypatch.context() as patch:
        patch.setattr(disk, step, refuse)
        store = open_store(root)
        assert (root / NAME).exists()
        assert "is full" in store.append(a_message(), NOW).remark
        store.copy.begin(1000)
        with pytest.raises(StoreNotWritable, match="is full"):
            store.copy.take(store.commit_log_max_offset(), b"")
    assert store.is_writable
    assert store.commit_log_max_offset() == cut.begin
    assert not (root / NAME).exists()


def test_a_second_cut_at_one_place_keeps_what_the_first_kept(tmp_path: Path) -> None:
    root = tmp_path / "store"
    filled(root, True)
    for number in (1, 2):
        cut = cut_at(root, 30)
        store = open_store(root)
        first = f"{30 + 100 * (number - 1) if number > 1 else 30:08d}....".encode()
        assert kept(root / "cut" / f"{file_name(cut.begin)}-{number}", cut).count(first) == 1
        fill(store, 10, first=30 + 100 * number, size=300)
        store.close()
        assert [path.name for path in sorted((root / "cut").glob("*.json"))] == \
            [f"{file_name(cut.begin)}-{each}.json" for each in range(1, number + 1)]


def test_what_cannot_be_read_cuts_nothing(tmp_path: Path) -> None:
    root = tmp_path / "store"
    expected = filled(root, True)
    (root / NAME).write_text("{}")
    with pytest.raises(StoreDamaged, match="cannot be read"):
        open_store(root)
    (root / NAME).unlink()
    assert bodies(open_store(root)) == expected


def test_a_damaged_log_is_judged_as_without_a_wish(tmp_path: Path) -> None:
    root = tmp_path / "store"
    filled(root, True)
    cut_at(root, 35)
    path = root / "commitlog" / file_name(3 * FILE_SIZE)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match="cutDamagedLog="):
        open_store(root)
    assert (root / NAME).exists()
