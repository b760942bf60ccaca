"""Remembers which pops found nothing in this step, so that equal waiting pops are not run.

A message wakes all pops that wait for its topic, but only one of them gets it. Without this, one message would cost as
many reads as there are consumers times queues.
"""

from typing import NamedTuple

from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.pop.orders import PopOrders


class Wanted(NamedTuple):
    """What a pop looks for, whichever client sends it."""

    topic: str
    group: str
    queue_id: int
    exp: str | None
    exp_type: str | None
    order: bool
    init_mode: int


class EmptyPops:
    """Empty pops of one step. In a step nothing becomes visible and no time passes; only offsets and pops in order
    change."""

    def __init__(self, offsets: ConsumerOffsets, orders: PopOrders) -> None:
        self._offsets = offsets
        self._orders = orders
        self._seen: dict[Wanted, tuple[int, int]] = {}

    def begin_step(self) -> None:
        self._seen.clear()

    def note(self, wanted: Wanted) -> None:
        """Note that a pop read all queues up to their ends and found nothing."""
        self._seen[wanted] = self._state()

    def is_vain(self, wanted: Wanted, attempt_id: str | None) -> bool:
        """Whether the pop would find nothing. A repeated attempt still gets its messages that are out."""
        if self._seen.get(wanted) != self._state():
            return False
        return not (wanted.order and attempt_id
                    and self._orders.is_attempt_out(wanted.topic, wanted.group, attempt_id))

    def _state(self) -> tuple[int, int]:
        return self._offsets.changes, self._orders.changes
