"""Puts questions to servers, each with a time limit. A server that does not answer is noted, and does not end the rest.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from regulus.diagnosis.facts import Unknown
from regulus.errors import BrokerRefused, ClientError, HeaderError, RecordError
from regulus.wire.acl_signature import DENIAL
from regulus.wire.codes import ResponseCode

T = TypeVar("T")

ANSWER_WITHIN_S = 5.0
"""Longest wait for the answer to a question."""
MEMBER_ANSWERS_WITHIN_S = 13.0
"""Longest wait for a member's report, for which its broker waits up to 10 s."""
QUESTIONS_AT_ONCE = 8
UNKNOWN_MAX = 100
"""Missing facts that are kept; the number of further ones is not reported."""


class Questions:
    """Notes in `unknown` what was not answered."""

    def __init__(self) -> None:
        self.unknown: list[Unknown] = []
        self._room = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def ask(self, what: str, answer: Awaitable[T], within_s: float = ANSWER_WITHIN_S) -> T | None:
        """The answer; None when there is none, which `what` describes in the note."""
        try:
            return await self.answer(answer, within_s)
        except (ClientError, HeaderError, RecordError) as error:
            self.note(what, error)
            return None

    async def answer(self, answer: Awaitable[T], within_s: float = ANSWER_WITHIN_S) -> T:
        """The answer. Raises ClientError, also when the time is over."""
        async with self._room:
            try:
                async with asyncio.timeout(within_s):
                    return await answer
            except TimeoutError:
                raise ClientError(f"no answer within {within_s:g} s") from None

    def note(self, what: str, error: Exception) -> None:
        self._note(Unknown(what, str(error), is_denial(error)))

    def within(self, things: Sequence[T], count_max: int, noun: str) -> list[T]:
        """The first `count_max` things; the number of the others is noted."""
        if len(things) > count_max:
            self._note(Unknown(f"further {noun}", f"{len(things) - count_max} are beyond the limit of {count_max}"))
        return list(things[:count_max])

    def note_cut(self, what: str, read_max: int) -> None:
        """Note that a limit ended the reading of records before they reached far enough."""
        self._note(Unknown(what, f"only {read_max} records are read"))

    def _note(self, unknown: Unknown) -> None:
        if len(self.unknown) < UNKNOWN_MAX:
            self.unknown.append(unknown)


async def all_of(answers: Iterable[Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*answers))


def is_denial(error: Exception) -> bool:
    """Whether a server denied a request to these credentials."""
    return isinstance(error, BrokerRefused) and (error.code == ResponseCode.NO_PERMISSION
                                                 or error.remark.startswith(DENIAL))
