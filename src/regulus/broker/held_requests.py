"""Long polling: requests that wait for a message.

A request waits at one or several places. A place is a queue from an offset on or, with ANY_QUEUE, a whole topic. The
request is woken by the arrival of a message with a matching tag, or by its deadline. It then runs again, and is
answered or held from the next offset on. It is dropped when its connection closes.

Each place has a line per tag, in the order of offsets, so that an arrival touches only the requests that it wakes. A
request that leaves is found in its line by binary search. Woken requests are `ready` until they are taken, a few at a
time, because each costs as much as a pull.

Source: PullRequestHoldService, ManyPullRequest.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Collection, Container, Sequence
from typing import NamedTuple

from regulus.broker.outcome import Unsent
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.model.store_result import Arrival
from regulus.wire.remoting_command import RemotingCommand

HELD_REQUESTS_MAX = 100_000
"""Beyond this a request is answered SYSTEM_BUSY at once; clients pause before they pull again."""
HOLD_MS_MAX = 300_000
"""Longest that a request is held, in ms, whatever the client asks for."""
LINES_MAX = 64
"""Lines that one request joins per place. A request for more tags joins the line for any message instead."""
BLOCK_SIZE_MAX = 1024
"""Entries in one block of a line or of the deadlines."""

ANY_QUEUE = -1


class HeldPlace(NamedTuple):
    """Messages of `queue_id` from `queue_offset` on or, with ANY_QUEUE, all messages of the topic."""

    topic: str
    queue_id: int
    queue_offset: int = 0


class HeldRequest:
    """A request that waits at `places` for a message that `message_filter` accepts. `peer` is the client, with its
    user.

    `deadline_ms` is a time of the steady clock. `resume(now_ms)` runs the request again and returns its answer, or None
    when it found nothing and is held again. `opaque` is the request's id if the client may withdraw it; `unsent` is
    called if the answer cannot be delivered. `since_ms` is the steady time of its arrival.
    """

    __slots__ = ("_resume", "channel", "deadline_ms", "is_gone", "lines", "message_filter", "opaque", "peer", "places",
                 "request", "sequence", "since_ms", "unsent")

    def __init__(self, request: RemotingCommand, peer: Peer, places: tuple[HeldPlace, ...], message_filter: Filter,
                 deadline_ms: int, resume: Callable[[int], RemotingCommand | None], opaque: int | None = None,
                 unsent: Unsent | None = None, since_ms: int = 0) -> None:
        self.request = request
        self.peer = peer
        self.channel = peer.channel
        self.opaque = opaque
        self.unsent = unsent
        self.since_ms = since_ms
        self.places = places
        self.message_filter = message_filter
        self.deadline_ms = deadline_ms
        self._resume: Callable[[int], RemotingCommand | None] | None = resume
        self.is_gone = False
        self.lines: list[tuple[_Line, int]] = []    # each with the offset in that line
        self.sequence = 0                           # of all requests that were held

    def answer(self, now_ms: int) -> RemotingCommand | None:
        """Run the request again; call once, after it was taken. None when it is held again, as another HeldRequest."""
        resume = self._resume
        assert resume is not None
        self.forget()
        return resume(now_ms)

    def forget(self) -> None:
        """Drop the request itself early. Ready entries stay in their lists until they are taken, and large requests
        would all be freed at once then."""
        self._resume = None
        self.unsent = None
        del self.request


_Entry = tuple[int, int, HeldRequest]
"""Entry of an ordered list: an offset or a deadline, the sequence number, and the request."""


class _Ordered:
    """Entries in order, in blocks, so that adding or removing one moves only a few others."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: list[list[_Entry]] = []

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def add(self, entry: _Entry) -> None:
        blocks = self.blocks
        if not blocks:
            blocks.append([entry])
            return
        index = min(self._block_of(entry[:2]), len(blocks) - 1)
        block = blocks[index]
        insort(block, entry)
        if len(block) > BLOCK_SIZE_MAX:
            half = len(block) // 2
            blocks[index:index + 1] = [block[:half], block[half:]]

    def take_out(self, order: tuple[int, int]) -> None:
        """Remove an entry. Does nothing if it was woken here and is removed already."""
        index = self._block_of(order)
        if index == len(self.blocks):
            return
        block = self.blocks[index]
        position = bisect_left(block, order)
        if block[position][:2] == order:
            del block[position]
            if not block:
                del self.blocks[index]

    def take_up_to(self, number: int) -> list[_Entry]:
        """Remove and return all entries with at most this offset or deadline."""
        blocks = self.blocks
        first_left = (number + 1, 0)
        whole = self._block_of(first_left)
        taken = [entry for block in blocks[:whole] for entry in block]
        if whole < len(blocks):
            position = bisect_left(blocks[whole], first_left)
            taken += blocks[whole][:position]
            del blocks[whole][:position]
        del blocks[:whole]
        return taken

    def _block_of(self, order: tuple[int, int]) -> int:
        """Index of the first block that ends at or after `order`."""
        return bisect_left(self.blocks, order, key=_last)


def _last(block: list[_Entry]) -> tuple[int, int]:
    return block[-1][:2]


class _Line(_Ordered):
    """Requests that wait at one place for one tag, in the order of their offsets. `tag` None: for any tag."""

    __slots__ = ("key", "tag")

    def __init__(self, key: tuple[str, int], tag: int | None) -> None:
        super().__init__()
        self.key = key
        self.tag = tag


class HeldRequests:
    def __init__(self, count_max: int = HELD_REQUESTS_MAX) -> None:
        self.count_max = count_max
        self._count = 0
        self._places: dict[tuple[str, int], dict[int | None, _Line]] = {}
        self._topics = 0
        """Number of places that are whole topics."""
        self._ready: deque[list[_Entry]] = deque()
        self._channels: dict[int, dict[HeldRequest, None]] = {}
        self._by_opaque: dict[tuple[int, int], HeldRequest] = {}
        self._deadlines = _Ordered()
        self._sequence = 0
        self.looked = 0
        """Cost of the requests that ran again, as GetResult counts it. The caller that runs them resets it."""

    def __len__(self) -> int:
        """Number of requests that were not taken yet, woken or not."""
        return self._count

    @property
    def queues(self) -> Container[tuple[str, int]]:
        """The queues (topic, queue id) in which a request waits."""
        return self._places if not self._topics else _WithTopics(self._places)

    @property
    def has_ready(self) -> bool:
        """Whether some requests were woken and not taken yet."""
        return bool(self._ready)

    @property
    def sequence(self) -> int:
        """Sequence number of the last request that was held."""
        return self._sequence

    def all(self) -> list[HeldRequest]:
        """Requests that were not taken yet, woken or not, grouped by connection."""
        return [held for channel in self._channels.values() for held in channel]

    @property
    def is_full(self) -> bool:
        return self._count >= self.count_max

    def waiting(self, topic: str, queue_id: int) -> int:
        """Number of requests that wait in a queue, or for the whole topic."""
        return sum(map(len, self._places.get((topic, queue_id), {}).values()))

    def hold(self, held: HeldRequest, is_ready: bool = False) -> None:
        """Hold a request. With `is_ready` it waits only for its turn, because there is more for it already."""
        self._sequence += 1
        held.sequence = self._sequence
        if is_ready:
            self._ready.append([(0, held.sequence, held)])
        else:
            self._stand_in_lines(held)
        self._channels.setdefault(held.channel, {})[held] = None
        if held.opaque is not None:
            self._by_opaque[held.channel, held.opaque] = held
        self._deadlines.add((held.deadline_ms, held.sequence, held))
        self._count += 1

    def _stand_in_lines(self, held: HeldRequest) -> None:
        codes = held.message_filter.tags_codes
        tags = (None,) if codes is None or len(codes) > LINES_MAX else codes
        for place in held.places:
            for tag in tags:
                line = self._line(place[:2], tag)
                line.add((place.queue_offset, held.sequence, held))
                held.lines.append((line, place.queue_offset))

    def wake(self, arrivals: Sequence[Arrival]) -> None:
        """Make the requests ready that these arrivals wake."""
        if not self._places:
            return
        for arrival in arrivals:
            self._wake_at((arrival.topic, arrival.queue_id), arrival)
            if self._topics:
                self._wake_at((arrival.topic, ANY_QUEUE), arrival)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Make all requests ready that wait in a queue, whatever they wait for."""
        for line in list(self._places.get((topic, queue_id), {}).values()):
            self._make_ready(line, line.blocks[-1][-1][0])

    def wake_topics(self, topics: Collection[str]) -> None:
        """Make all requests ready that wait in queues of these topics. Looks at every place with a waiting request."""
        for topic, queue_id in [place for place in self._places if place[0] in topics]:
            self.wake_queue(topic, queue_id)

    def wake_expired(self, steady_ms: int) -> None:
        """Make the requests ready whose deadline has passed."""
        self._add_ready(self._deadlines.take_up_to(steady_ms))

    def take_ready(self, count_max: int) -> list[HeldRequest]:
        """Remove and return up to `count_max` ready requests, each once, in the order in which they became ready."""
        taken: list[HeldRequest] = []
        while self._ready and len(taken) < count_max:
            entries = self._ready[0]
            held = entries.pop()[2]
            if not entries:
                self._ready.popleft()
            if not held.is_gone:
                self.leave(held)
                taken.append(held)
        return taken

    def withdraw(self, channel: int, opaque: int) -> bool:
        """Drop a request that its client withdraws. False when it is not held: its answer is on the way."""
        held = self._by_opaque.get((channel, opaque))
        if held is None:
            return False
        self.leave(held)
        held.forget()
        return True

    def drop_channel(self, channel: int) -> None:
        """Drop the requests of a closed connection."""
        for held in list(self._channels.get(channel, ())):
            self.leave(held)
            held.forget()

    def wait_ms(self, steady_ms: int) -> int | None:
        """Ms until the next deadline, 0 while requests are ready; None when nothing is held."""
        if self._ready:
            return 0
        blocks = self._deadlines.blocks
        return max(0, blocks[0][0][0] - steady_ms) if blocks else None

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
        """Make the requests ready that a message at this offset wakes."""
        self._add_ready(line.take_up_to(queue_offset))
        if not line.blocks:
            self._remove(line)

    def _add_ready(self, entries: list[_Entry]) -> None:
        if entries:
            # Entries are taken from the end, and the first in line must come first.
            entries.reverse()
            self._ready.append(entries)

    def leave(self, held: HeldRequest) -> None:
        """Remove the request from its connection, its lines and the deadlines."""
        held.is_gone = True
        self._count -= 1
        channel = self._channels[held.channel]
        channel.pop(held, None)
        if not channel:
            del self._channels[held.channel]
        if held.opaque is not None and self._by_opaque.get((held.channel, held.opaque)) is held:
            del self._by_opaque[held.channel, held.opaque]
        self._deadlines.take_out((held.deadline_ms, held.sequence))
        for line, queue_offset in held.lines:
            line.take_out((queue_offset, held.sequence))
            if not line.blocks:
                self._remove(line)
        held.lines.clear()

    def _remove(self, line: _Line) -> None:
        """Remove a line in which no request waits."""
        lines = self._places.get(line.key)
        if lines is None or lines.get(line.tag) is not line:
            return
        del lines[line.tag]
        if not lines:
            del self._places[line.key]
            self._topics -= line.key[1] == ANY_QUEUE


class _WithTopics:
    """The queues in which a request waits, including the queues of whole topics."""

    def __init__(self, places: Container[tuple[str, int]]) -> None:
        self._places = places

    def __contains__(self, queue: object) -> bool:
        return queue in self._places or (isinstance(queue, tuple) and (queue[0], ANY_QUEUE) in self._places)
