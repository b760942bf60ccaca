"""The store that Apache RocketMQ 5.3.3 left of a topic of `queue.type=BatchCQ`, with batches, and messages of their
own between them: what it answered to pulls, and the units that it wrote, are what we answer and write."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.topics import batch_topics_in
from regulus.client.administration.admin import Admin
from regulus.model.java_hash import java_hash
from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING, Filter
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.running_server import ServerThread

GOLDEN = Path(__file__).parent
STORE = GOLDEN / "store-5.3.3-batches"
QUEUE = ("Batched", 0)
PULLS = [json.loads(line) for line in (GOLDEN / "store-5.3.3-batches.jsonl").read_text().splitlines()]
FILES = sorted(path.relative_to(STORE) for path in (STORE / "batchconsumequeue").rglob("*") if path.is_file())


def config_of(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root), mapped_file_size_commit_log=64 << 10, mapped_file_size_consume_queue=200,
        mapper_file_size_batch_consume_queue=4 * 46, max_hash_slot_num=64, max_index_num=40)


def opened(root: Path) -> FileMessageStore:
    topics = (root / "config" / "topics.json").read_text()
    store = FileMessageStore(config_of(root), batch_topics=lambda: batch_topics_in(topics))
    store.open()
    return store


@pytest.fixture(params=["as it was left", "as it was left, the broker killed", "without its queues"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    if "killed" in request.param:
        (root / "abort").write_text("1234")
    if "without" in request.param:
        shutil.rmtree(root / "batchconsumequeue")
    return root


def filter_of(tags: str) -> Filter:
    return EVERYTHING if tags == "*" else Filter(frozenset({java_hash(tags)}))


def test_pulls_are_answered_as_rocketmq_did(root: Path) -> None:
    store = opened(root)
    for pull in PULLS:
        result = store.get_message(*QUEUE, pull["offset"], pull["maxMsgNums"], 256 << 10, filter_of(pull["tags"]))
        records = [message.queue_offset for buffer in result.buffers for message in message_record.decode_all(buffer)]
        assert (result.status.name, result.next_begin_offset, result.min_offset, result.max_offset, records) == (
            pull["status"], pull["next"], pull["min"], pull["max"], pull["records"]), pull
    store.close()


def test_units_are_byte_for_byte_those_of_rocketmq(root: Path) -> None:
    store = opened(root)
    store.close()
    assert len(FILES) == 4
    for name in FILES:
        assert (root / name).read_bytes() == (STORE / name).read_bytes(), name
    assert sorted(path.name for path in (root / "consumequeue").rglob("Batched")) == []


def test_a_message_of_a_single_send_lies_there_too(root: Path) -> None:
    store = opened(root)
    (unit,) = store.queue_units(*QUEUE, 5, 1)
    assert unit == (5, 738, 184, java_hash("t"))
    assert store.store_timestamp(*QUEUE, 1) == store.store_timestamp(*QUEUE, 0) == 1795987748058
    assert [store.offset_by_time(*QUEUE, stamp, upper) for stamp in (0, 1795987748104, 1 << 60)
            for upper in (False, True)] == [0, 0, 3, 4, 20, 20]
    message = store.look_message(0)
    assert message is not None
    assert message.properties["INNER_NUM"] == "3"
    store.close()


def test_a_server_that_finds_the_log_alone_serves_each_message(tmp_path: Path) -> None:
    """The documents tell which topics have such queues."""
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    shutil.rmtree(root / "batchconsumequeue")
    server = ServerThread(root, BrokerConfig(listen_port=0, broker_name="broker-a"), config_of(root))
    server.start()
    try:
        pulled = asyncio.run(pulled_from(server))
    finally:
        server.stop()
    # Between them is one whose sender said itself, and wrongly, that it is an inner batch: 5.3.3 took that.
    assert [message.queue_offset for message in pulled] == [*range(9), *range(10, 22)]
    assert [message.message_id for message in pulled][:6] == ["A0", "A1", "A2", "A0", "A1", "S"]


async def pulled_from(server: ServerThread) -> list[MessageExt]:
    found: list[MessageExt] = []
    async with Admin(server.name_server_address) as admin:
        for start in (0, 6, 10, 12, 20):
            queue = MessageQueue("Batched", "broker-a", 0)
            found += (await admin.pull(queue, start, 3 if start == 6 else 32)).messages
    return found


def test_the_golden_pulls_are_there() -> None:
    kinds: dict[str, Any] = {pull["status"]: pull for pull in PULLS}
    assert set(kinds) == {"FOUND", "NO_MATCHED_MESSAGE", "OFFSET_OVERFLOW_BADLY"}
