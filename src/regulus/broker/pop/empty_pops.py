"""What pops that wait did not find in this step: nobody of the same group, topic and condition finds it either.

A message wakes all who wait for its topic, and is for one of them. Were each queue looked at for each of those, one
message would cost as many looks as there are consumers times queues.
"""

from typing import NamedTuple

from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.pop.orders import PopOrders


class Wanted(NamedTuple):
    """What a pop looks for, whoever sends it."""

    topic: str
    group: str
    queue_id: int
    exp: str | None
    exp_type: str | None
    order: bool
    init_mode: int


class EmptyPops:
    """A step is one in which nothing becomes visible and no time passes: only offsets move, and what is out in order.
    """

    def __init__(self, offsets: ConsumerOffsets, orders: PopOrders) -> None:
        self._offsets = offsets
        self._orders = orders
        self._seen: dict[Wanted, tuple[int, int]] = {}

    def begin_step(self) -> None:
        self._seen.clear()

    def note(self, wanted: Wanted) -> None:
        """It was looked for, in all queues up to their ends, and is not there."""
        self._seen[wanted] = self._state()

    def is_vain(self, wanted: Wanted, attempt_id: str | None) -> bool:
        """Whether to look for it finds nothing. One who repeats an attempt gets what is out by that."""
        if self._seen.get(wanted) != self._state():
            return False
        return not (wanted.order and attempt_id
                    and self._orders.is_attempt_out(wanted.topic, wanted.group, attempt_id))

    def _state(self) -> tuple[int, int]:
        return self._offsets.changes, self._orders.changes
