"""Renewals carried out, beside clients that decide meanwhile."""

import asyncio

import pytest

from regulus.errors import CallRefused
from regulus.proxy import lanes
from regulus.proxy.config import ProxyConfig
from regulus.proxy.lanes import AT_ONCE_MAX
from regulus.proxy.receipt_handle import parse
from regulus.proxy.renewals import Renewed
from regulus.proxy.renewing import Renewing
from regulus.wire.codes import RequestCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import ScriptedBrokers

MINUTE_MS = 60_000
KEY = ("client", "g", "0 1000000 60000 1 0 a 0 0 0")
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def changed(command: RemotingCommand) -> RemotingCommand:
    return command.response(0, ext={"popTime": "1045000", "invisibleTime": command.ext["invisibleTime"],
                                    "reviveQid": "6"})


def make(brokers: ScriptedBrokers, clock: Clock) -> Renewing:
    renewing = Renewing(brokers, ProxyConfig(), clock, {"client"}.__contains__)
    renewing.add(Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=clock.now_ms))
    return renewing


async def test_the_handle_that_was_given_stands_for_the_newest(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["60000"]
    clock.now_ms += 30_000      # the first handle has expired
    async with renewing.decided(KEY) as handle:
        assert handle.text() == "0 1045000 60000 6 0 a 0 0 0"
    assert len(renewing) == 0


async def test_a_decision_waits_for_the_renewal_that_is_under_way(brokers: ScriptedBrokers) -> None:
    """An acknowledgement by the old handle beside a renewal would leave a second checkpoint, and the message twice."""
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    await asyncio.sleep(0)      # it has begun, and is not answered
    assert brokers.asked_for(CHANGE)
    async with renewing.decided(KEY) as handle:
        assert handle.receipt.pop_time == 1_045_000


async def test_what_failed_may_be_tried_again_and_is_renewed_meanwhile(brokers: ScriptedBrokers) -> None:
    renewing = make(brokers, Clock())
    with pytest.raises(CallRefused):
        async with renewing.decided(KEY):
            raise CallRefused(Code.PROXY_TIMEOUT, "no answer")
    assert len(renewing) == 1
    with pytest.raises(CallRefused):
        async with renewing.decided(KEY):
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "gone")
    assert len(renewing) == 0


@pytest.mark.parametrize(("attempts", "delay_ms"), [(0, 1_000), (2, 10_000), (17, 7_200_000), (40, 7_200_000)])
async def test_after_three_hours_the_message_goes_back_with_the_groups_delay(brokers: ScriptedBrokers, attempts: int,
                                                                             delay_ms: int) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = Renewing(brokers, ProxyConfig(), clock, {"client"}.__contains__)
    renewing.add(Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=clock.now_ms,
                         attempts=attempts))
    clock.now_ms += 10_800_000
    renewing.begin_due()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == [str(delay_ms)]
    assert len(renewing) == 0


async def test_a_client_that_is_gone_while_its_message_is_renewed_does_not_keep_it(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    await asyncio.sleep(0)      # it has begun, and is not answered
    renewing.release_client("client")
    await renewing.finish()
    asked = [(ext["invisibleTime"], ext["extraInfo"]) for ext in brokers.asked_for(CHANGE)]
    old, new = "0 1000000 60000 1 0 a 0 0", "0 1045000 60000 6 0 a 0 0"
    assert asked == [("60000", old), ("1000", old), ("1000", new)]
    assert len(renewing) == 0


async def test_a_decision_that_is_cut_short_may_be_tried_again_and_is_renewed_meanwhile(
        brokers: ScriptedBrokers) -> None:
    """A client that gives up waiting for the answer cancels its call, and works on the message."""
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)

    async def decide() -> None:
        async with renewing.decided(KEY):
            await asyncio.Event().wait()

    deciding = asyncio.ensure_future(decide())
    await asyncio.sleep(0)
    assert len(renewing) == 0
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)
    assert len(renewing) == 1
    clock.now_ms += 45_000
    renewing.begin_due()
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 1


async def test_what_is_decided_in_vain_again_and_again_is_renewed_once(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    for _ in range(5):
        with pytest.raises(CallRefused):
            async with renewing.decided(KEY):
                raise CallRefused(Code.PROXY_TIMEOUT, "no answer")
    clock.now_ms += 45_000
    renewing.begin_due()
    with pytest.raises(CallRefused):        # while the renewal waits for its turn
        async with renewing.decided(KEY):
            raise CallRefused(Code.PROXY_TIMEOUT, "no answer")
    renewing.begin_due()
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 1


async def test_what_fails_for_a_client_that_is_gone_meanwhile_is_released(brokers: ScriptedBrokers) -> None:
    known = {"client"}
    renewing = Renewing(brokers, ProxyConfig(), Clock(), known.__contains__)
    brokers.answers[CHANGE] = changed
    one = Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=0)
    renewing.add(one)

    async def fail_when_gone() -> None:
        async with renewing.decided(KEY):
            known.clear()
            renewing.release_client("client")
            raise CallRefused(Code.PROXY_TIMEOUT, "no answer")

    with pytest.raises(CallRefused):
        await fail_when_gone()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["1000"]
    renewing.add(one)
    assert len(renewing) == 0


async def test_a_stop_releases_all_that_was_renewed(brokers: ScriptedBrokers) -> None:
    """However many steps that takes: no other front knows their handles."""
    brokers.answers[CHANGE] = changed
    renewing = Renewing(brokers, ProxyConfig(), Clock(), lambda client_id: True)
    for number in range(600):
        renewing.add(Renewed(key=("client", "group", str(number)), topic="normal", message_id="1",
                             handle=parse(KEY[2]), taken_at_ms=0, renewals=number % 2))
    renewing.give_up()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["1000"] * 300
    assert len(renewing) == 300


async def test_a_broker_that_does_not_answer_holds_up_no_other(brokers: ScriptedBrokers,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """More renewals than one lane does at once are due at the one before the other's first is."""
    clock = Clock()
    renewing = Renewing(brokers, ProxyConfig(), clock, lambda client_id: True)
    brokers.answers[CHANGE] = changed
    brokers.dead = "dead"
    for number in range(AT_ONCE_MAX + 10):
        handle = f"0 1000000 60000 1 0 dead 0 {number} 0"
        renewing.add(Renewed(key=("c", "g", handle), topic="normal", message_id="1", handle=parse(handle),
                             taken_at_ms=clock.now_ms))
        renewing.release("g", "normal", [parse(handle)])
    renewing.add(Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=clock.now_ms))
    clock.now_ms += MINUTE_MS
    while renewing.begin_due():
        pass
    monkeypatch.setattr(lanes, "FINISH_MS", 100)
    await renewing.finish()
    asked = [ext["extraInfo"].split()[5] for ext in brokers.asked_for(CHANGE)]
    assert (asked.count("a"), asked.count("dead")) == (1, AT_ONCE_MAX)


async def test_a_change_has_a_time_limit_and_is_tried_again(brokers: ScriptedBrokers,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.proxy.renewing.CHANGE_S_MAX", 0.01)
    clock = Clock()
    renewing = make(brokers, clock)
    brokers.dead = "a"
    clock.now_ms += MINUTE_MS
    renewing.begin_due()
    await renewing.finish()
    assert len(renewing) == 1
    brokers.dead = ""
    brokers.answers[CHANGE] = changed
    clock.now_ms += 5_000
    renewing.begin_due()
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 2


async def test_at_the_end_what_was_renewed_is_released_and_what_was_not_keeps_its_handle(
        brokers: ScriptedBrokers) -> None:
    """A client that goes on at another front has the first handle only."""
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    async with asyncio.timeout(60):
        while not renewing._renewals._kept[KEY].renewals:
            await asyncio.sleep(0)
    later = "0 1045000 60000 1 0 a 0 1 0"
    renewing.add(Renewed(key=("client", "g", later), topic="normal", message_id="2", handle=parse(later),
                         taken_at_ms=clock.now_ms))
    renewing.give_up()
    await renewing.finish()
    asked = [(ext["offset"], ext["invisibleTime"], ext["extraInfo"].split()[1]) for ext in brokers.asked_for(CHANGE)]
    assert asked == [("0", "60000", "1000000"), ("0", "1000", "1045000")]


async def test_what_a_client_has_of_another_group_than_it_left_is_not_renewed_without_it(
        brokers: ScriptedBrokers) -> None:
    clock, known = Clock(), {"client"}
    brokers.answers[CHANGE] = changed
    renewing = Renewing(brokers, ProxyConfig(), clock, known.__contains__)
    renewing.add(Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=clock.now_ms))
    known.clear()
    renewing.release_client("client", "another")
    clock.now_ms += 45_000
    renewing.begin_due()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["1000"]
    assert len(renewing) == 0


async def test_only_what_a_client_has_of_one_group_is_released(brokers: ScriptedBrokers) -> None:
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, Clock())
    renewing.release_client("client", "another")
    assert len(renewing) == 1
    renewing.release_client("client", "g")
    assert len(renewing) == 0
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 1


async def test_a_client_that_had_many_is_released_in_steps_and_at_the_end_whatever_is_left(
        brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    handles = [f"0 1000000 60000 1 0 a 0 {number} 0" for number in range(1, 601)]
    for handle in handles:
        renewing.add(Renewed(key=("client", "many", handle), topic="normal", message_id="1", handle=parse(handle),
                             taken_at_ms=clock.now_ms))
    renewing.release_client("client", "many")
    assert len(renewing) == 601 - 256
    assert renewing.begin_due()
    assert len(renewing) == 601 - 512
    renewing.give_up()
    await renewing.finish()
    asked = brokers.asked_for(CHANGE)
    assert sorted(int(ext["offset"]) for ext in asked) == list(range(1, 601))
    assert {ext["invisibleTime"] for ext in asked} == {"1000"}
    assert len(renewing) == 1
