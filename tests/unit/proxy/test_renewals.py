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
        lengths.append(renewals.extension_ms(one, POPPED_MS))
        assert renewals.renewed(one, one.handle)
    assert lengths == [60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000, 3_600_000]


def test_nothing_is_renewed_for_longer_than_three_hours_in_all() -> None:
    renewals = Renewals(ProxyConfig())
    one = renewed()
    renewals.add(one)
    until_ms = [POPPED_MS + 60_000]
    for _ in range(20):
        now_ms = until_ms[-1] - 15_000
        assert renewals.due(now_ms - 1) == []
        assert renewals.due(now_ms) == [one]
        if renewals.is_over(one, now_ms):
            break
        until_ms.append(now_ms + renewals.extension_ms(one, now_ms))
        renewals.begin(one)
        handle = parse(f"0 {now_ms} {until_ms[-1] - now_ms} 1 0 a 0 0 0")
        assert renewals.renewed(one, handle)
    assert [(each - POPPED_MS) // 1000 for each in until_ms] == [60, 105, 270, 555, 1140, 2925, 6510, 10095, 10800]


def test_a_renewal_that_failed_is_tried_again_after_some_seconds() -> None:
    """A broker that starts again takes as long."""
    renewals = Renewals(ProxyConfig())
    one = renewed()
    renewals.add(one)
    for failures, now_ms in enumerate(range(POPPED_MS + 45_000, POPPED_MS + 60_000, 5_000), 1):
        assert renewals.due(now_ms - 1) == []
        assert renewals.due(now_ms) == [one]
        renewals.begin(one)
        renewals.failed(one, is_final=False, now_ms=now_ms)
        assert len(renewals) == (failures < 3)


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
    renewals.leave("client")
    renewals.leave("client")
    assert sorted(each.key for each in renewals.take_left()) == [each.key for each in mine]
    assert renewals.take_left() == []
    assert len(renewals) == 1


def test_what_clients_had_when_they_left_is_taken_in_steps() -> None:
    renewals = Renewals(ProxyConfig())
    for number in range(600):
        renewals.add(renewed((f"client {number % 2}", "group", str(number))))
    for client_id in ("client 0", "client 1"):
        renewals.leave(client_id)
    assert [len(renewals.take_left()) for _ in range(4)] == [256, 256, 88, 0]
    assert len(renewals) == 0


def test_a_client_that_comes_back_decides_on_what_it_had_and_keeps_what_it_gets() -> None:
    renewals = Renewals(ProxyConfig())
    decided, tried, left, new = [renewed(("client", "group", name)) for name in ("decided", "tried", "left", "new")]
    for each in (decided, tried, left):
        renewals.add(each)
    renewals.leave("client")
    assert renewals.take(decided.key) is decided
    assert renewals.take(tried.key) is tried
    renewals.add(tried)         # what it decided came to nothing, and it works on
    renewals.add(new)
    assert renewals.take_left() == [left]
    renewals.leave("client", "another")
    assert renewals.take_left() == []
    renewals.leave("client")
    assert renewals.take_left() == [new, tried]


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
