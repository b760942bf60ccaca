"""How long a message waits at a broker."""

import pytest

from regulus.reliability import delays

NOW_MS = 1_000_000


@pytest.mark.parametrize(("properties", "expected"), [
    ({}, 0),
    ({"DELAY": "0"}, 0),
    ({"DELAY": "3"}, 10_000),
    ({"DELAY": "99"}, 7_200_000),
    ({"DELAY": "-1"}, 0),
    ({"TIMER_DELAY_SEC": "7"}, 7_000),
    ({"TIMER_DELAY_MS": "7"}, 7),
    ({"TIMER_DELIVER_MS": "1000500"}, 500),
    ({"TIMER_DELIVER_MS": "999"}, 0),
    ({"TIMER_DELAY_MS": "soon"}, 0),
])
def test_the_time(properties, expected):
    assert delays.delay_ms(properties, NOW_MS) == expected


def test_what_is_sent_again_keeps_the_rest():
    assert delays.without_delay({"DELAY": "3", "KEYS": "1"}) == {"KEYS": "1"}
