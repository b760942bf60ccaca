"""How the sends that a producer has taken end with it."""

import asyncio

import pytest

from regulus.client.core.resend import SendBudget
from regulus.client.core.send_course import SendCourse
from regulus.client.sending.accepted_sends import HAND_OVER_MAX_MS, AcceptedSends
from regulus.errors import SendCutOff
from tests.virtual_time import in_virtual_time, now_ms


def a_course():
    return SendCourse("T", SendBudget(attempts=1), 3_000, False, 0)


@in_virtual_time
async def test_a_producer_that_was_idle_between_its_sends_waits_for_those_under_way():
    accepted, gate, outcomes = AcceptedSends("PG"), asyncio.Event(), []

    async def send():
        with accepted:
            task = accepted.begin(a_course())
            await gate.wait()
            accepted.end(task)
        outcomes.append("stored")

    with accepted:      # and with its end nothing is under way
        accepted.end(accepted.begin(a_course()))
    sending = asyncio.ensure_future(send())
    await asyncio.sleep(0)
    accepted.close()
    leaving = asyncio.ensure_future(accepted.ended(1_000))
    await asyncio.sleep(0.5)
    assert not leaving.done()
    gate.set()
    await asyncio.gather(sending, leaving)
    assert outcomes == ["stored"]


@in_virtual_time
async def test_what_comes_to_its_turn_after_the_others_were_cut_off_is_not_sent():
    accepted, turn, begun = AcceptedSends("PG"), asyncio.Event(), now_ms()

    async def send():
        with accepted:
            await turn.wait()       # it looks for a queue, and is not to be cut off yet
            accepted.begin(a_course())

    sending = asyncio.ensure_future(send())
    await asyncio.sleep(0)
    accepted.close()
    leaving = asyncio.ensure_future(accepted.ended(0))
    await asyncio.sleep(1)
    turn.set()
    with pytest.raises(SendCutOff, match="before it was the turn of this send"):
        await sending
    await leaving
    assert now_ms() - begun < HAND_OVER_MAX_MS


@in_virtual_time
async def test_a_send_that_ends_as_it_is_cut_off_is_not_cancelled_later():
    accepted, never = AcceptedSends("PG"), asyncio.Event()

    async def send():
        with accepted:
            task = accepted.begin(a_course())
            try:
                await never.wait()
            except asyncio.CancelledError:
                pass                # as `asyncio.wait_for`, whose result is there in the same moment
            finally:
                accepted.end(task)
            return task.cancelling()

    sending = asyncio.ensure_future(send())
    await asyncio.sleep(0)
    accepted.close()
    await accepted.ended(0)
    assert await sending == 0
