"""Questions have a time limit and a number of places, and note what is not answered."""

import asyncio

import pytest

from regulus.diagnosis import asking
from regulus.diagnosis.asking import QUESTIONS_AT_ONCE, UNKNOWN_MAX, Questions, all_of
from regulus.diagnosis.facts import Unknown
from regulus.errors import BrokerRefused, ClientError


async def answer(value):
    if isinstance(value, Exception):
        raise value
    return value


async def test_what_is_not_answered_is_noted_and_ends_nothing():
    questions = Questions()
    found = await all_of(questions.ask(f"fact {number}", answer(value)) for number, value in enumerate(
        (1, ClientError("gone"), BrokerRefused(16, "no permission", "b"), 2)))
    assert found == [1, None, None, 2]
    assert questions.unknown == [Unknown("fact 1", "gone"),
                                 Unknown("fact 2", "b answered 16: no permission", is_denied=True)]


async def test_a_question_that_takes_too_long_is_not_answered():
    questions = Questions()
    assert await questions.ask("it", asyncio.Event().wait(), 0.001) is None
    assert questions.unknown == [Unknown("it", "no answer within 0.001 s")]


async def test_few_questions_are_asked_at_once_and_few_notes_are_kept():
    questions = Questions()
    running = most = 0

    async def ask():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        raise ClientError("no")

    await all_of(questions.ask("it", ask()) for _ in range(2 * UNKNOWN_MAX))
    assert most == QUESTIONS_AT_ONCE
    assert len(questions.unknown) == UNKNOWN_MAX


@pytest.mark.parametrize(("error", "is_denied"), [
    (BrokerRefused(16, "x"), True), (BrokerRefused(1, "org.apache.rocketmq.acl.common.AclException: x"), True),
    (BrokerRefused(1, "x"), False), (ClientError("x"), False)])
def test_a_denial_is_told_from_other_refusals(error, is_denied):
    assert asking.is_denial(error) is is_denied


def test_what_a_limit_leaves_out_is_noted():
    questions = Questions()
    assert questions.within([1, 2], 2, "queues") == [1, 2]
    assert questions.unknown == []
    assert questions.within([1, 2, 3], 2, "queues") == [1, 2]
    assert questions.unknown == [Unknown("further queues", "1 are beyond the limit of 2")]
