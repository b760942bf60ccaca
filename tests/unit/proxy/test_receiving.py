"""What a receive may ask for, and for how long its poll waits."""

from typing import Any

import pytest

from regulus.errors import CallRefused
from regulus.proxy import receiving
from regulus.proxy.caller import Caller
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages

CONFIG = ProxyConfig()
NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def request(invisible_ms: int = 0, **fields: Any) -> Any:
    made = messages.ReceiveMessageRequest(**fields)
    made.invisible_duration.FromMilliseconds(invisible_ms)
    return made


TOO_SMALL = "the invisibleTime is too small. min is 10000"
TOO_LARGE = "the invisibleTime is too large. max is 43200000"


@pytest.mark.parametrize(("asked_ms", "refusal"), [
    (0, TOO_SMALL), (9_999, TOO_SMALL), (10_000, ""), (12 * HOUR_MS, ""),
    (12 * HOUR_MS + 1, TOO_LARGE), (-1, TOO_SMALL)])
def test_a_message_is_received_for_ten_seconds_to_twelve_hours(asked_ms: int, refusal: str) -> None:
    """Refused in RocketMQ's words."""
    if not refusal:
        assert receiving.invisible_ms(request(asked_ms), CONFIG) == asked_ms
        return
    with pytest.raises(CallRefused) as refused:
        receiving.invisible_ms(request(asked_ms), CONFIG)
    assert (refused.value.code, str(refused.value)) == (40011, refusal)


def test_what_is_renewed_is_received_for_a_minute_whatever_is_asked_for() -> None:
    for asked_ms in (0, 1, 13 * HOUR_MS):
        assert receiving.invisible_ms(request(asked_ms, auto_renew=True), CONFIG) == 60_000
    with pytest.raises(CallRefused):
        receiving.invisible_ms(request(auto_renew=True), ProxyConfig(enable_proxy_auto_renew=False))


@pytest.mark.parametrize(("asked_ms", "refusal"), [(-1, "the invisibleTime is too small. min is 0"), (0, ""),
                                                   (12 * HOUR_MS, ""), (12 * HOUR_MS + 1, TOO_LARGE)])
def test_a_changed_time_is_at_most_twelve_hours(asked_ms: int, refusal: str) -> None:
    change = messages.ChangeInvisibleDurationRequest()
    change.invisible_duration.FromMilliseconds(asked_ms)
    if not refusal:
        assert receiving.changed_invisible_ms(change, CONFIG) == asked_ms
        return
    with pytest.raises(CallRefused) as refused:
        receiving.changed_invisible_ms(change, CONFIG)
    assert (refused.value.code, str(refused.value)) == (40011, refusal)


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (32, 32), (33, 32), (2_147_483_647, 32), (0, 32), (-5, 32)])
def test_one_receive_takes_32_messages_at_most(asked: int, given: int) -> None:
    assert receiving.batch_size(request(batch_size=asked)) == given


@pytest.mark.parametrize(("asked_ms", "left_ms", "polled_ms"), [
    (None, None, 20_000), (0, None, 5_000), (7_000, None, 7_000), (40_000, None, 20_000), (-1, None, 5_000),
    (20_000, 23_000, 20_000), (20_000, 8_000, 7_000), (20_000, 1_000, 0), (20_000, -5_000, 0), (None, 9_000, 8_000)])
def test_a_poll_is_answered_before_its_client_gives_up(asked_ms: int | None, left_ms: int | None,
                                                       polled_ms: int) -> None:
    made = request()
    if asked_ms is not None:
        made.long_polling_timeout.FromMilliseconds(asked_ms)
    caller = Caller(deadline_ms=None if left_ms is None else NOW_MS + left_ms)
    assert receiving.poll_ms(made, caller, CONFIG, NOW_MS) == polled_ms


def test_a_filter_has_a_limit_and_is_told_what_is_wrong_with_it() -> None:
    wanted = receiving.subscription("t", messages.FilterExpression(type=1, expression="A || B"), CONFIG)
    assert [receiving.has_wanted_tag(tag, wanted) for tag in ("A", "B", "C", "")] == [True, True, False, False]
    everything = receiving.subscription("t", messages.FilterExpression(), CONFIG)
    assert receiving.has_wanted_tag("", everything)
    small = ProxyConfig(max_user_property_size=100)     # a filter may have several tags
    assert receiving.subscription("t", messages.FilterExpression(type=1, expression="T" * 4_096), small).tags_set
    with pytest.raises(CallRefused):
        receiving.subscription("t", messages.FilterExpression(type=1, expression="T" * 4_097), small)
    for kind, text in ((1, "T" * 16_385), (2, " "), (2, "a" * 16_385), (1, "||")):
        with pytest.raises(CallRefused) as refused:
            receiving.subscription("t", messages.FilterExpression(type=kind, expression=text), CONFIG)
        assert refused.value.code == 40010
