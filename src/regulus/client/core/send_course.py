"""The course of one send: its attempts, how they ended, and how much of its time is left.

The clock of a send starts when its turn comes and pauses while the send waits for another one, unless `counts_waits` is
set: then the whole call counts. A refused connection costs time but no attempt, because nothing was sent.
"""

from collections.abc import Sequence

from regulus.client.core.resend import SendBudget, is_of_a_gone_queue
from regulus.client.send_result import SendResult
from regulus.errors import ClientError, ConnectRefused, SendFailed, TooManyRequests


class SendCourse:
    """`gone_queues`: how often a broker no longer had the chosen queue. `last_broker`: the broker of the attempt
    before. `is_alone`: that attempt had all the remaining time, because no other broker takes the send. `stored`: the
    message is stored, but with less safety than was asked for (not flushed, or not on a replica).
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
        """Leave `ms` out of the time of the send."""
        self.started_ms += ms

    def begin_attempt(self, broker_name: str, now_ms: int, *, is_alone: bool) -> int:
        """Begin the next attempt and return the ms that it may take; 0 or less when no time is left and none begins.
        `is_alone`: no other broker takes this send."""
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
        """Do not count the last attempt, because no connection was made or the broker has no such queue."""
        self.attempts -= 1

    def failed_for_good(self, now_ms: int) -> SendFailed:
        return SendFailed(topic=self.topic, attempts=len(self.tried), elapsed_ms=now_ms - self.started_ms,
                          brokers=tuple(self.tried), cause=self.failure)

    def end(self, now_ms: int) -> SendResult:
        """End the send; returns the result if the message is stored after all. Raises SendFailed, TooManyRequests."""
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
