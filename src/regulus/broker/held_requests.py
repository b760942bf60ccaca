"""Requests that wait for a message: long polling.

A request waits at one place or at several: a queue from an offset on, or, with ANY_QUEUE, a whole topic. It is woken by
an arrival there whose tag it wants, or by its deadline; either way it is run once more and then answered. When its
connection closes it is forgotten.

At each place those who wait stand in a line for each tag that they want, in the order of their offsets, so that an
arrival touches only those that it wakes. Whoever leaves is not looked for in lines: each line knows how many of its
entries still wait, and is swept when most of them do not. What an arrival wakes stands `ready` until it is taken, a few
at a time, because to run a request costs as much as a pull.

Source: PullRequestHoldService, ManyPullRequest.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from regulus.model.message_filter import Filter
from regulus.model.store_result import Arrival
from regulus.wire.remoting_command import RemotingCommand

HELD_REQUESTS_MAX = 100_000
"""One more is answered SYSTEM_BUSY at once, after which clients wait before they pull again."""
HOLD_MS_MAX = 300_000
"""A client cannot make us keep its request longer than this."""
FORGOTTEN_MAX = 1024
"""Requests that were woken stay on the list of deadlines until they are this many more than those that wait."""
SWEPT_MIN = 16
"""Entries of a line that wait no more, beside as many as still wait, before it is swept."""
LINES_MAX = 64
"""Lines in which one request stands at a place; one that wants more tags than that is woken by any message."""
EXPIRED_MAX = 1024
"""Requests that expire in one step; for the others the next one is due at once."""

ANY_QUEUE = -1


class Place(NamedTuple):
    """Messages of `queue_id` from `queue_offset` on, or with ANY_QUEUE all of the topic."""

    topic: str
    queue_id: int
    queue_offset: int = 0


class HeldRequest:
    """Waits on `channel` for a message at one of `places` whose tag `message_filter` takes.

    `resume(now_ms)` runs the request once more and gives its answer.
    """

    __slots__ = ("_resume", "channel", "deadline_ms", "is_gone", "lines", "message_filter", "places")

    def __init__(self, channel: int, places: tuple[Place, ...], message_filter: Filter, deadline_ms: int,
                 resume: Callable[[int], RemotingCommand]) -> None:
        self.channel = channel
        self.places = places
        self.message_filter = message_filter
        self.deadline_ms = deadline_ms
        self._resume: Callable[[int], RemotingCommand] | None = resume
        self.is_gone = False
        self.lines: list[_Line] = []

    def answer(self, now_ms: int) -> RemotingCommand:
        """To be asked for once, when the request was taken."""
        resume = self._resume
        assert resume is not None
        self.forget()
        return resume(now_ms)

    def forget(self) -> None:
        """Let go of the request itself: lines are swept later, and many large things would be freed at once then."""
        self._resume = None


_Entry = tuple[int, int, HeldRequest]


class _Line:
    """Those who wait at one place for one tag; `tag` None: for any. Entries are a heap by queue offset."""

    __slots__ = ("entries", "key", "offset_max", "tag", "waiting")

    def __init__(self, key: tuple[str, int], tag: int | None) -> None:
        self.key = key
        self.tag = tag
        self.entries: list[_Entry] = []
        self.offset_max = 0
        self.waiting = 0

    def add(self, entry: _Entry) -> None:
        heappush(self.entries, entry)
        self.offset_max = max(self.offset_max, entry[0])
        self.waiting += 1

    def take(self, queue_offset: int) -> list[_Entry]:
        """Take out the entries of those that a message at this offset wakes."""
        if queue_offset >= self.offset_max:
            taken, self.entries = self.entries, []
            return taken
        taken = []
        while self.entries and self.entries[0][0] <= queue_offset:
            taken.append(heappop(self.entries))
        return taken

    def sweep(self) -> None:
        if len(self.entries) > 2 * self.waiting + SWEPT_MIN:
            self.entries = [entry for entry in self.entries if not entry[2].is_gone]
            heapify(self.entries)


class HeldRequests:
    def __init__(self, count_max: int = HELD_REQUESTS_MAX) -> None:
        self.count_max = count_max
        self._count = 0
        self._places: dict[tuple[str, int], dict[int | None, _Line]] = {}
        self._topics = 0
        """How many of the places are whole topics."""
        self._ready: deque[list[_Entry]] = deque()
        self._channels: dict[int, set[HeldRequest]] = {}
        self._deadlines: list[_Entry] = []
        self._sequence = 0

    def __len__(self) -> int:
        """Those that were not taken yet, woken or not."""
        return self._count

    @property
    def queues(self) -> Container[tuple[str, int]]:
        """The queues (topic, queue id) in which somebody waits."""
        return self._places if not self._topics else _WithTopics(self._places)

    @property
    def has_ready(self) -> bool:
        """Whether some were woken and not taken yet."""
        return bool(self._ready)

    @property
    def is_full(self) -> bool:
        return self._count >= self.count_max

    def hold(self, held: HeldRequest) -> None:
        self._sequence += 1
        codes = held.message_filter.tags_codes
        tags = (None,) if codes is None or len(codes) > LINES_MAX else codes
        for place in held.places:
            for tag in tags:
                line = self._line(place[:2], tag)
                line.add((place.queue_offset, self._sequence, held))
                held.lines.append(line)
        self._channels.setdefault(held.channel, set()).add(held)
        heappush(self._deadlines, (held.deadline_ms, self._sequence, held))
        self._count += 1
        if len(self._deadlines) > 2 * self._count + FORGOTTEN_MAX:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_gone]
            heapify(self._deadlines)

    def wake(self, arrivals: Sequence[Arrival]) -> None:
        """The requests that these arrivals wake are ready."""
        if not self._places:
            return
        for arrival in arrivals:
            self._wake_at((arrival.topic, arrival.queue_id), arrival)
            if self._topics:
                self._wake_at((arrival.topic, ANY_QUEUE), arrival)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """The same of all requests that wait in a queue, whatever they wait for."""
        for line in list(self._places.get((topic, queue_id), {}).values()):
            self._make_ready(line, line.offset_max)

    def wake_expired(self, now_ms: int) -> None:
        """The same of requests whose time is up, EXPIRED_MAX at the most."""
        expired: list[_Entry] = []
        while self._deadlines and len(expired) < EXPIRED_MAX and (
                self._deadlines[0][2].is_gone or self._deadlines[0][0] <= now_ms):
            entry = heappop(self._deadlines)
            if not entry[2].is_gone:
                expired.append(entry)
        if expired:
            self._ready.append(expired)

    def take_ready(self, count_max: int) -> list[HeldRequest]:
        """Take out up to `count_max` of those that are ready, each once, in the order in which they became it."""
        taken: list[HeldRequest] = []
        while self._ready and len(taken) < count_max:
            entries = self._ready[0]
            if not entries:
                self._ready.popleft()
                continue
            held = entries.pop()[2]
            if not held.is_gone:
                self._leave(held)
                taken.append(held)
        return taken

    def drop_channel(self, channel: int) -> None:
        """Forget the requests of a closed connection."""
        for held in list(self._channels.get(channel, ())):
            self._leave(held)
            held.forget()

    def wait_ms(self, now_ms: int) -> int | None:
        """Ms until the next deadline, 0 while some are ready; None when nothing is held."""
        if self._ready:
            return 0
        while self._deadlines and self._deadlines[0][2].is_gone:
            heappop(self._deadlines)
        return max(0, self._deadlines[0][0] - now_ms) if self._deadlines else None

    def _line(self, key: tuple[str, int], tag: int | None) -> _Line:
        lines = self._places.get(key)
        if lines is None:
            lines = self._places[key] = {}
            self._topics += key[1] == ANY_QUEUE
        line = lines.get(tag)
        if line is None:
            line = lines[tag] = _Line(key, tag)
        return line

    def _wake_at(self, key: tuple[str, int], arrival: Arrival) -> None:
        lines = self._places.get(key)
        if lines is None:
            return
        for tag in (None, arrival.tags_code):
            line = lines.get(tag)
            if line is not None:
                self._make_ready(line, arrival.queue_offset)

    def _make_ready(self, line: _Line, queue_offset: int) -> None:
        taken = line.take(queue_offset)
        if taken:
            # They are taken from the end, and the first in line come first.
            taken.reverse()
            self._ready.append(taken)
            if not line.entries:
                self._remove(line)

    def _leave(self, held: HeldRequest) -> None:
        held.is_gone = True
        self._count -= 1
        channel = self._channels[held.channel]
        channel.discard(held)
        if not channel:
            del self._channels[held.channel]
        for line in held.lines:
            line.waiting -= 1
            if not line.waiting:
                self._remove(line)
            else:
                line.sweep()
        held.lines.clear()

    def _remove(self, line: _Line) -> None:
        """Nobody waits in the line any more."""
        lines = self._places.get(line.key)
        if lines is None or lines.get(line.tag) is not line:
            return
        del lines[line.tag]
        if not lines:
            del self._places[line.key]
            self._topics -= line.key[1] == ANY_QUEUE


class _WithTopics:
    """The queues in which somebody waits, those of whole topics among them."""

    def __init__(self, places: Container[tuple[str, int]]) -> None:
        self._places = places

    def __contains__(self, queue: object) -> bool:
        return queue in self._places or (isinstance(queue, tuple) and (queue[0], ANY_QUEUE) in self._places)
