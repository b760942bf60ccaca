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
        assert handle.pop_time == 1_045_000


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


async def test_after_three_hours_the_message_goes_back_with_the_groups_delay(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 10_800_000
    renewing.begin_due()
    await renewing.finish()
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["1000"]
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
    clock.now_ms += 1_000
    renewing.begin_due()
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 2


async def test_only_what_a_client_has_of_one_group_is_released(brokers: ScriptedBrokers) -> None:
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, Clock())
    renewing.release_client("client", "another")
    assert len(renewing) == 1
    renewing.release_client("client", "g")
    assert len(renewing) == 0
    await renewing.finish()
    assert len(brokers.asked_for(CHANGE)) == 1
