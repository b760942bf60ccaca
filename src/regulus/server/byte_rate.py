"""The rate of bytes on a link. Source: FlowMonitor."""

_SECOND = 1.0


class ByteRate:
    """Counts bytes each time that some are sent. `now` is in seconds, from a clock that never jumps."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._size = 0
        self._last = 0

    def add(self, size: int, now: float) -> None:
        self._turn(now)
        self._size += size

    def bytes_in_second(self, now: float) -> int:
        """The bytes of the last complete second."""
        self._turn(now)
        return self._last

    def _turn(self, now: float) -> None:
        passed = now - self._since
        if passed >= _SECOND:
            self._last = self._size if passed < 2 * _SECOND else 0
            self._size = 0
            self._since = now - passed % _SECOND
