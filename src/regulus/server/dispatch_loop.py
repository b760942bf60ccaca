"""Makes appended messages visible: it walks the log after each batch of requests, and wakes the pulls that waited."""

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from regulus.errors import StoreError
from regulus.model.store_result import Arrival
from regulus.server.clock import Clock

_log = logging.getLogger(__name__)

DISPATCH_COUNT_MAX = 2048       # messages of one walk; the rest waits until other connections had their turn
FAULT_RETRY_S = 1.0             # the time between two attempts after a full disk stopped the walk


class DispatchingStore(Protocol):
    """What the loop needs from the store."""

    def dispatch(self, count_max: int, wanted: Container[tuple[str, int]]) -> Sequence[Arrival]: ...

    def dispatch_behind_bytes(self) -> int: ...

    @property
    def fault(self) -> str: ...

    def stop_writes(self, reason: str) -> None: ...


class DispatchLoop:
    """`wanted`: the queues (topic, queue id) for which requests wait; `on_arrivals` is called with their arrivals."""

    def __init__(self, store: DispatchingStore, wanted: Callable[[], Container[tuple[str, int]]],
                 on_arrivals: Callable[[Sequence[Arrival], int], None], clock: Clock) -> None:
        self._store = store
        self._wanted = wanted
        self._on_arrivals = on_arrivals
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._is_stopped = False

    def run(self, now_ms: int) -> None:
        """Dispatch what was appended; what is too much for one walk continues in the next turn of the event loop."""
        if self._is_stopped or not self._store.dispatch_behind_bytes():
            return
        try:
            arrivals = self._store.dispatch(DISPATCH_COUNT_MAX, self._wanted())
        except StoreError as error:
            self._give_up(error)
            return
        if arrivals:
            self._on_arrivals(arrivals, now_ms)
        if self._next is None and self._store.dispatch_behind_bytes():
            delay_s = FAULT_RETRY_S if self._store.fault else 0.0
            self._next = self._loop.call_later(delay_s, self._continue)

    def stop(self) -> None:
        self._is_stopped = True
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _continue(self) -> None:
        self._next = None
        self.run(self._clock())

    def _give_up(self, error: StoreError) -> None:
        """Stop accepting messages, because the log cannot be walked further and later messages would never become
        visible."""
        _log.error("no more messages are taken: %s", error)
        self._store.stop_writes(str(error))
        self.stop()
