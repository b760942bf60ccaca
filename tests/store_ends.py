"""Ends of a store's files that disagree: each damage alone, done to a store that its broker closed."""

import json
import shutil
from pathlib import Path
from typing import Any

from regulus.record import store_checkpoint
from regulus.spark.store.files import StoreFiles

TOPIC = "orders"
DAMAGES = ("cut log", "zeroed tail", "queue folder gone", "half unit", "last unit gone", "rotten last record")
"""Those by which messages are lost that some file still knows of."""


def name_topics(root: Path, *topics: str) -> None:
    """As a broker keeps them, so that the topics count as not deleted."""
    (root / "config").mkdir(exist_ok=True)
    table = {topic: {"topicName": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for topic in topics}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def as_of_rocketmq(root: Path) -> None:
    """Without what Regulus alone keeps."""
    for path in [*root.glob("regulus*"), *(root / "config").glob("regulus*")]:
        path.unlink()


def places(root: Path) -> dict[int, list[int]]:
    """Where the records of each queue lie."""
    store = StoreFiles(str(root))
    return {queue.queue_id: [queue.unit(offset).physical_offset for offset in range(*queue.bounds(store.log))]
            for queue in store.queues(TOPIC)}


def damage(root: Path, kind: str, messages: int) -> int:
    """Do it; how many of the messages of two queues, which were sent by turns, cannot be read any more."""
    by_queue = places(root)
    if kind in ("cut log", "zeroed tail"):
        place = by_queue[0][len(by_queue[0]) // 2]
        _cut(root, place, is_zeroed=kind == "zeroed tail")
        return sum(at >= place for of_queue in by_queue.values() for at in of_queue)
    if kind == "queue folder gone":
        shutil.rmtree(root / "consumequeue" / TOPIC / "1")
        return len(by_queue[1])
    if kind == "half unit":
        last = max((root / "consumequeue" / TOPIC / "1").iterdir())
        first = int(last.name) // 20
        kept = (len(by_queue[1]) - first) // 2
        with last.open("r+b") as file:
            file.truncate(kept * 20 + 10)
        return len(by_queue[1]) - first - kept
    if kind == "last unit gone":
        last = max((root / "consumequeue" / TOPIC / "1").iterdir())
        with last.open("r+b") as file:
            file.truncate((len(by_queue[1]) - 1) * 20 - int(last.name))
        return 1
    assert kind == "rotten last record"
    write(root, by_queue[0][-1] + 4, b"\xff\xff\xff\xff")
    return 1


def checkpoint_ahead(root: Path, timestamp: int) -> None:
    path = root / "checkpoint"
    found = store_checkpoint.decode(path.read_bytes())
    path.write_bytes(store_checkpoint.encode(found._replace(physic_msg_timestamp=timestamp)))


def read_counts(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Of rows of `message_type` and `properties`: messages, and those that gaps stand for."""
    gaps = [row for row in rows if row["message_type"] == "gap"]
    lost = sum(int(dict(row["properties"])["GAP_END"]) - row["queue_offset"] for row in gaps)
    return len(rows) - len(gaps), lost


def _cut(root: Path, place: int, *, is_zeroed: bool) -> None:
    for path in sorted((root / "commitlog").iterdir()):
        start, size = int(path.name), path.stat().st_size
        if start + size <= place:
            continue
        if start > place:
            path.unlink()
            continue
        with path.open("r+b") as file:
            file.truncate(place - start)
            if is_zeroed:
                file.truncate(size)


def write(root: Path, place: int, data: bytes) -> None:
    path = max(path for path in (root / "commitlog").iterdir() if int(path.name) <= place)
    with path.open("r+b") as file:
        file.seek(place - int(path.name))
        file.write(data)
