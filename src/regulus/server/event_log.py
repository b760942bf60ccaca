"""Tells what happened to topics, groups, clients and brokers: one line for all of a kind, at most once a second.

Those who decide note it (`Happenings`); here it becomes lines. However much happens, a line has few names and a number.
"""

import logging
from collections.abc import Sequence

from regulus.model.happenings import Happenings

_log = logging.getLogger(__name__)

EVENT_INTERVAL_MS = 1_000
"""Between two looks at what was noted."""


class EventLog:
    """`faults`: what somebody should mend, told as warnings."""

    def __init__(self, sources: Sequence[Happenings], faults: Sequence[Happenings] = ()) -> None:
        self._levels = [*((logging.INFO, source) for source in sources), *((logging.WARNING, each) for each in faults)]
        self._next_ms = 0

    def add_faults(self, source: Happenings) -> None:
        self._levels.append((logging.WARNING, source))

    def tick(self, steady_ms: int) -> None:
        if steady_ms >= self._next_ms:
            self._next_ms = steady_ms + EVENT_INTERVAL_MS
            self.tell()

    def tell(self) -> None:
        """Tell now what was not told yet."""
        for level, source in self._levels:
            for kind, names in source.take().items():
                _log.log(level, "%s: %s", kind, names)
