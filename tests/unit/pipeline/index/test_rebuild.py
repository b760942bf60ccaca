"""Rebuilt from the log, consume queues and index are byte for byte the broker's, whoever wrote them."""

import os
import re
import shutil
from pathlib import Path

import pytest

from regulus.errors import ConfigError, OptionError, StoreNewer
from regulus.model import sys_flag
from regulus.model.topics import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from regulus.pipeline.index.rebuild import RebuildConfig, index_parts, index_pieces, rebuild_index
from regulus.pipeline.index.task import IndexTask, Piece
from regulus.pipeline.range_tasks import LocalTasks, SparkTasks
from regulus.record.consume_queue_unit import FILLER, decode_all
from tests.stores import NOW, a_message, dispatch, fill, open_store

GOLDEN = Path(__file__).parents[3] / "golden"
SIZES = {
    "store-4.9.8": {"mapped_file_size_consume_queue": 1280, "max_hash_slot_num": 256, "max_index_num": 1024},
    "store-4.9.8-killed": {"mapped_file_size_consume_queue": 6000, "max_hash_slot_num": 512, "max_index_num": 2048},
}
SMALL = {"mapped_file_size_consume_queue": 200, "max_hash_slot_num": 16, "max_index_num": 32}


def rebuild(store: Path, output: Path, tasks=None, **changes):
    config = RebuildConfig(store_path=str(store), output=str(output), **{"range_size": 2048, **changes})
    return rebuild_index(tasks or LocalTasks(), config)


def tree(root: Path, part: str) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted((root / part).rglob("*"))
            if path.is_file()}


def used_queues(root: Path) -> dict[str, bytes]:
    """The queues' files; a broker makes the next one ahead, and empty ones for queues that it was asked for."""
    return {path: data for path, data in tree(root, "consumequeue").items() if data.strip(b"\0")}


@pytest.mark.parametrize("name", list(SIZES))
def test_as_apache_rocketmq_built_them(name, tmp_path):
    report = rebuild(GOLDEN / name, tmp_path / "out", range_size=10_000, **SIZES[name])
    golden, made = used_queues(GOLDEN / name), used_queues(tmp_path / "out")
    if name == "store-4.9.8":
        assert made == golden
        assert report.deleted_topics == {"SDeleted"}
    else:
        # The killed broker had not built the last units of what it had stored.
        assert list(made) == list(golden)
        units = {path: [unit for unit in decode_all(data) if unit.size] for path, data in made.items()}
        for path, data in golden.items():
            before = [unit for unit in decode_all(data) if unit.size]
            assert units[path][:len(before)] == before
        assert sum(map(len, units.values())) - sum(
            len([unit for unit in decode_all(data) if unit.size]) for data in golden.values()) == 11
    indexes = list(tree(GOLDEN / name, "index").values())
    # RocketMQ names an index file by the time of its making, which the log does not tell.
    made_indexes = list(tree(tmp_path / "out", "index").values())
    assert made_indexes[:len(indexes) - 1] == indexes[:-1]
    if name == "store-4.9.8":
        assert made_indexes == indexes


def a_store(root: Path) -> Path:
    """A store of ours with all that is special."""
    store = open_store(root)
    fill(store, 60, queues=3)
    for level in ("1", "3", "99"):
        store.append(a_message(SCHEDULE_TOPIC, DELAY=level, TAGS="a", KEYS="delayed"), NOW + 100)
    store.append(a_message(TRANS_HALF_TOPIC, UNIQ_KEY="H1", KEYS="half"), NOW + 200)
    for flags in (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
        store.append(a_message("orders", sys_flag=flags, KEYS="one two  three", UNIQ_KEY=f"T{flags}"), NOW + 300)
    store.append(a_message("orders", body=b"", TAGS="größer", KEYS="schlüssel 🙂"), NOW + 3_000_000)
    store.append(a_message("%RETRY%group", body=bytes(2000)), NOW + 4_000_000)
    fill(store, 30, topic="TopicB", first=1000, queues=2)
    dispatch(store)
    store.close()
    return root


def test_as_our_own_broker_built_them(tmp_path):
    store = a_store(tmp_path / "store")
    report = rebuild(store, tmp_path / "out", **SMALL)
    assert used_queues(tmp_path / "out") == used_queues(store)
    assert tree(tmp_path / "out", "index") == tree(store, "index")
    assert len(tree(store, "index")) > 5
    assert report.index_files == len(tree(store, "index"))
    assert not (tmp_path / "out" / "_entries").exists()


@pytest.mark.spark
def test_the_same_whatever_the_number_of_tasks(spark, tmp_path):
    store = a_store(tmp_path / "store")
    rebuild(store, tmp_path / "one", range_size=1 << 20, **SMALL)
    rebuild(store, tmp_path / "spark", SparkTasks(spark), range_size=1024, **SMALL)
    assert tree(tmp_path / "spark", "") == tree(tmp_path / "one", "")


class ThreeAtATime(LocalTasks):
    """Says so, and does one after another: what tasks write must not depend on the order."""

    parallelism = 3

    def run(self, work, tasks):
        return super().run(work, tasks[::-1])[::-1]


@pytest.mark.parametrize("index_entries", [32, 64, 4096])
def test_the_same_where_tasks_share_an_index_file(tmp_path, index_entries):
    sizes = {**SMALL, "max_index_num": index_entries}
    store = a_store(tmp_path / "store")
    rebuild(store, tmp_path / "one", range_size=1 << 20, **sizes)
    rebuild(store, tmp_path / "three", ThreeAtATime(), **sizes)
    assert tree(tmp_path / "three", "") == tree(tmp_path / "one", "")


def test_a_store_goes_on_with_what_was_rebuilt(tmp_path):
    store = a_store(tmp_path / "store")
    rebuild(store, tmp_path / "out", **SMALL)
    kept = used_queues(store)
    for part in ("consumequeue", "index"):
        shutil.rmtree(store / part)
        shutil.move(tmp_path / "out" / part, store / part)
    opened = open_store(store)
    assert opened.max_offset("TopicA", 0) == 20
    assert opened.query_message("TopicA", "k7", 10, 0, NOW * 2).buffers
    opened.close()
    assert used_queues(store) == kept


def test_a_topic_made_anew_has_its_new_queues(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 30)
    store.delete_topic("TopicA")
    fill(store, 5, topic="TopicB")
    fill(store, 7, first=500)
    store.close()
    report = rebuild(tmp_path / "store", tmp_path / "out", **SMALL)
    assert used_queues(tmp_path / "out") == used_queues(tmp_path / "store")
    assert report.made_anew == 1


def test_what_the_log_lost_is_filled_up(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 60)
    store.close()
    log = sorted((tmp_path / "store" / "commitlog").iterdir())
    log[0].unlink()
    rebuild(tmp_path / "store", tmp_path / "out", **SMALL)
    made = b"".join(used_queues(tmp_path / "out").values())
    kept = b"".join(tree(tmp_path / "store", "consumequeue").values())
    units = [unit for unit in decode_all(made) if unit.size]
    first = next(number for number, unit in enumerate(units) if unit != FILLER)
    old = [unit for unit in decode_all(kept) if unit.size]
    assert units[first:] == old[-len(units) + first:]
    assert units[:first] == [FILLER] * first


def test_damage_in_the_midst_is_passed(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 60)
    store.close()
    first = sorted((tmp_path / "store" / "commitlog").iterdir())[0]
    data = bytearray(first.read_bytes())
    data[4:8] = b"\0\0\0\0"
    first.write_bytes(data)
    report = rebuild(tmp_path / "store", tmp_path / "out", **SMALL)
    assert report.skipped > 100
    units = [unit for data in used_queues(tmp_path / "out").values() for unit in decode_all(data) if unit.size]
    assert units[0] == FILLER
    assert len(units) == 60


@pytest.mark.parametrize(("tasks", "range_size"), [(LocalTasks(), 1 << 20), (ThreeAtATime(), 700)])
@pytest.mark.parametrize("after_crash", [False, True])
def test_the_rebuilt_end_where_recovery_ends_the_log(tmp_path, tasks, range_size, after_crash):
    """A flaw in the midst of the last file ends the log there: what good records lie behind it have no units."""
    root = a_store(tmp_path / "store")
    damaged = sorted((root / "commitlog").iterdir())[-2 if after_crash else -1]
    data = bytearray(damaged.read_bytes())
    bodies = [found.start() for found in re.finditer(rb"\d{8}\.{20}", data)]
    data[bodies[len(bodies) // 2]] ^= 1
    damaged.write_bytes(data)
    if after_crash:
        (root / "abort").touch()
        (root / "checkpoint").unlink()
    rebuilt = rebuild(root, tmp_path / "out", tasks, **{**SMALL, "range_size": range_size})
    store = open_store(root, cut_damaged_log=rebuilt.end)
    assert rebuilt.end == store.commit_log_max_offset()
    assert rebuilt.stop_reason == "body and its checksum differ"
    store.close()
    for part in ("consumequeue", "index"):
        shutil.rmtree(root / part)
    (root / "checkpoint").unlink()
    store = open_store(root)
    dispatch(store)
    store.close()
    assert used_queues(tmp_path / "out") == used_queues(root)
    assert list(tree(tmp_path / "out", "index").values()) == list(tree(root, "index").values())


@pytest.mark.parametrize("topic", ["../../../evil", "/absolute/evil", "RMQ_SYS_/../../evil", "a\x00b", "a.b"])
def test_a_name_in_the_log_that_is_none_becomes_no_folder(tmp_path, topic):
    opened = open_store(tmp_path / "store")
    fill(opened, 6, topic="T" * len(topic))
    fill(opened, 2, topic="Good")
    opened.close()
    log = next((tmp_path / "store" / "commitlog").iterdir())
    log.write_bytes(log.read_bytes().replace(b"T" * len(topic), topic.encode()))
    before = set(tmp_path.rglob("*"))
    output = tmp_path / "deep" / "down" / "out"
    report = rebuild(tmp_path / "store", output, with_deleted_topics=True, **SMALL)
    assert report.deleted_topics == {topic}
    assert {path.split("/")[1] for path in used_queues(output)} == {"Good"}
    assert {path for path in set(tmp_path.rglob("*")) - before if not path.is_relative_to(tmp_path / "deep")} == set()
    assert not Path("/absolute").exists()


def test_a_log_of_a_later_format_is_refused(tmp_path):
    root = a_store(tmp_path / "store")
    last = sorted((root / "commitlog").iterdir())[-1]
    data = bytearray(last.read_bytes())
    data[7] = 0xAF
    last.write_bytes(data)
    with pytest.raises(StoreNewer, match=f"{last.name} has a record of a later format"):
        rebuild(root, tmp_path / "out", **SMALL)
    assert not (tmp_path / "out").exists()


def test_writes_that_take_only_a_part_are_gone_on_with(tmp_path, monkeypatch):
    store = a_store(tmp_path / "store")
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, position: write(file, data[:7], position))
    rebuild(store, tmp_path / "out", **SMALL)
    assert used_queues(tmp_path / "out") == used_queues(store)
    assert tree(tmp_path / "out", "index") == tree(store, "index")


def test_an_empty_log_gives_nothing(tmp_path):
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert str(rebuild(tmp_path / "store", tmp_path / "out")).startswith("log 0 to 0: 0 records, 0 units in 0 queues")
    (tmp_path / "store" / "commitlog" / f"{0:020d}").write_bytes(bytes(1 << 20))
    assert str(rebuild(tmp_path / "store", tmp_path / "out")).startswith("log 0 to 0: 0 records, 0 units in 0 queues")


def test_what_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    with pytest.raises(OptionError, match="is not empty"):
        rebuild(GOLDEN / "store-4.9.8", tmp_path / "out")
    with pytest.raises(OptionError, match="no directory 'commitlog'"):
        rebuild(tmp_path, tmp_path / "new")
    with pytest.raises(ConfigError, match="multiple of 20"):
        rebuild(tmp_path, tmp_path / "new", mapped_file_size_consume_queue=30)


def test_pieces_of_index_files():
    assert index_pieces([Piece("a", 0, 3), Piece("b", 0, 0), Piece("c", 0, 5)], 4) == [
        [Piece("a", 0, 3), Piece("c", 0, 1)], [Piece("c", 1, 4)]]
    assert index_pieces([], 4) == []


def test_parts_of_an_index_file():
    pieces = (Piece("a", 2, 3), Piece("b", 0, 4))
    whole = IndexTask(path="file", before=(), pieces=pieces, is_last=True, end_before=0, slots=8, entries_max=16)
    assert index_parts(whole, 1) == [whole]
    assert [(part.before, part.pieces, part.is_last) for part in index_parts(whole, 3)] == [
        ((), (Piece("a", 2, 3),), False),
        ((Piece("a", 2, 3),), (Piece("b", 0, 3),), False),
        ((Piece("a", 2, 3), Piece("b", 0, 3)), (Piece("b", 3, 1),), True)]
    assert len(index_parts(whole, 100)) == 7
