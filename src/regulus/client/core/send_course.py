"""The course of one send: what was tried, how it ended, and how much of its time is left.

The clock of a send starts when its turn comes and stands still while it waits for another one, unless `counts_waits`:
then all of the call counts. A connection that is refused costs time and no attempt, because nothing was sent.
"""

from collections.abc import Sequence

from regulus.client.core.resend import SendBudget, is_of_a_gone_queue
from regulus.client.send_result import SendResult
from regulus.errors import ClientError, ConnectRefused, SendFailed, TooManyRequests


class SendCourse:
    """`gone_queues`: how often a broker had no such queue; `last_broker`: that of the attempt just before, and
    `is_alone` says that it had all the time because there is no other; `stored`: a result that is less than was asked
    for, and better than none.
    """

    __slots__ = ("attempts", "budget", "counts_waits", "failure", "gone_queues", "is_alone", "last_broker",
                 "started_ms", "stored", "timeout_ms", "topic", "tried")

    def __init__(self, topic: str, budget: SendBudget, timeout_ms: int, counts_waits: bool, now_ms: int) -> None:
        self.topic = topic
        self.budget = budget
        self.timeout_ms = timeout_ms
        self.counts_waits = counts_waits
        self.started_ms = now_ms
        self.attempts = 0
        self.is_alone = False
        self.tried: list[str] = []
        self.last_broker: str | None = None
        self.failure: ClientError | None = None
        self.gone_queues = 0
        self.stored: SendResult | None = None

    def is_over(self, now_ms: int) -> bool:
        """Whether no attempt or no time is left."""
        return self.attempts == self.budget.attempts or self.left_ms(now_ms) <= 0

    def left_ms(self, now_ms: int) -> int:
        return self.timeout_ms - (now_ms - self.started_ms)

    def stand_still(self, ms: int) -> None:
        """So much time does not count."""
        self.started_ms += ms

    def begin_attempt(self, broker_name: str, now_ms: int, *, is_alone: bool) -> int:
        """What the next attempt may take; 0 or less when no time is left, and then there is none. `is_alone`: no other
        broker takes such a send."""
        self.attempts += 1
        timeout_ms = self.budget.attempt_timeout_ms(self.attempts, self.timeout_ms - (now_ms - self.started_ms),
                                                    is_alone=is_alone)
        if timeout_ms > 0:
            self.is_alone = is_alone and not self.budget.java_budget
            self.last_broker = broker_name
            self.tried.append(broker_name)
        else:
            self.attempts -= 1
        return timeout_ms

    def was_refused(self) -> None:
        """No connection was made, or the broker has no such queue: the attempt counts as none."""
        self.attempts -= 1

    def failed_for_good(self, now_ms: int) -> SendFailed:
        return SendFailed(topic=self.topic, attempts=len(self.tried), elapsed_ms=now_ms - self.started_ms,
                          brokers=tuple(self.tried), cause=self.failure)

    def end(self, now_ms: int) -> SendResult:
        """When there will be no other attempt: what is stored after all. Raises SendFailed, TooManyRequests."""
        if self.stored is not None:
            return self.stored
        has_tried_all = self.attempts == self.budget.attempts or self.is_alone
        if has_tried_all or isinstance(self.failure, ConnectRefused) or is_of_a_gone_queue(self.failure):
            raise self.failed_for_good(now_ms) from self.failure
        raise TooManyRequests(
            f"the time budget of a send to {self.topic} was used up after {now_ms - self.started_ms} ms and "
            f"{self.attempts} of {self.budget.attempts} attempts (brokers {_names(self.tried)}): "
            f"{self.failure or 'no attempt was made'}") from self.failure


def _names(tried: Sequence[str]) -> str:
    return ", ".join(tried) or "none"
