"""What is renewed, when, for how long, and for whom no more."""

import pytest

from regulus.proxy.config import ProxyConfig
from regulus.proxy.receipt_handle import parse
from regulus.proxy.renewals import Renewals, Renewed

POPPED_MS = 1_000_000
KEY = ("client", "group", "handle")


def renewed(key: tuple[str, str, str] = KEY, popped_ms: int = POPPED_MS) -> Renewed:
    return Renewed(key=key, topic="Orders", message_id="1", handle=parse(f"0 {popped_ms} 60000 1 0 a 0 0 0"),
                   taken_at_ms=popped_ms)


def test_a_message_is_renewed_before_it_becomes_visible_and_each_time_for_longer() -> None:
    renewals = Renewals(ProxyConfig())
    one = renewed()
    renewals.add(one)
    assert renewals.due(POPPED_MS + 44_999) == []
    assert renewals.due(POPPED_MS + 45_000) == [one]
    assert renewals.due(POPPED_MS + 45_000) == []
    lengths = []
    for _ in range(7):
        lengths.append(renewals.extension_ms(one))
        assert renewals.renewed(one, one.handle)
    assert lengths == [60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000, 3_600_000]
    assert not renewals.is_over(one, POPPED_MS + 10_799_999)
    assert renewals.is_over(one, POPPED_MS + 10_800_000)


def test_the_client_goes_on_to_use_the_handle_that_it_was_given() -> None:
    renewals = Renewals(ProxyConfig())
    one = renewed()
    renewals.add(one)
    newer = parse("5 2000000 180000 1 0 a 0 0 0")
    assert renewals.renewed(one, newer)
    taken = renewals.take(KEY)
    assert taken is not None
    assert taken.handle == newer
    assert renewals.take(KEY) is None
    assert not renewals.renewed(one, newer)     # what was under way is the caller's to settle
    assert renewals.due(10 ** 12) == []


def test_three_failures_in_a_row_end_it_and_a_handle_that_is_invalid_does_so_at_once() -> None:
    renewals = Renewals(ProxyConfig())
    one = renewed()
    renewals.add(one)
    renewals.failed(one, is_final=False, now_ms=POPPED_MS)
    renewals.renewed(one, one.handle)
    for left in (1, 1, 0):
        renewals.failed(one, is_final=False, now_ms=POPPED_MS)
        assert len(renewals) == left
    renewals.add(renewed())
    again = renewals.due(10 ** 12)[-1]
    renewals.failed(again, is_final=True, now_ms=POPPED_MS)
    assert len(renewals) == 0


def test_a_client_that_is_gone_leaves_all_it_had_and_others_keep_theirs() -> None:
    renewals = Renewals(ProxyConfig())
    mine = [renewed(("client", "group", str(number))) for number in range(3)]
    other = renewed(("other", "group", "0"))
    for each in [*mine, other]:
        renewals.add(each)
    assert renewals.take_client("client") == mine
    assert renewals.take_client("client") == []
    assert len(renewals) == 1


def test_there_is_a_limit_and_a_step_does_no_more_than_its_part() -> None:
    renewals = Renewals(ProxyConfig(renewals_max=300))
    assert [renewals.add(renewed(("c", "g", str(number)))) for number in range(301)].count(True) == 300
    assert [len(renewals.due(10 ** 12)) for _ in range(3)] == [256, 44, 0]


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_a_step_costs_what_is_due_and_not_what_is_kept(count: int) -> None:
    renewals = Renewals(ProxyConfig())
    for number in range(count):
        renewals.add(renewed(("c", "g", str(number)), POPPED_MS + (number != 7) * 10 ** 9))
    assert len(renewals.due(POPPED_MS + 60_000)) == 1
