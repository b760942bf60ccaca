import pytest

from regulus.errors import ConfigError
from regulus.model import delay_level


def test_the_default_ladder():
    delays = delay_level.parse_ladder(delay_level.DEFAULT_LADDER)
    assert len(delays) == 18
    assert (delays[0], delays[4], delays[17]) == (1000, 60_000, 7_200_000)


def test_milliseconds_and_days():
    assert delay_level.parse_ladder("5ms 1d") == (5, 86_400_000)


@pytest.mark.parametrize("text", ["", "1x", "s", "1s -2s"])
def test_a_wrong_ladder_is_refused(text):
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        delay_level.parse_ladder(text)
