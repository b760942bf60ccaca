"""Delay levels: the ladder `1s 5s 10s ... 2h`, levels numbered from 1. Source: MessageStoreConfig.messageDelayLevel."""

from regulus.errors import ConfigError

DEFAULT_LADDER = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNKNOWN_LEVEL_DELAY_MS = 1000
FIRST_RETRY_LEVEL = 3
"""The level at which a message waits after its first failure; each further failure moves it one level up."""

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_ladder(text: str) -> tuple[int, ...]:
    """The delay of each level in ms; level n is item n - 1. Raises ConfigError.

    Besides RocketMQ's units s, m, h and d, `ms` is accepted, so that tests and demonstrations need not wait.
    """
    delays = []
    for word in text.split():
        digits = word.rstrip("smhd")
        unit = word[len(digits):]
        if not digits.isdigit() or unit not in _UNIT_MS:
            raise ConfigError(f"messageDelayLevel has {word!r}: write a number and one of {', '.join(_UNIT_MS)}")
        delays.append(int(digits) * _UNIT_MS[unit])
    if not delays:
        raise ConfigError(f"messageDelayLevel is empty: leave it out for the default, {DEFAULT_LADDER!r}")
    return tuple(delays)
