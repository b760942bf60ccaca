"""Stores to read."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.client.sync import Admin, Producer
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

if TYPE_CHECKING:
    from regulus.testing.running_server import ServerThread

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST_STORE_TIME = 1_700_000_000_000

StoreMaker = Callable[..., Path]


@pytest.fixture(params=["store-4.9.8", "store-4.9.8-killed"])
def golden_store(request: pytest.FixtureRequest) -> str:
    """The name of a store directory that Apache RocketMQ wrote."""
    return str(request.param)


@pytest.fixture
def make_store(tmp_path: Path) -> StoreMaker:
    """Stores messages one second after another, in small files; the directory of the closed store.

    `times` has other times, in ms behind the first.
    """

    def make(messages: Sequence[MessageExt], times: Sequence[int] | None = None) -> Path:
        root = tmp_path / "made-store"
        store = FileMessageStore(MessageStoreConfig(
            store_path_root_dir=str(root), mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=100,
            message_index_enable=False))
        store.open(time.monotonic)
        for number, message in enumerate(messages):
            store.append(message, FIRST_STORE_TIME + (1000 * number if times is None else times[number]))
        while store.dispatch_behind_bytes():
            store.dispatch(100)
        store.close()
        return root

    return make


def order(number: int, **changes: object) -> MessageExt:
    """A message of topic `orders`; two queues by turns."""
    fields = {"topic": "orders", "body": b"body %d" % number, "queue_id": number % 2, "born_timestamp": number,
              "properties": {"UNIQ_KEY": f"C{number:031}", "TAGS": f"Tag{number % 3}"}}
    return MessageExt(**{**fields, **changes})  # type: ignore[arg-type]


def queue_ends(store: str) -> dict[tuple[str, int], int]:
    """Where the queues of a golden store end, counted in their files without the code under test."""
    ends = {}
    for directory in (GOLDEN / store / "consumequeue").glob("*/*"):
        data = b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
        units = [data[at:at + 20] for at in range(0, len(data), 20)]
        ends[directory.parent.name, int(directory.name)] = sum(unit != bytes(20) for unit in units)
    return ends


def send_orders(server: "ServerThread", numbers: Iterable[int], *, topic: str = "orders", queues: int = 2) -> None:
    """Messages as `order` makes them, by number and in batches, to a running server; returns when all can be read."""
    ordered = list(numbers)
    with Admin(server.name_server_address) as admin, Producer(server.name_server_address, "orders-app") as producer:
        admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
        wanted = {}
        for queue in (MessageQueue(topic, "broker-a", number) for number in range(queues)):
            mine = [Message(topic, b"body %d" % number, f"Tag{number % 3}", f"key-{number}") for number in ordered
                    if number % queues == queue.queue_id]
            wanted[queue] = admin.max_offset(queue) + len(mine)
            for first in range(0, len(mine), 500):
                producer.send_batch(mine[first:first + 500], queue=queue)
        until = time.monotonic() + 60
        for queue, end in wanted.items():
            while admin.max_offset(queue) < end:
                assert time.monotonic() < until
