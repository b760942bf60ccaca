"""Stores to read."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from regulus.model.message import MessageExt
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST_STORE_TIME = 1_700_000_000_000

StoreMaker = Callable[[Sequence[MessageExt]], Path]


@pytest.fixture(params=["store-4.9.8", "store-4.9.8-killed"])
def golden_store(request: pytest.FixtureRequest) -> str:
    """The name of a store directory that Apache RocketMQ wrote."""
    return str(request.param)


@pytest.fixture
def make_store(tmp_path: Path) -> StoreMaker:
    """Stores messages one second after another, in small files; the directory of the closed store."""

    def make(messages: Sequence[MessageExt]) -> Path:
        root = tmp_path / "store"
        store = FileMessageStore(MessageStoreConfig(
            store_path_root_dir=str(root), mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=100,
            message_index_enable=False))
        store.open(time.monotonic)
        for number, message in enumerate(messages):
            store.append(message, FIRST_STORE_TIME + 1000 * number)
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
