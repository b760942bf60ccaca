"""On a store that RocketMQ 5.5.1 left after two runs with RocksDB timers, RocksDB halves, enableLmq and pops in
RocksDB: tests/golden/store-5.5.1-rocksdb."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regulus.errors import StoreDamaged, StoreNewer
from regulus.record import timer_units
from regulus.store.file_message_store import FileMessageStore
from regulus.store.rocksdb_parts import offsets_ahead, rocksdb_parts
from tests.stores import NOW, a_message, dispatch, open_store, small_config
from tests.unit.store.rocksdb_store import ONE_RUN, SIZES, STORE

Change = Callable[[Path], object]
PARTS = {"rocksdbstore": "rocksdbstore is in use", "consumequeue/RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": "half messages",
         "consumequeue/rmq_sys_wheel_timer": "timerRocksDBEnable", "kvStore": "pops in flight",
         "config/lmqConsumerOffset.json": "4 queues of groups"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(STORE, tmp_path / "store")
    return tmp_path / "store"


def without(root: Path, *parts: str) -> list[str]:
    for part in parts:
        path = root / part
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return rocksdb_parts(small_config(root, **SIZES))


def leave_only(root: Path, part: str) -> list[str]:
    others = [other for other in PARTS if other != part and not (part.endswith("timer") and other == "rocksdbstore")]
    clauses = without(root, *others)
    if part.endswith("timer"):
        for path in (root / "rocksdbstore").glob("*.[sl][so][tg]"):
            path.unlink()           # as kill -9 may leave it
        clauses = rocksdb_parts(small_config(root, **SIZES))
    return clauses


def test_all_parts_are_named_in_one_sentence_and_nothing_is_changed(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    with pytest.raises(StoreNewer) as raised:
        FileMessageStore(small_config(root, **SIZES)).open()
    for place, said in PARTS.items():
        assert str(root / place) in str(raised.value)
        assert said in str(raised.value)
    assert "--take-what-is-readable" in str(raised.value)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")
            if path.name not in ("lock", "store")} == {
        path: time for path, time in before.items() if path.name not in ("lock", "store")}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_alone_is_told(root: Path, part: str) -> None:
    [clause] = leave_only(root, part)
    assert clause.startswith(str(root / part))
    with pytest.raises(StoreNewer, match="would"):
        open_store(root, **SIZES)


def test_none_of_them_and_it_opens(root: Path) -> None:
    assert without(root, *PARTS) == []
    open_store(root, **SIZES).close()


def test_the_switch_opens_it(root: Path) -> None:
    store = open_store(root, take_what_is_readable=True, **SIZES)
    assert [store.max_offset("T", queue_id) for queue_id in range(4)] == [1, 2, 1, 1]
    store.close()
    with pytest.raises(StoreNewer, match="rocksdbstore"):
        open_store(root, **SIZES)


def test_one_run_that_was_killed_is_told_by_its_timers(root: Path) -> None:
    leave_only(root, "consumequeue/rmq_sys_wheel_timer")
    shutil.copy(ONE_RUN, root / "config/timercheck")
    assert timer_units.decode_check(ONE_RUN.read_bytes()).queue_offset == 0
    [clause] = rocksdb_parts(small_config(root, **SIZES))
    assert "of which" in clause


def unused(root: Path) -> None:
    (root / "rocksdbstore").mkdir(parents=True)
    (root / "rocksdbstore/000004.log").touch()
    (root / "rocksdbstore/CURRENT").write_text("MANIFEST-000005\n")
    (root / "rocksdbstore/MANIFEST-000005").write_bytes(bytes(170))


def a_timer_log(root: Path) -> None:
    unused(root)
    (root / "timerlog").mkdir()
    record = timer_units.TimerRecord(NOW, 1, NOW, 0, 100, 0)
    (root / "timerlog/00000000000000000000").write_bytes(timer_units.encode(record, -1).ljust(1024, b"\0"))


def the_note(root: Path, after_ms: int) -> None:
    (root / "config").mkdir(exist_ok=True)
    check = timer_units.TimerCheck(read_ms=NOW, version_timestamp=NOW + after_ms)
    (root / "config/timercheck").write_bytes(timer_units.encode_check(check))


def noted_at_once(root: Path) -> None:
    unused(root)
    the_note(root, 4_999)


def noted_later(root: Path) -> None:
    a_timer_log(root)
    the_note(root, 60_000)


@pytest.mark.parametrize("change", [unused, noted_at_once, noted_later])
def test_a_store_of_default_settings_opens(tmp_path: Path, change: Change) -> None:
    """Its wheel has what waits; or it was killed before it entered the first."""
    with_a_timer(tmp_path)
    change(tmp_path)
    assert rocksdb_parts(small_config(tmp_path)) == []


def test_a_timer_that_no_timer_log_has_after_five_seconds(tmp_path: Path) -> None:
    with_a_timer(tmp_path)
    unused(tmp_path)
    the_note(tmp_path, 5_000)
    assert len(rocksdb_parts(small_config(tmp_path))) == 1
    shutil.rmtree(tmp_path / "rocksdbstore")        # a broker of ours, or 5.3.3, whose files of timers are lost
    assert rocksdb_parts(small_config(tmp_path)) == []


def test_a_timer_log_that_was_made_and_never_written_has_none(tmp_path: Path) -> None:
    with_a_timer(tmp_path)
    unused(tmp_path)
    (tmp_path / "timerlog").mkdir()
    (tmp_path / "timerlog/00000000000000000000").write_bytes(bytes(1024))
    the_note(tmp_path, 60_000)
    assert len(rocksdb_parts(small_config(tmp_path))) == 1


@pytest.mark.parametrize("name", ["000004.log", "000017.sst"])
def test_a_database_of_either_kind_of_file_is_in_use(tmp_path: Path, name: str) -> None:
    """What was written last stands in a log alone until it is flushed."""
    unused(tmp_path)
    (tmp_path / "rocksdbstore" / name).write_bytes(b".")
    [clause] = rocksdb_parts(small_config(tmp_path))
    assert "rocksdbstore is in use" in clause


def test_a_queue_of_halves_without_files_has_none(tmp_path: Path) -> None:
    (tmp_path / "consumequeue/RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC/0").mkdir(parents=True)
    assert rocksdb_parts(small_config(tmp_path)) == []


def with_a_timer(root: Path) -> None:
    store = open_store(root)
    store.append(a_message("rmq_sys_wheel_timer"), NOW)
    dispatch(store)
    store.close()


def test_offsets_that_are_not_ahead_are_no_loss(root: Path) -> None:
    config = root / "config"
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{"0":1,"1":2,"2":0,"3":7}}}')
    assert offsets_ahead(config) == 1
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{"0":1,"1":2,"2":1,"3":7}}}')
    assert without(root, *(part for part in PARTS if "lmq" not in part)) == []


def test_offsets_that_cannot_be_read_are_named(root: Path) -> None:
    (root / "config/lmqConsumerOffset.json").write_text('{"offsetTable":[]}')
    with pytest.raises(StoreDamaged, match=r"lmqConsumerOffset\.json cannot be read"):
        rocksdb_parts(small_config(root, **SIZES))
