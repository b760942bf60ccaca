"""Logs events of topics, groups, clients and brokers: one line for all events of a kind, at most once a second.

Other modules note events (`Happenings`); this one logs them. However many there are, a line has a few names and a
number. A few kinds have a line for each event (`EventTexts`), up to a limit.
"""

import logging
from collections.abc import Sequence

from regulus.model.happenings import EventTexts, Happenings

_log = logging.getLogger(__name__)

EVENT_INTERVAL_MS = 1_000
"""ms between two checks of what was noted."""


class EventLog:
    """The log of events. `faults`: events that an operator should act on, logged as warnings."""

    def __init__(self, sources: Sequence[Happenings], faults: Sequence[Happenings] = ()) -> None:
        self._levels = [*((logging.INFO, source) for source in sources), *((logging.WARNING, each) for each in faults)]
        self._texts: list[EventTexts] = []
        self._next_ms = 0

    def add_texts(self, source: EventTexts) -> None:
        """Log each event of the source in a line of its own, as a warning."""
        self._texts.append(source)

    def add_faults(self, source: Happenings) -> None:
        self._levels.append((logging.WARNING, source))

    def tick(self, steady_ms: int) -> None:
        if steady_ms >= self._next_ms:
            self._next_ms = steady_ms + EVENT_INTERVAL_MS
            self.tell()

    def tell(self) -> None:
        """Log what was not logged yet."""
        for level, source in self._levels:
            for kind, names in source.take().items():
                _log.log(level, "%s: %s", kind, names)
        for texts in self._texts:
            for text in texts.take():
                _log.warning("%s", text)
