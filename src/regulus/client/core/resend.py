"""Decides what happens after an attempt of a send: whether there is another one, when it starts, and its time limit.

All attempts of a call share one time budget. RocketMQ gives each attempt all the time that is left, so that one broker
that does not answer uses up the budget and no retry happens. We divide the time that is left by the attempts that are
left, unless `attempt_timeout_max_ms` is set or `java_budget` asks for RocketMQ's way. Two kinds of sends wait for an
answer as long as there is time: those that must not be repeated without an answer, and those for which there is only
one broker. That broker would store the message twice, once it continues.

A broker that throttles (SYSTEM_BUSY) is left alone: first for 1 s from the start of the attempt, then 1.6 times as long
each time, at most 120 s, plus or minus a fifth. A broker that refuses connections is left alone, too: for 50 ms, then
twice as long each time, at most 1 s, because most brokers that are killed are back soon. A send whose time ends before
its broker's rest tries that broker once more, 200 ms before the end. A queue that the broker no longer has costs no
attempt: the route is fetched again, and if it still has the queue, there is such a pause before the next attempt. After
any other failure that may be retried, the next attempt begins at once, with another broker or the same one.

Source: DefaultMQProducerImpl.sendDefaultImpl, DefaultMQProducer.retryResponseCodes.
"""

from collections.abc import Set
from dataclasses import dataclass

from regulus.errors import BrokerRefused, ClientError
from regulus.wire.acl_signature import DENIAL
from regulus.wire.codes import ResponseCode

RETRY_CODES: frozenset[int] = frozenset({
    ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY})
"""Answers after which RocketMQ 5.3.1 and later try another broker."""

RETRY_CODES_4_9: frozenset[int] = RETRY_CODES - {ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY}

BACK_OFF_FIRST_MS = 1000
BACK_OFF_MULTIPLIER = 1.6
BACK_OFF_JITTER = 0.2
BACK_OFF_MAX_MS = 120_000
REFUSED_FIRST_MS = 50
REFUSED_MULTIPLIER = 2
REFUSED_MAX_MS = 1000
REFUSED_LAST_MS = 200
"""ms before the end of a send at which its last attempt begins."""
TIMER_EARLY_MAX_MS = 1
_GONE_QUEUE_CODES = (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR)
_GONE_QUEUE = "request queueId["
"""Source: AbstractSendMessageProcessor.msgCheck."""


def is_worth_a_retry(refusal: BrokerRefused, codes: Set[int]) -> bool:
    """Whether another attempt may succeed. It cannot after a denial of access, whatever the code."""
    return refusal.code in codes and not (refusal.remark or "").startswith(DENIAL)


def names_a_gone_queue(code: int, remark: str | None) -> bool:
    """Whether a broker refused a send because it has no such queue: the topic has fewer queues than when its route was
    fetched, and nothing is stored. RocketMQ 4 answers SYSTEM_ERROR."""
    return code in _GONE_QUEUE_CODES and (remark or "").startswith(_GONE_QUEUE)


def is_of_a_gone_queue(error: ClientError | None) -> bool:
    return isinstance(error, BrokerRefused) and names_a_gone_queue(error.code, error.remark)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBudget:
    """How the time of a call is divided among its attempts, of which there are at most `attempts`."""

    attempts: int
    attempt_timeout_max_ms: int = -1
    java_budget: bool = False
    resends_without_answer: bool = True

    def attempt_timeout_ms(self, attempt: int, left_ms: int, *, is_alone: bool = False) -> int:
        """ms of the remaining `left_ms` that attempt number `attempt` (from 1) may take; 0 or less when no time is
        left. `is_alone`: no other broker could take the next attempt."""
        attempts_left = self.attempts - attempt + 1
        if attempts_left <= 1 or left_ms <= 0:
            return left_ms
        if self.attempt_timeout_max_ms >= 0:
            return min(left_ms, self.attempt_timeout_max_ms)
        if is_alone or self.java_budget or not self.resends_without_answer:
            return left_ms
        return max(1, left_ms // attempts_left)


@dataclass(slots=True)
class _Rest:
    step_ms: float
    until_ms: int
    is_throttling: bool

    def was_over(self, started_ms: int) -> bool:
        """Whether an attempt began after the rest. A timer may go off a little early."""
        return started_ms >= self.until_ms - TIMER_EARLY_MAX_MS


class BackOff:
    """The brokers that are left alone after throttling or a refused connection, and until when.

    Several sends to a broker may be under way: only an attempt that began after the last rest makes the next longer.
    """

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}

    def throttled(self, broker_name: str, started_ms: int, jitter: float) -> None:
        """A broker answered SYSTEM_BUSY to an attempt that began at `started_ms`. `jitter` is in -1 .. 1."""
        rest = self._rests.get(broker_name)
        if rest is None or not rest.is_throttling:
            self._rests[broker_name] = _Rest(BACK_OFF_FIRST_MS, started_ms + BACK_OFF_FIRST_MS, True)
        elif rest.was_over(started_ms):
            rest.step_ms = min(rest.step_ms * BACK_OFF_MULTIPLIER, BACK_OFF_MAX_MS)
            rest.until_ms = started_ms + round(rest.step_ms * (1 + BACK_OFF_JITTER * jitter))

    def refused(self, broker_name: str, started_ms: int, now_ms: int) -> None:
        """A broker refused the connection of an attempt that began at `started_ms`; it rests from `now_ms` on."""
        rest = self._rests.get(broker_name)
        if rest is None or rest.is_throttling:
            self._rests[broker_name] = _Rest(REFUSED_FIRST_MS, now_ms + REFUSED_FIRST_MS, False)
        elif rest.was_over(started_ms):
            rest.step_ms = min(rest.step_ms * REFUSED_MULTIPLIER, REFUSED_MAX_MS)
            rest.until_ms = now_ms + round(rest.step_ms)

    def succeeded(self, broker_name: str) -> None:
        if self._rests:
            self._rests.pop(broker_name, None)

    @property
    def is_idle(self) -> bool:
        """True when no broker throttled or refused since its last success."""
        return not self._rests

    def wait_ms(self, broker_name: str, now_ms: int) -> int:
        """ms that the broker still rests; 0 when it may be used now."""
        rest = self._rests.get(broker_name)
        return 0 if rest is None else max(0, rest.until_ms - now_ms)

    def throttles(self, broker_name: str) -> bool:
        """Whether the broker rests because of throttling, not because of a refused connection."""
        rest = self._rests.get(broker_name)
        return rest is not None and rest.is_throttling

    def resting(self, now_ms: int) -> frozenset[str]:
        """The brokers that rest now."""
        if not self._rests:
            return frozenset()
        return frozenset(name for name, rest in self._rests.items() if rest.until_ms > now_ms)


def refused_pause_ms(rest_ms: int, left_ms: int, *, has_tried: bool) -> int | None:
    """ms that a send waits for a broker that refused connections and still rests for `rest_ms`; None: it gives up.

    A send that has not tried yet tries now rather than at its end, because the broker may be back already.
    """
    if rest_ms < left_ms:
        return rest_ms
    if not has_tried:
        return 0
    return left_ms - REFUSED_LAST_MS if left_ms > REFUSED_LAST_MS else None
