"""Pulls that wait for a message: long polling.

A held pull is woken by an arrival in its queue at or behind its offset whose tag it wants, or by its deadline; either
way it is run once more and then answered. When its connection closes it is forgotten.

Source: PullRequestHoldService, ManyPullRequest.
"""

from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush

from regulus.broker.message_filter import is_wanted
from regulus.model.store_result import Arrival
from regulus.wire.remoting_command import RemotingCommand

HELD_REQUESTS_MAX = 100_000
"""One more is answered SYSTEM_BUSY at once, after which clients wait before they pull again."""
HOLD_MS_MAX = 300_000
"""A client cannot make us keep its request longer than this."""
FORGOTTEN_MAX = 1024
"""Requests that were woken stay on the list of deadlines until they are this many more than those that wait."""


class HeldRequest:
    """Waits on `channel` for a message of (topic, queue_id) from `queue_offset` on; `tags_codes` None wants every one.

    `resume(now_ms)` runs the request once more and gives its answer.
    """

    __slots__ = ("channel", "deadline_ms", "is_gone", "queue_id", "queue_offset", "resume", "tags_codes", "topic")

    def __init__(self, channel: int, topic: str, queue_id: int, queue_offset: int, tags_codes: frozenset[int] | None,
                 deadline_ms: int, resume: Callable[[int], RemotingCommand]) -> None:
        self.channel = channel
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.tags_codes = tags_codes
        self.deadline_ms = deadline_ms
        self.resume = resume
        self.is_gone = False


class HeldRequests:
    def __init__(self, count_max: int = HELD_REQUESTS_MAX) -> None:
        self.count_max = count_max
        self._count = 0
        self._queues: dict[tuple[str, int], list[HeldRequest]] = {}
        self._channels: dict[int, set[HeldRequest]] = {}
        self._deadlines: list[tuple[int, int, HeldRequest]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return self._count

    @property
    def queues(self) -> Container[tuple[str, int]]:
        """The queues (topic, queue id) in which somebody waits."""
        return self._queues

    @property
    def is_full(self) -> bool:
        return self._count >= self.count_max

    def hold(self, held: HeldRequest) -> None:
        key = (held.topic, held.queue_id)
        self._queues.setdefault(key, []).append(held)
        self._channels.setdefault(held.channel, set()).add(held)
        self._sequence += 1
        heappush(self._deadlines, (held.deadline_ms, self._sequence, held))
        self._count += 1
        if len(self._deadlines) > 2 * self._count + FORGOTTEN_MAX:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_gone]
            heapify(self._deadlines)

    def woken(self, arrivals: Sequence[Arrival]) -> list[HeldRequest]:
        """Take out the requests that these arrivals wake."""
        if not self._queues:
            return []
        woken: list[HeldRequest] = []
        for arrival in arrivals:
            waiting = self._queues.get((arrival.topic, arrival.queue_id))
            if waiting is None:
                continue
            for held in waiting:
                if arrival.queue_offset >= held.queue_offset and is_wanted(arrival.tags_code, held.tags_codes):
                    held.is_gone = True
                    woken.append(held)
            self._sweep((arrival.topic, arrival.queue_id))
        return woken

    def take_queue(self, topic: str, queue_id: int) -> list[HeldRequest]:
        """Take out all requests that wait in a queue, whatever they wait for."""
        taken = self._queues.get((topic, queue_id), [])
        for held in taken:
            held.is_gone = True
        if taken:
            self._sweep((topic, queue_id))
        return taken

    def expired(self, now_ms: int) -> list[HeldRequest]:
        """Take out the requests whose time is up."""
        expired = []
        while self._deadlines and (self._deadlines[0][2].is_gone or self._deadlines[0][0] <= now_ms):
            held = heappop(self._deadlines)[2]
            if not held.is_gone:
                held.is_gone = True
                expired.append(held)
        for key in {(held.topic, held.queue_id) for held in expired}:
            self._sweep(key)
        return expired

    def drop_channel(self, channel: int) -> None:
        """Forget the requests of a closed connection."""
        dropped = list(self._channels.get(channel, ()))
        for held in dropped:
            held.is_gone = True
        for key in {(held.topic, held.queue_id) for held in dropped}:
            self._sweep(key)

    def wait_ms(self, now_ms: int) -> int | None:
        """Ms until the next deadline; None when nothing is held."""
        while self._deadlines and self._deadlines[0][2].is_gone:
            heappop(self._deadlines)
        return max(0, self._deadlines[0][0] - now_ms) if self._deadlines else None

    def _sweep(self, key: tuple[str, int]) -> None:
        """Take the requests that are gone out of a queue."""
        kept = []
        for held in self._queues[key]:
            if not held.is_gone:
                kept.append(held)
                continue
            self._count -= 1
            channel = self._channels[held.channel]
            channel.discard(held)
            if not channel:
                del self._channels[held.channel]
        if kept:
            self._queues[key] = kept
        else:
            del self._queues[key]
