"""One Spark session for the whole run, and stores to read."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.model.message import MessageExt
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST_STORE_TIME = 1_700_000_000_000

StoreMaker = Callable[[Sequence[MessageExt]], Path]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from regulus.spark.java import JavaPlaces, find_java
    from regulus.spark.session import local_session

    places = JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                        cache=tmp_path_factory.mktemp("java"))
    session = local_session(find_java(places), os.environ, 2, {
        "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))})
    yield session
    session.stop()


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
