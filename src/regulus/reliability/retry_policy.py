"""When a stub is sent again, and when it is given up: rules without clock and database.

    after send     1     2     3     4      5      6 ... 15    16
    next after    60 s   2 min 4 min 8 min  16 min  30 min     a human decides
"""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.model.resend_rules import ResendLimits

_ATTEMPTS_LIMIT = 1_000

KEEP_MS = 30 * 24 * 3_600_000
"""How long finished stubs are kept: it leaves a human weeks for a stub that was sent the maximum number of times."""
INBOX_KEEP_MS = 45 * 24 * 3_600_000
"""How long a consumer's own database keeps the proof of an effect: longer than a stub that was sent for a week is
kept."""
BROKER_KEEPS_MS = 72 * 3_600_000
RETRIES_MS = ((4 * 60 + 45) * 60 + 40) * 1000
"""The time from the first delivery of a message to its last, the 17th."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendPolicy:
    """An interval must be longer than a consumer's usual lag and work, or slow messages are sent twice."""

    # Resending
    interval_ms: int = 60_000
    """[ms] Time after the first send until a stub without a confirmation is due again; it doubles with each send. Set
    it longer than consumers usually lag and work, or slow messages are sent twice."""
    interval_ms_max: int = 30 * 60_000
    """[ms] Longest such time."""
    attempts_max: int = 16
    """[sends] Sends of a stub, the first included; then it waits for a human."""
    age_max_ms: int = 7 * 24 * 3_600_000
    """[ms] Time from the first send on after which a stub waits for a human, however often it was put off."""

    # What a consumer may still be doing
    stale_ms: int = 130 * 60_000
    """[ms] Age from which a receipt counts no more, so that its message is sent again. Must be more than the next two
    together."""
    retry_gap_ms: int = 120 * 60_000
    """[ms] Longest pause of a broker before a retry of a message: the longest delay level of its retries."""
    lease_ms: int = 5 * 60_000
    """[ms] Longest that one holder of a message, or its claim, has it. Set it longer than any effect takes."""
    down_ms: int = 30 * 60_000
    """[ms] Time without movement after which a queue with waiting stubs counts as one without a consumer."""
    backlog_wait_max_ms: int = 60 * 60_000
    """[ms] Longest that a stub waits for the messages before it in its queue. More resends less behind a long
    backlog."""

    def __post_init__(self) -> None:
        for key in ("down_ms", "backlog_wait_max_ms", "retry_gap_ms", "lease_ms", "age_max_ms"):
            if getattr(self, key) < 1:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be 1 or more")
        if self.stale_ms <= self.retry_gap_ms + self.lease_ms:
            raise ConfigError(f"stale_ms is {self.stale_ms}; it must be more than retry_gap_ms and lease_ms together "
                              f"({self.retry_gap_ms + self.lease_ms}), or what waits for its retry is sent again")
        if self.interval_ms < 1:
            raise ConfigError(f"interval_ms is {self.interval_ms}; it must be 1 or more")
        if self.interval_ms_max < self.interval_ms:
            raise ConfigError(f"interval_ms_max is {self.interval_ms_max}; it must be interval_ms "
                              f"({self.interval_ms}) or more")
        if not 1 <= self.attempts_max <= _ATTEMPTS_LIMIT:
            raise ConfigError(f"attempts_max is {self.attempts_max}; it must be 1 to {_ATTEMPTS_LIMIT}")

    def interval_after(self, send_count: int) -> int:
        """How long to wait for a confirmation after that many sends, at least one."""
        return min(self.interval_ms << (send_count - 1), self.interval_ms_max)

    def growing_intervals(self) -> dict[int, int]:
        """Intervals by the count of sends, while they grow; all later ones are `interval_ms_max`."""
        intervals: dict[int, int] = {}
        for send_count in range(1, self.attempts_max + 1):
            interval = self.interval_after(send_count)
            if interval == self.interval_ms_max:
                break
            intervals[send_count] = interval
        return intervals

    def limits(self, now_ms: int) -> ResendLimits:
        return ResendLimits(now_ms=now_ms, attempts_max=self.attempts_max, fresh_since_ms=now_ms - self.stale_ms,
                            moves_since_ms=now_ms - self.down_ms, sent_since_ms=now_ms - self.age_max_ms)

    @property
    def horizon_ms(self) -> int:
        """The time from the first send of a stub to the last, if it is never postponed."""
        return sum(self.interval_after(send_count) for send_count in range(1, self.attempts_max + 1))


def check_keep_ms(keep_ms: int, policy: ResendPolicy) -> None:
    """Raises ConfigError if copies may still arrive after that time."""
    least_ms = BROKER_KEEPS_MS + RETRIES_MS + policy.age_max_ms
    if keep_ms <= least_ms:
        raise ConfigError(f"keep_ms is {keep_ms}; it must be more than {least_ms} "
                          f"({least_ms / 86_400_000:.1f} days), or a copy that comes late has its effect again, or "
                          "looks like one that was not committed: the broker keeps messages for 72 h, then come their "
                          "retries and resends")
