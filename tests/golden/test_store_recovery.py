"""Stores that Apache RocketMQ 4.9.8 left behind, after a clean stop and after kill -9, opened and recovered by us.

What RocketMQ itself said of a copy after its own recovery is what we must say.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.stores import a_message, dispatch

from regulus.record import message_record
from regulus.record.consume_queue_unit import decode_all
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

GOLDEN = Path(__file__).parent
FOREVER = 2**63 - 1
SIZES: dict[str, dict[str, Any]] = {
    "": {"mapped_file_size_commit_log": 131_072, "mapped_file_size_consume_queue": 1280, "max_hash_slot_num": 256,
         "max_index_num": 1024},
    "-killed": {"mapped_file_size_commit_log": 262_144, "mapped_file_size_consume_queue": 6000,
                "max_hash_slot_num": 512, "max_index_num": 2048}}
BOTH = pytest.mark.parametrize("suffix", SIZES, ids=["clean", "killed"])


def lines(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / f"{name}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def copied(tmp_path: Path, suffix: str) -> MessageStoreConfig:
    shutil.copytree(GOLDEN / f"store-4.9.8{suffix}", tmp_path / "store")
    return MessageStoreConfig(store_path_root_dir=str(tmp_path / "store"), **SIZES[suffix])


def opened(tmp_path: Path, suffix: str) -> FileMessageStore:
    store = FileMessageStore(copied(tmp_path, suffix))
    store.open()
    return store


@BOTH
def test_bounds_of_log_and_queues(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    for line in lines(f"recovered{suffix}"):
        if line["kind"] == "store":
            assert store.commit_log_min_offset() == line["minPhyOffset"]
            assert store.commit_log_max_offset() == line["maxPhyOffset"]
            assert store.dispatch_behind_bytes() == 0
        else:
            queue = (line["topic"], line["queueId"])
            assert (store.min_offset(*queue), store.max_offset(*queue)) == (line["minOffset"], line["maxOffset"]), queue


@BOTH
def test_units_of_all_queues(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    expected: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for line in lines(f"recovered-consumequeue{suffix}"):
        expected.setdefault((line["topic"], line["queueId"]), []).append(
            (line["index"], line["offset"], line["size"], line["tagsCode"]))
    assert set(store.queues()) == set(expected)
    for queue, units in expected.items():
        assert [tuple(unit) for unit in store.queue_units(*queue, 0, 100_000)] == units


@BOTH
def test_each_message_by_its_offset(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    count = 0
    for line in lines(f"store-4.9.8{suffix}"):
        if line["kind"] != "message":
            continue
        record = store.record_bytes(line["physicalOffset"])
        assert record is not None
        message = message_record.decode(record)
        # Nothing is done any more with a message whose topic was deleted.
        assert (store.look_message(line["physicalOffset"]) is None) == (message.topic == "SDeleted")
        assert (message.topic, message.queue_id, message.queue_offset, message.store_size, message.body_crc) == (
            line["topic"], line["queueId"], line["queueOffset"], line["storeSize"], line["bodyCRC"])
        assert message.properties == line["properties"]
        count += 1
    assert count == (2440 if suffix else 734)


@BOTH
def test_answers_of_the_index(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    for line in lines(f"index{suffix}"):
        if line["kind"] != "query":
            continue
        result = store.query_message(line["topic"], line["key"], line["maxNum"], 0, FOREVER)
        offsets = [message_record.decode(buffer).physical_offset for buffer in result.buffers]
        assert offsets == sorted(line["phyOffsets"]), line["key"]
        assert result.index_last_update_timestamp == line["indexLastUpdateTimestamp"]
        assert result.index_last_update_physical_offset == line["indexLastUpdatePhyoffset"]
        assert len(result.buffers) == line["queryMessageCount"]


@BOTH
def test_a_start_and_a_stop_leave_what_was_good_untouched(tmp_path: Path, suffix: str) -> None:
    config = copied(tmp_path, suffix)
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    before = {path.relative_to(tmp_path): path.read_bytes() for path in files}
    store = FileMessageStore(config)
    report = store.open()
    store.close()
    assert report.is_clean_stop == (suffix == "")
    assert report.stop_reason == ""
    for path in sorted((tmp_path / "store" / "commitlog").iterdir()):
        assert path.read_bytes() == before[path.relative_to(tmp_path)], path
    if not suffix:
        for folder in ("consumequeue", "index"):
            for path in (tmp_path / "store" / folder).rglob("0*"):
                if path.is_file():
                    assert path.read_bytes() == before[path.relative_to(tmp_path)], path
    assert not (tmp_path / "store/abort").exists()


@BOTH
def test_the_log_alone_gives_the_same_queues_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    config = copied(tmp_path, suffix)
    root = tmp_path / "store"
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "checkpoint").unlink()
    store = FileMessageStore(config)
    store.open()
    deleted = {"SDeleted"}      # its queue was deleted by an administrator, which the log does not know
    expected: dict[tuple[str, int], int] = {}
    for line in lines(f"recovered-consumequeue{suffix}"):
        expected[line["topic"], line["queueId"]] = line["index"] + 1
    found = {queue: store.max_offset(*queue) for queue in store.queues() if queue[0] not in deleted}
    assert found == expected
    for path in (GOLDEN / f"store-4.9.8{suffix}" / "consumequeue").rglob("0*"):
        if not path.is_file():
            continue
        rebuilt = (root / path.relative_to(GOLDEN / f"store-4.9.8{suffix}")).read_bytes()
        recorded = [unit for unit in decode_all(path.read_bytes()) if unit.size > 0]
        assert list(decode_all(rebuilt))[:len(recorded)] == recorded, path


@BOTH
def test_the_log_goes_on_where_rocketmq_stopped(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    topic = "KNormal" if suffix else "SNormal"
    end, offset = store.commit_log_max_offset(), store.max_offset(topic, 0)
    message = a_message(topic, b"one more", UNIQ_KEY="one-more")
    appended = store.append(message, 1_795_219_200_000)
    assert (appended.start, appended.queue_offset) == (end, offset)
    dispatch(store)
    assert len(store.query_message(topic, "one-more", 32, 0, FOREVER).buffers) == 1
    store.close()
    again = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(tmp_path / "store"), **SIZES[suffix]))
    again.open()
    found = again.look_message(end)
    assert found is not None
    assert found.body == b"one more"


@BOTH
def test_documents_are_read_as_they_are(tmp_path: Path, suffix: str) -> None:
    store = opened(tmp_path, suffix)
    for name in ("topics", "subscriptionGroup"):
        assert store.load_config(name) == (GOLDEN / f"store-4.9.8{suffix}" / "config" / f"{name}.json").read_text()
    assert store.configs.warnings == []
