"""Limits are checked when they are set."""

import pytest

from regulus.errors import ConfigError
from regulus.transport.config import TransportConfig


@pytest.mark.parametrize("limits", [
    {"connections_max": 0}, {"accept_backlog": 0}, {"idle_time_max_ms": -1}, {"write_buffer_high": 0},
    {"write_buffer_low": 1 << 20}, {"write_buffer_max": 1024},
])
def test_a_limit_that_nothing_can_keep_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        TransportConfig(**limits)


def test_the_defaults_stand() -> None:
    assert TransportConfig().idle_time_max_ms == 120_000
