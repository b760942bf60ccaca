"""Limits are checked when they are set."""

import pytest

from regulus.errors import ConfigError
from regulus.transport.config import TransportConfig


@pytest.mark.parametrize(("limits", "key"), [
    ({"connections_max": 0}, "connectionsMax"), ({"accept_backlog": 0}, "acceptBacklog"),
    ({"idle_time_max_ms": -1}, "idleTimeMaxMs"), ({"write_buffer_high": 0}, "writeBufferHigh"),
    ({"write_buffer_low": 1 << 20}, "writeBufferLow"), ({"write_buffer_max": 1024}, "writeBufferLow"),
    ({"large_frames_size_max": 1}, "largeFramesSizeMax"),
])
def test_a_limit_that_nothing_can_keep_is_refused_by_the_name_that_stands_in_the_file(limits: dict[str, int],
                                                                                     key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}"):
        TransportConfig(**limits)


def test_the_defaults_stand() -> None:
    assert TransportConfig().idle_time_max_ms == 120_000
