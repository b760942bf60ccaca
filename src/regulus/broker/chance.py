"""Chance from a seed: the same seed gives the same broker."""

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_MASK = (1 << 64) - 1


class Chance:
    """A linear congruential generator (Knuth, MMIX): spreads messages over queues, and is no secret."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed * _MULTIPLIER + _INCREMENT) & _MASK

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; 0 when `limit` is 1 or less."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._state >> 33) % limit if limit > 1 else 0
