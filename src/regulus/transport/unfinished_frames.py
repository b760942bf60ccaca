"""Limits of unfinished frames, over all connections that share this account.

A frame above SMALL_FRAME is read further once `large_frames_size_max` has room for the whole frame; until then its
connection is not read, and its bytes wait in the peer's socket. Waiting frames get room in the order in which they
asked. Requests that a name server keeps because they wait for earlier ones take the same room: so further large frames
wait in their sockets too, and are not refused. Small frames wait for nothing: the bytes received of them and of the
waiting frames count against `unfinished_size_max`, and above it the connection that has been inactive for the longest
is closed.

So that no frame blocks others forever, a connection is closed when its frame has not ended within `frame_time_max_ms`,
not counting the time in which it waited for room. The time in which we did not read because the peer did not take its
answers counts: otherwise such a peer could keep the room of its frame for as long as it likes.
"""

from typing import Protocol

from regulus.transport.config import TransportConfig

SMALL_FRAME = 64 << 10
"""Bytes of a frame that is read without waiting for room."""


class Holder(Protocol):
    """A connection that has received part of a frame."""

    frame_began: float
    """When the frame began, or got room, by the clock of `close_overdue`."""

    def read_on(self) -> None:
        """Continue reading: there is room for the frame now."""
        ...

    def refuse(self, cause: str) -> None: ...


class UnfinishedFrames:
    def __init__(self, config: TransportConfig) -> None:
        self.large_size = 0         # whole sizes of the large frames that have room
        self.small_size = 0         # received bytes of all other frames
        self.kept_size = 0          # of frames that have ended and wait to be handled
        self._config = config
        self._large: dict[Holder, int] = {}
        self._small: dict[Holder, int] = {}     # the longest inactive first
        self._waiting: dict[Holder, int] = {}   # the room that each waits for, in the order of waiting

    def note(self, holder: Holder, held: int, wanted: int) -> bool:
        """Note that `held` bytes of a frame of `wanted` arrived; returns whether the holder may read on, and keep the
        rest of it."""
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
        # If one was closed, it may have been what this one waited for.
        return wanted <= SMALL_FRAME or holder in self._large

    def forget(self, holder: Holder) -> None:
        """The holder's frame, or its connection, has ended."""
        self.small_size -= self._small.pop(holder, 0)
        self._waiting.pop(holder, None)
        self.large_size -= self._large.pop(holder, 0)
        self._let_in_the_first()

    def keep(self, size: int) -> None:
        """Set the number of bytes of ended frames that the only owner of this account keeps."""
        has_more_room = size < self.kept_size
        self.kept_size = size
        if has_more_room:
            self._let_in_the_first()

    def close_overdue(self, now: float) -> None:
        """Close connections whose frames do not end. The cost is proportional to the unfinished frames."""
        time_max_ms = self._config.frame_time_max_ms
        limit = now - time_max_ms / 1000
        overdue = [holder for holder in (*self._large, *self._small)
                   if holder.frame_began < limit and holder not in self._waiting]
        for holder in overdue:      # a holder that gets room meanwhile starts its time again
            self._close(holder, f"its frame has not come whole within {time_max_ms} ms")

    def _has_room(self, wanted: int) -> bool:
        return self.large_size + self.kept_size + wanted <= self._config.large_frames_size_max

    def _let_in_the_first(self) -> None:
        """Give room to as many waiting frames as fit."""
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
