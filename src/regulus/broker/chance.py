"""Random numbers from a seed, so that a simulation with the same seed repeats the same decisions."""

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_MASK = (1 << 64) - 1


class Chance:
    """A linear congruential generator (Knuth, MMIX). It spreads messages over queues; its numbers can be predicted."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = (seed * _MULTIPLIER + _INCREMENT) & _MASK

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; 0 when `limit` is 1 or less."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (self._state >> 33) % limit if limit > 1 else 0
