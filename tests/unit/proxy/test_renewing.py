"""Renewals carried out, beside clients that decide meanwhile."""

import asyncio

import pytest

from regulus.errors import CallRefused
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receipt_handle import parse
from regulus.proxy.renewals import Renewed
from regulus.proxy.renewing import Renewing
from regulus.wire.codes import RequestCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.proxy.scripted_brokers import ScriptedBrokers

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
    renewing = Renewing(brokers, ProxyConfig(), clock)
    renewing.add(Renewed(key=KEY, topic="normal", message_id="1", handle=parse(KEY[2]), taken_at_ms=clock.now_ms))
    return renewing


async def settled(renewing: Renewing) -> None:
    await asyncio.gather(*renewing._tasks.all())


async def test_the_handle_that_was_given_stands_for_the_newest(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    await settled(renewing)
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
    await settled(renewing)
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)] == ["1000"]
    assert len(renewing) == 0


async def test_a_client_that_is_gone_while_its_message_is_renewed_does_not_keep_it(brokers: ScriptedBrokers) -> None:
    clock = Clock()
    brokers.answers[CHANGE] = changed
    renewing = make(brokers, clock)
    clock.now_ms += 45_000
    renewing.begin_due()
    await renewing.release_all("client")
    await settled(renewing)
    assert [ext["invisibleTime"] for ext in brokers.asked_for(CHANGE)][-1] == "1000"
    assert len(renewing) == 0
