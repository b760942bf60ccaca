"""Makes appended messages visible: walks the log after each batch of requests, and wakes the pulls that waited."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from regulus.model.store_result import Arrival
from regulus.server.clock import Clock

DISPATCH_COUNT_MAX = 2048       # messages of one walk; what is left waits until other connections had their turn


class DispatchingStore(Protocol):
    """What is asked of the store here."""

    def dispatch(self, count_max: int) -> Sequence[Arrival]: ...

    def dispatch_behind_bytes(self) -> int: ...


class DispatchLoop:
    def __init__(self, store: DispatchingStore, on_arrivals: Callable[[Sequence[Arrival], int], None],
                 clock: Clock) -> None:
        self._store = store
        self._on_arrivals = on_arrivals
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None

    def run(self, now_ms: int) -> None:
        """Dispatch what was appended; too much for one walk goes on in the next turn of the event loop."""
        arrivals = self._store.dispatch(DISPATCH_COUNT_MAX)
        if arrivals:
            self._on_arrivals(arrivals, now_ms)
        if self._next is None and len(arrivals) >= DISPATCH_COUNT_MAX and self._store.dispatch_behind_bytes() > 0:
            self._next = self._loop.call_soon(self._continue)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _continue(self) -> None:
        self._next = None
        self.run(self._clock())
