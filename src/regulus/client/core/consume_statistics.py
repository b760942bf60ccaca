"""Measures how fast topics are consumed, for the running info that brokers request. Source: ConsumerStatsManager."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_MS = 60_000


class Rates(NamedTuple):
    """Messages a second over the last minute; mean times in ms; `failed` counts the last hour's failures."""

    pull_rt: float
    pull_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    failed: int


class _Totals(NamedTuple):
    at_ms: int
    pulls: int
    pulled: int
    pull_ms: int
    calls: int
    ok: int
    failed: int
    consume_ms: int


@dataclass(slots=True)
class TopicStatistics:
    """Counts as they grow; `sample` keeps a reading, and `rates` compares now with the oldest reading kept."""

    pulls: int = 0
    pulled: int = 0
    pull_ms: int = 0
    calls: int = 0
    ok: int = 0
    failed: int = 0
    consume_ms: int = 0
    _samples: deque[_Totals] = field(default_factory=deque)

    def pulled_messages(self, count: int, spent_ms: int) -> None:
        self.pulls += 1
        self.pulled += count
        self.pull_ms += spent_ms

    def consumed(self, ok: int, failed: int, spent_ms: int) -> None:
        self.calls += 1
        self.ok += ok
        self.failed += failed
        self.consume_ms += spent_ms

    def sample(self, now_ms: int) -> None:
        self._samples.append(self._totals(now_ms))
        while now_ms - self._samples[0].at_ms > WINDOW_MS:
            self._samples.popleft()

    def rates(self, now_ms: int) -> Rates:
        new = self._totals(now_ms)
        old = self._samples[0] if self._samples else new._replace(at_ms=now_ms - 1)
        seconds = max(1, now_ms - old.at_ms) / 1000
        pulls, calls = new.pulls - old.pulls, new.calls - old.calls
        return Rates(
            pull_rt=(new.pull_ms - old.pull_ms) / pulls if pulls else 0.0,
            pull_tps=(new.pulled - old.pulled) / seconds,
            consume_rt=(new.consume_ms - old.consume_ms) / calls if calls else 0.0,
            consume_ok_tps=(new.ok - old.ok) / seconds,
            consume_failed_tps=(new.failed - old.failed) / seconds,
            failed=new.failed)

    def _totals(self, now_ms: int) -> _Totals:
        return _Totals(now_ms, self.pulls, self.pulled, self.pull_ms, self.calls, self.ok, self.failed, self.consume_ms)
