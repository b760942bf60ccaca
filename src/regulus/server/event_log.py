"""Tells what happened to topics, groups, clients and brokers: one line for all of a kind, at most once a second.

Those who decide note it (`Happenings`); here it becomes lines. However much happens, a line has few names and a number.
"""

import logging
from collections.abc import Sequence

from regulus.model.happenings import Happenings

_log = logging.getLogger(__name__)

EVENT_INTERVAL_MS = 1_000
"""What happens within this time after a line is gathered for the next."""


class EventLog:
    def __init__(self, sources: Sequence[Happenings]) -> None:
        self._sources = sources
        self._next_ms = 0

    def tick(self, steady_ms: int) -> None:
        if steady_ms >= self._next_ms and self.tell():
            self._next_ms = steady_ms + EVENT_INTERVAL_MS

    def tell(self) -> bool:
        """Tell now. Whether there was something."""
        taken = [item for source in self._sources for item in source.take().items()]
        for kind, names in taken:
            _log.info("%s: %s", kind, names)
        return bool(taken)
