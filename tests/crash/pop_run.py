"""A broker whose messages are popped, acknowledged and brought back, on a store of files, by a virtual clock: up to its
end, or to the point at which it kills itself.

    python -m tests.crash.pop_run ROOT POINT TIMES

tells on its standard output what clients were answered, a line each: `popped BODY MS VISIBLE_MS`, `asks BODY` and
`acked BODY MS`, `changed BODY MS VISIBLE_MS`, what the time is, `at MS`, and last the points that it passed.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.stores import small_config
from tests.unit.broker.pop_rig import NOW, PRECISION, Rig

from regulus.broker.config import BrokerConfig
from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.pop.flights import PopFlights
from regulus.broker.pop.revival import PopRevival
from regulus.broker.state import CONSUMER_OFFSET_DOCUMENT, POP_PLACES_DOCUMENT
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import ReceiptHandle
from regulus.record.pop_record import REVIVE_GROUP
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.encoded_table import joined

SAVE_MS = 1_000
"""Between two savings of documents, each with one of the store's own."""
INVISIBLE_MS = 8_000
END_MS = 25_000


class PassedStore(FileMessageStore):
    """The store itself takes no other functions where it is compiled."""

    def save_config(self, *arguments: Any) -> Any:
        return super().save_config(*arguments)


POINTS = {
    "before the checkpoint": (PopFlights, "put"),
    "after the checkpoint": (PopFlights, "put"),
    "before the record of acks": (PopFlights, "_write"),
    "after the record of acks": (PopFlights, "_write"),
    "before a pop ends": (PopFlights, "_end"),
    "after a pop ends": (PopFlights, "_end"),
    "before the old receipt ends": (PopFlights, "end_receipt"),
    "before a message is revived": (PopRevival, "_revive"),
    "after a message is revived": (PopRevival, "_revive"),
    "before a checkpoint is done": (ConsumerOffsets, "commit"),
    "after a checkpoint is done": (ConsumerOffsets, "commit"),
    "before the offsets are saved": (PassedStore, "save_config"),
    "after the offsets are saved": (PassedStore, "save_config"),
    "before the place is saved": (PassedStore, "save_config"),
    "after the place is saved": (PassedStore, "save_config"),
}
"""Where a run may be killed, and the function that it is before or behind."""

_FIRST_ARGUMENTS = {"a checkpoint is done": REVIVE_GROUP, "the offsets are saved": CONSUMER_OFFSET_DOCUMENT,
                    "the place is saved": POP_PLACES_DOCUMENT}


class Killer:
    """Counts how often a point is passed, and ends the process there for the `times`-th time."""

    def __init__(self, point: str, times: int) -> None:
        self.passed: dict[str, int] = {}
        self._point = point
        self._times = times
        for owner, name in {*POINTS.values()}:
            setattr(owner, name, self._wrapped(getattr(owner, name), [each for each, door in POINTS.items()
                                                                      if door == (owner, name)]))

    def _wrapped(self, own: Callable[..., Any], points: list[str]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            here = [point for point in points
                    if _FIRST_ARGUMENTS.get(point.partition(" ")[2], arguments[1]) == arguments[1]]
            for point in here:
                if point.startswith("before"):
                    self._pass(point)
            result = own(*arguments, **named)
            for point in here:
                if point.startswith("after"):
                    self._pass(point)
            return result
        return wrapped

    def _pass(self, point: str) -> None:
        self.passed[point] = self.passed.get(point, 0) + 1
        if point == self._point and self.passed[point] == self._times:
            os.kill(os.getpid(), signal.SIGKILL)


class FileRig(Rig):
    """The same on files: what was saved there is loaded, and saved now and then."""

    def __init__(self, root: Path, now_ms: int) -> None:
        config = BrokerConfig(timer_precision_ms=PRECISION)
        store = PassedStore(small_config(root, mapped_file_size_commit_log=1 << 20, max_index_num=1_000,
                                              mapped_file_size_timer_log=1 << 16), config)
        store.open()
        super().__init__(store, now_ms, before_open=self._load)
        self._saved_ms = now_ms
        self._changes: dict[str, int] = {}

    def _load(self) -> None:
        names = [kept.name for kept in self.broker.kept_parts]
        found = {name: self.store.load_config(name) for name in names}
        self.broker.load_documents({name: text for name, text in found.items() if text is not None})
        self.broker.lower_offsets(self.now_ms)

    def tick(self, now_ms: int) -> None:
        tell("at", now_ms)
        self.run_to(now_ms)
        if self.now_ms >= self._saved_ms + SAVE_MS:
            self._saved_ms = self.now_ms
            self.save()

    def save(self) -> None:
        self.store.flush_commit_log()
        for kept in self.broker.kept_parts:
            if self._changes.get(kept.name) != kept.part.changes:
                self._changes[kept.name] = kept.part.changes
                self.store.save_config(kept.name, joined(kept.part.document()))
        self.store.flush_consume_queues(0)
        self.store.flush_checkpoint()
        flush = self.store.begin_timers()
        if flush is not None:
            flush()
            self.store.timers.end_flush(is_done=True)


def tell(*words: object) -> None:
    print(*words, flush=True)


def popped(rig: Rig, count: int) -> list[tuple[MessageExt, ReceiptHandle]]:
    found = rig.pop(count=count, invisible=INVISIBLE_MS)
    for message, _ in found:
        tell("popped", message.body.decode(), rig.now_ms, rig.now_ms + INVISIBLE_MS)
    return found


def acked(rig: Rig, *handles: tuple[MessageExt, ReceiptHandle]) -> None:
    for message, handle in handles:
        tell("asks", message.body.decode())
        if rig.ack(handle).code == 0:
            tell("acked", message.body.decode(), rig.now_ms)


def changed(rig: Rig, message: MessageExt, handle: ReceiptHandle, invisible_ms: int) -> None:
    if rig.change(handle, invisible_ms).code == 0:
        tell("changed", message.body.decode(), rig.now_ms, rig.now_ms + invisible_ms)


def scenes(rig: Rig) -> Iterator[int]:
    """What clients do, and how many ms they rest then."""
    rig.send(*"abcdefghij")
    rig.send("k", queue_id=1)
    first = popped(rig, 3)
    acked(rig, first[0])
    yield 2_000
    second = popped(rig, 2)
    acked(rig, *second)
    third = popped(rig, 2)
    yield 1_000
    changed(rig, *third[0], 12_000)
    acked(rig, third[1])
    yield 500
    popped(rig, 1)
    yield 6_000
    again = popped(rig, 2)
    acked(rig, *again[:1])
    yield 4_000


def main(root: Path, point: str, times: int) -> None:
    rig = FileRig(root, NOW)
    rig.save()
    killer = Killer(point, times)
    for rest_ms in scenes(rig):
        until = rig.now_ms + rest_ms
        while rig.now_ms < until:
            rig.tick(min(rig.now_ms + 100, until))
    while rig.now_ms < NOW + END_MS:
        rig.tick(rig.now_ms + 100)
    for name, count in killer.passed.items():
        tell("passed", count, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
