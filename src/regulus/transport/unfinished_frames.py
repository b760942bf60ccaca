"""What frames that have begun and not ended may take, over all connections that share this account.

A frame above SMALL_FRAME is read on once there is room for the whole of it in `large_frames_size_max`; until then its
connection is not read, and its bytes wait in the peer's socket. Those that wait get room in the order in which they
asked. What a name server keeps of requests that wait for others before them takes the same room: so the next large ones
wait in their sockets, too, and are not refused. Small frames wait for nobody: what they and the waiting ones have sent
already counts against `unfinished_size_max`, and above it the connection that has not moved for the longest is closed.

So that nobody keeps others waiting for ever, a connection is closed when its frame has not ended within
`frame_time_max_ms`, not counting the time in which it waited for room. The time in which we did not read because the
peer did not take its answers counts: else it would keep the room of its frame for as long as it likes.
"""

from typing import Protocol

from regulus.transport.config import TransportConfig

SMALL_FRAME = 64 << 10
"""Bytes of a frame that is read without asking for room."""


class Holder(Protocol):
    """A connection in the middle of a frame."""

    frame_began: float
    """When the frame began, or got room, by the clock of `close_overdue`."""

    def read_on(self) -> None:
        """There is room for the frame now."""
        ...

    def refuse(self, cause: str) -> None: ...


class UnfinishedFrames:
    def __init__(self, config: TransportConfig) -> None:
        self.large_size = 0         # of large frames that have room, all of each
        self.small_size = 0         # that has come of all other frames
        self.kept_size = 0          # of frames that have ended and wait to be worked at
        self._config = config
        self._large: dict[Holder, int] = {}
        self._small: dict[Holder, int] = {}     # the one that has not moved for the longest first
        self._waiting: dict[Holder, int] = {}   # for room for so many bytes, the first to get it first

    def note(self, holder: Holder, held: int, wanted: int) -> bool:
        """`held` bytes of a frame of `wanted` have come. Whether the holder may read on, and keep the rest of it."""
        if holder in self._large:
            return True
        if wanted > SMALL_FRAME and not self._waiting and self._has_room(wanted):
            self._let_in(holder, wanted)
            return True
        self.small_size += held - self._small.pop(holder, 0)
        self._small[holder] = held
        if wanted > SMALL_FRAME:
            self._waiting[holder] = wanted
        while self.small_size > self._config.unfinished_size_max:
            self._close(next(iter(self._small)), f"unfinished frames take more than {self._config.unfinished_size_max} "
                        "bytes, and its own has not moved for the longest")
        # One that was closed may have been what this one waited for.
        return wanted <= SMALL_FRAME or holder in self._large

    def forget(self, holder: Holder) -> None:
        """The holder's frame has ended, or its connection has."""
        self.small_size -= self._small.pop(holder, 0)
        self._waiting.pop(holder, None)
        self.large_size -= self._large.pop(holder, 0)
        self._let_in_the_first()

    def keep(self, size: int) -> None:
        """Its owner, who is the only one, keeps so many bytes of frames that have ended."""
        has_more_room = size < self.kept_size
        self.kept_size = size
        if has_more_room:
            self._let_in_the_first()

    def close_overdue(self, now: float) -> None:
        """Close those whose frames do not end. Costs as much as there are unfinished frames."""
        time_max_ms = self._config.frame_time_max_ms
        limit = now - time_max_ms / 1000
        overdue = [holder for holder in (*self._large, *self._small)
                   if holder.frame_began < limit and holder not in self._waiting]
        for holder in overdue:      # whoever gets room meanwhile begins anew
            self._close(holder, f"its frame has not come whole within {time_max_ms} ms")

    def _has_room(self, wanted: int) -> bool:
        return self.large_size + self.kept_size + wanted <= self._config.large_frames_size_max

    def _let_in_the_first(self) -> None:
        """Of those that wait, as many as there is room for."""
        while self._waiting:
            first, wanted = next(iter(self._waiting.items()))
            if not self._has_room(wanted):
                break
            del self._waiting[first]
            self._let_in(first, wanted)
            first.read_on()

    def _let_in(self, holder: Holder, wanted: int) -> None:
        self.small_size -= self._small.pop(holder, 0)
        self._large[holder] = wanted
        self.large_size += wanted

    def _close(self, holder: Holder, cause: str) -> None:
        self.forget(holder)
        holder.refuse(cause)
