"""Pops in order: which messages of each queue are out, and how long they block the queue.

A group gets nothing from a queue while a message of its last pop is neither acknowledged nor visible again. Then it
gets messages from the first unacknowledged one on, with a count of how often each was out. A pop that is repeated with
the attempt id of the last one is answered at once and not counted, because the first answer was lost.

The group's offset stays at the first unacknowledged message, so that nothing is lost if this table is. The table is
saved at intervals.

Source: ConsumerOrderInfoManager.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces

UNUSED_MS_MAX = 24 * 3_600_000
"""Time in ms after which a queue without pops is forgotten. Source: CLEAN_SPAN_FROM_LAST."""
UNUSED_LOOK_MS = 3_600_000
"""Pause in ms between two searches for such queues."""
STALE_WAKES_MAX = 1024
"""Outdated entries of the heap beyond the number of queues, after which the heap is rebuilt."""


class Counts(NamedTuple):
    """How often messages were out before: by queue offset if more than zero times, and the least of all."""

    by_offset: dict[int, int]
    least: int


class _Order:
    """The last pop of a queue. `text` is its saved form; empty if it changed since."""

    __slots__ = ("acked", "attempt_id", "counts", "invisible_ms", "last_ms", "offsets", "pop_time", "text",
                 "visible_at")

    def __init__(self, offsets: list[int], pop_time: int, invisible_ms: int, attempt_id: str | None,
                 last_ms: int) -> None:
        self.offsets = offsets
        self.pop_time = pop_time
        self.invisible_ms = invisible_ms
        self.attempt_id = attempt_id
        self.last_ms = last_ms
        self.acked = 0                          # bit i: the i-th message is acknowledged
        self.visible_at: dict[int, int] = {}    # by offset, if it is not the time of the pop
        self.counts: dict[int, int] = {}
        self.text = ""

    def is_acked(self, index: int) -> bool:
        return bool(self.acked >> index & 1)

    def visible_ms(self, offset: int) -> int:
        return self.visible_at.get(offset, self.pop_time + self.invisible_ms)

    def is_out(self, offset: int, now_ms: int) -> bool:
        return offset in self.offsets and not self.is_acked(self.offsets.index(offset)) \
            and self.visible_ms(offset) > now_ms

    def free_ms(self) -> int:
        """When the last unacknowledged message becomes visible again; 0 when all are acknowledged."""
        return max([self.visible_ms(offset) for index, offset in enumerate(self.offsets) if not self.is_acked(index)],
                   default=0)

    def next_offset(self) -> int:
        """The first unacknowledged offset, or the one after all."""
        for index, offset in enumerate(self.offsets):
            if not self.is_acked(index):
                return offset
        return self.offsets[-1] + 1


class PopOrders:
    """Pops in order by topic, group and queue.

    `changes` differs from before when the document is worth saving. `last_removal` is the number of the last change
    that removed entries with their topic or group, which may be created again.

    A slave keeps its master's document as text, for its next start as master.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.last_removal = -1
        self._table: dict[str, dict[int, _Order]] = {}      # by topic@group and queue id
        self._wakes: list[tuple[int, str, int]] = []        # a heap of times to check whether a queue is free
        self._wake_of: dict[tuple[str, int], int] = {}      # the entry of the heap that is valid
        self._looked_ms = 0
        self._followed = ""
        self.encoded = EncodedTable(self._table, _write_queues)

    def is_blocked(self, topic: str, group: str, queue_id: int, attempt_id: str | None, now_ms: int) -> bool:
        order = self._order(topic, group, queue_id)
        if order is None or (attempt_id and attempt_id == order.attempt_id):
            return False
        return now_ms < order.free_ms()

    def is_attempt_out(self, topic: str, group: str, attempt_id: str) -> bool:
        """Whether a queue returned messages for this attempt, and may return them again."""
        return any(order.attempt_id == attempt_id for order in self._table.get(f"{topic}@{group}", {}).values())

    def begin(self, topic: str, group: str, queue_id: int, offsets: list[int], attempt_id: str | None,
              invisible_ms: int, now_ms: int) -> Counts:
        """Note that these messages are out from now on."""
        before = self._order(topic, group, queue_id)
        order = _Order(offsets, now_ms, invisible_ms, attempt_id, now_ms)
        if before is not None:
            if attempt_id and attempt_id == before.attempt_id:
                order.counts = before.counts
            else:
                order.counts = {offset: before.counts.get(offset, 0) + 1 for offset in offsets
                                if offset in before.offsets}
        self._table.setdefault(f"{topic}@{group}", {})[queue_id] = order
        self._wake_at(order.free_ms(), f"{topic}@{group}", queue_id)
        self._changed(f"{topic}@{group}", order)
        return Counts(order.counts, min((order.counts.get(offset, 0) for offset in offsets), default=0))

    def ack(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, told_ms: int,
            done: int = 0) -> int | None:
        """Acknowledge a message; returns the group's new offset.

        None for a message that is not out, a receipt of another pop, or a receipt whose time of visibility is not
        `told_ms`. `done` is the offset before, which may include acks that are not known here.
        """
        order = self._order(topic, group, queue_id)
        if order is None or order.pop_time != pop_time or offset not in order.offsets \
                or order.visible_ms(offset) != told_ms:
            return None
        order.acked |= 1 << order.offsets.index(offset)
        if order.next_offset() < done:
            order.acked |= sum(1 << index for index, each in enumerate(order.offsets) if each < done)
        self._wake_at(order.free_ms(), f"{topic}@{group}", queue_id)    # it may be the message that blocked longest
        self._changed(f"{topic}@{group}", order)
        return order.next_offset()

    def change(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, told_ms: int, visible_ms: int,
               now_ms: int) -> bool:
        """Make a message visible at another time. False when it is not out until `told_ms`, the time of its receipt."""
        order = self._order(topic, group, queue_id)
        if order is None or order.pop_time != pop_time or not order.is_out(offset, now_ms) \
                or order.visible_ms(offset) != told_ms:
            return False
        order.visible_at[offset] = visible_ms
        self._wake_at(order.free_ms(), f"{topic}@{group}", queue_id)
        self._changed(f"{topic}@{group}", order)
        return True

    def give_back(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, told_ms: int,
                  now_ms: int) -> bool:
        """Make a message visible now, with one delivery less, because it reached no client. False when it is not out
        until `told_ms`, the time of its receipt."""
        order = self._order(topic, group, queue_id)
        if order is None or order.pop_time != pop_time or not order.is_out(offset, now_ms) \
                or order.visible_ms(offset) != told_ms:
            return False
        order.visible_at[offset] = now_ms
        order.counts[offset] = order.counts.get(offset, 0) - 1      # the next pop adds one
        order.attempt_id = None         # a repeated attempt counts as a new one
        self._wake_at(order.free_ms(), f"{topic}@{group}", queue_id)
        self._changed(f"{topic}@{group}", order)
        return True

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Forget the pop of a queue, because the group's offset was set."""
        if self._table.get(f"{topic}@{group}", {}).pop(queue_id, None) is not None:
            self._changed(f"{topic}@{group}")

    def remove(self, topic: str, group: str) -> None:
        """Forget the pops of a topic and group, one of which was deleted."""
        if self._table.pop(f"{topic}@{group}", None) is not None:
            self._changed(f"{topic}@{group}")
            self.last_removal = self.changes

    def take_free(self, now_ms: int) -> list[tuple[str, int]]:
        """Queues (topic, queue id) that became free since the last call."""
        free = []
        while self._wakes and self._wakes[0][0] <= now_ms:
            wake_ms, key, queue_id = heappop(self._wakes)
            if self._wake_of.get((key, queue_id)) != wake_ms:
                continue
            del self._wake_of[key, queue_id]
            order = self._table.get(key, {}).get(queue_id)
            if order is None:
                continue
            free_ms = order.free_ms()
            if free_ms > now_ms:
                self._wake_at(free_ms, key, queue_id)
            else:
                free.append((key.partition("@")[0], queue_id))
        return free

    def wait_ms(self, now_ms: int) -> int | None:
        return max(0, self._wakes[0][0] - now_ms) if self._wakes else None

    def forget_unused(self, now_ms: int) -> None:
        """At intervals, forget queues without pops for a day that have nothing out. Looks at all."""
        if 0 <= now_ms - self._looked_ms < UNUSED_LOOK_MS:
            return
        self._looked_ms = now_ms
        for key, queues in list(self._table.items()):
            for queue_id, order in list(queues.items()):
                if now_ms - order.last_ms > UNUSED_MS_MAX and order.free_ms() <= now_ms:
                    del queues[queue_id]
                    self._changed(key)
            if not queues:
                del self._table[key]

    def lower_to(self, end_of: Callable[[str, int], int]) -> None:
        """At a start: forget pops of messages that the log lacks, because it is behind the master's.

        An ack would otherwise count for a later message at the same offset. `end_of` returns, for a topic and queue id,
        the queue offset of the next message.
        """
        for key, queues in self._table.items():
            topic = key.partition("@")[0]
            for queue_id in [each for each, order in queues.items() if order.offsets[-1] >= end_of(topic, each)]:
                del queues[queue_id]
                self._changed(key)

    def _order(self, topic: str, group: str, queue_id: int) -> _Order | None:
        return self._table.get(f"{topic}@{group}", {}).get(queue_id)

    def _changed(self, key: str, order: _Order | None = None) -> None:
        if order is not None:
            order.text = ""
        self.encoded.changed[key] = None
        self.changes += 1

    def _wake_at(self, free_ms: int, key: str, queue_id: int) -> None:
        """Note when to check a queue. An earlier valid entry stays, and leads to the later one."""
        if self._wake_of.get((key, queue_id), free_ms + 1) <= free_ms:
            return
        self._wake_of[key, queue_id] = free_ms
        heappush(self._wakes, (free_ms, key, queue_id))
        if len(self._wakes) > 2 * len(self._wake_of) + STALE_WAKES_MAX:
            self._wakes = [(wake_ms, *place) for place, wake_ms in self._wake_of.items()]
            heapify(self._wakes)

    # --- document ----------------------------------------------------------------------------------------------------

    def document(self) -> Pieces:
        if self._followed:
            return [(self._followed.encode(),)]
        return encoded_table.document({"table": self.encoded})

    def follow(self, text: str) -> None:
        """Take over the document of this slave's master in place of its own entries."""
        if text == self._followed:
            return
        self._table.clear()
        self._wakes.clear()
        self._wake_of.clear()
        self.encoded.replace(self._table)
        self._followed = text
        self.changes += 1

    def load(self, text: str) -> None:
        """Take over a saved document. Raises HeaderError."""
        value = fastjson.loads(text)
        try:
            for key, queues in (value.get("table") or {}).items():
                for queue_id, fields in queues.items():
                    order = self._table.setdefault(key, {})[int(queue_id)] = _read(fields)
                    self._wake_at(order.free_ms(), key, int(queue_id))
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise HeaderError("this is not a table of pops in order") from None
        self.encoded.replace(self._table)


def _write_queues(queues: dict[int, _Order]) -> str:
    # Writes the format of fastjson, which is slower because it checks the type of each key and value.
    for order in queues.values():
        if not order.text:
            order.text = _written(order)
    return "{" + ",".join([f'\n\t\t\t"{queue_id}":{order.text}' for queue_id, order in queues.items()]) + "\n\t\t}"


def _written(order: _Order) -> str:
    """A pop with RocketMQ's field names; offsets after the first are differences to it."""
    first = order.offsets[0]
    offsets = ",".join([str(first), *[str(offset - first) for offset in order.offsets[1:]]])
    text = (f'{{"popTime":{order.pop_time},"i":{order.invisible_ms},"o":[{offsets}],"l":{order.last_ms},'
            f'"cm":{order.acked}')
    if order.attempt_id:
        text += f',"a":{fastjson.quote(order.attempt_id)}'
    if order.visible_at:
        text += f',"ot":{_numbers(order.visible_at)}'
    if order.counts:
        text += f',"oc":{_numbers(order.counts)}'
    return text + "}"


def _numbers(by_offset: dict[int, int]) -> str:
    return "{" + ",".join([f'"{offset}":{number}' for offset, number in by_offset.items()]) + "}"


def _read(fields: dict[str, Any]) -> _Order:
    first, *differences = [int(each) for each in fields["o"]]
    if first < 0 or any(each <= before for before, each in pairwise([0, *differences])):
        raise ValueError("no offsets in their order")
    order = _Order([first, *(first + each for each in differences)], int(fields["popTime"]), int(fields.get("i") or 0),
                   str(fields.get("a") or ""), int(fields.get("l") or 0))
    order.acked = int(fields.get("cm") or 0)
    order.visible_at = {int(offset): int(time) for offset, time in (fields.get("ot") or {}).items()}
    order.counts = {int(offset): int(count) for offset, count in (fields.get("oc") or {}).items()}
    return order
