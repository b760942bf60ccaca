"""Chooses the brokers that a producer avoids, after it found them slow or failing.

Each strategy answers with tiers: sets of brokers to avoid, the strictest first. The first tier that leaves a broker is
used. When none does, queues are taken in turn as if nothing had happened, because a send that may fail is better than
one that certainly fails.

Source: MQFaultStrategy, LatencyFaultToleranceImpl.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from regulus.model.message_queue import MessageQueue

LATENCY_MAX = (50, 100, 550, 1000, 1800, 2000, 3000, 5000, 15000)
NOT_AVAILABLE_DURATION = (0, 0, 2000, 2000, 5000, 5000, 6000, 10000, 30000)
NOT_AVAILABLE_DURATION_4_9 = (0, 0, 30000, 60000, 60000, 120000, 180000, 180000, 600000)
FAILURE_LATENCY_MS = 10_000
FAILURE_LATENCY_4_9_MS = 30_000
RECOVERY_PERIOD_MS = 30_000


class AttemptOutcome(Enum):
    """How an attempt ended, in the categories that matter to isolation."""

    SUCCESS = "the broker stored the message"
    CLIENT_FAULT = "nothing was sent"
    TRANSPORT_FAULT = "no connection, or no answer"
    BROKER_FAULT = "the broker answered with an error"


_FAILURES = (AttemptOutcome.TRANSPORT_FAULT, AttemptOutcome.BROKER_FAULT)


class FaultIsolation(Protocol):
    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        """An attempt ended."""

    def tiers(self, brokers: Collection[str], last_broker: str | None, now_ms: int) -> Sequence[frozenset[str]]:
        """Sets of brokers to avoid, strictest first. `last_broker`: in a retry, the broker of the attempt before."""


class NoIsolation:
    """Avoids a broker only in a retry: the one that just failed."""

    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        pass

    def tiers(self, brokers: Collection[str], last_broker: str | None, now_ms: int) -> Sequence[frozenset[str]]:
        return () if last_broker is None else (frozenset((last_broker,)),)


NO_ISOLATION = NoIsolation()


class LatencyIsolation:
    """RocketMQ's own strategy: the slower the answer, the longer the broker is avoided.

    Since 5.1.4 a later deadline replaces an earlier one and a quick success does not end isolation; in 4.9 each report
    replaces the deadline.
    """

    def __init__(self, *, rules_4_9: bool = False) -> None:
        self._rules_4_9 = rules_4_9
        self._durations = NOT_AVAILABLE_DURATION_4_9 if rules_4_9 else NOT_AVAILABLE_DURATION
        self._failure_latency_ms = FAILURE_LATENCY_4_9_MS if rules_4_9 else FAILURE_LATENCY_MS
        self._until_ms: dict[str, int] = {}
        self._unreachable: set[str] = set()

    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        isolates = outcome in _FAILURES or (self._rules_4_9 and outcome is AttemptOutcome.CLIENT_FAULT)
        until = now_ms + self.duration_ms(self._failure_latency_ms if isolates else latency_ms)
        if self._rules_4_9 or until > max(now_ms, self._until_ms.get(broker_name, 0)):
            self._until_ms[broker_name] = until
        if outcome is AttemptOutcome.BROKER_FAULT:
            self._unreachable.add(broker_name)
        else:
            self._unreachable.discard(broker_name)

    def duration_ms(self, latency_ms: int) -> int:
        """The duration of the highest bucket whose bound is at or below the latency; 0 below the first."""
        bucket = bisect_right(LATENCY_MAX, latency_ms) - 1
        return self._durations[bucket] if bucket >= 0 else 0

    def tiers(self, brokers: Collection[str], last_broker: str | None, now_ms: int) -> Sequence[frozenset[str]]:
        unavailable = frozenset(name for name in brokers if self._until_ms.get(name, 0) > now_ms)
        if self._rules_4_9:
            return unavailable, self._worse_half(brokers)
        last = frozenset(() if last_broker is None else (last_broker,))
        return unavailable | last, frozenset(self._unreachable) | last, last

    def _worse_half(self, brokers: Collection[str]) -> frozenset[str]:
        by_deadline = sorted(brokers, key=lambda name: self._until_ms.get(name, 0))
        return frozenset(by_deadline[max(1, len(by_deadline) // 2):])


class FailureTimeIsolation:
    """Avoids brokers that failed within the last `period_ms`."""

    def __init__(self, period_ms: int = RECOVERY_PERIOD_MS) -> None:
        self._period_ms = period_ms
        self._failed_ms: dict[str, int] = {}

    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        if outcome in _FAILURES:
            self._failed_ms[broker_name] = now_ms

    def tiers(self, brokers: Collection[str], last_broker: str | None, now_ms: int) -> Sequence[frozenset[str]]:
        failed = frozenset(name for name in brokers
                           if name in self._failed_ms and now_ms - self._failed_ms[name] < self._period_ms)
        return failed | frozenset(() if last_broker is None else (last_broker,)), failed


class FlagIsolation(FailureTimeIsolation):
    """A flag per broker, set by a failure, cleared by a success or after a full period without one."""

    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        super().report(broker_name, outcome, latency_ms, now_ms)
        if outcome is AttemptOutcome.SUCCESS:
            self._failed_ms.pop(broker_name, None)


class CounterIsolation:
    """Prefers the brokers with the fewest failures; counts fall by half each period, so that old ones are forgiven."""

    def __init__(self, period_ms: int = RECOVERY_PERIOD_MS) -> None:
        self._period_ms = period_ms
        self._counts: dict[str, float] = {}
        self._decayed_ms: dict[str, int] = {}

    def report(self, broker_name: str, outcome: AttemptOutcome, latency_ms: int, now_ms: int) -> None:
        if outcome in _FAILURES:
            self._counts[broker_name] = self._count(broker_name, now_ms) + 1
            self._decayed_ms[broker_name] = now_ms

    def tiers(self, brokers: Collection[str], last_broker: str | None, now_ms: int) -> Sequence[frozenset[str]]:
        counts = {name: int(self._count(name, now_ms)) for name in brokers}
        fewest = min(counts.values(), default=0)
        return (frozenset(name for name, count in counts.items() if count > fewest),)

    def _count(self, broker_name: str, now_ms: int) -> float:
        periods = (now_ms - self._decayed_ms.get(broker_name, now_ms)) // self._period_ms
        return float(self._counts.get(broker_name, 0.0) / (1 << min(periods, 64)))


STRATEGIES: Mapping[str, Callable[[], FaultIsolation]] = MappingProxyType({
    "NONE": lambda: NO_ISOLATION,
    "LATENCY": LatencyIsolation,
    "LATENCY_4_9": lambda: LatencyIsolation(rules_4_9=True),
    "FAILURE_TIME": FailureTimeIsolation,
    "FLAG": FlagIsolation,
    "COUNTER": CounterIsolation,
})


def brokers_to_avoid(queues: Sequence[MessageQueue], tiers: Sequence[frozenset[str]]) -> frozenset[str]:
    """The first tier that leaves a broker among the queues; empty when none does."""
    for tier in tiers:
        if any(queue.broker_name not in tier for queue in queues):
            return tier
    return frozenset()
