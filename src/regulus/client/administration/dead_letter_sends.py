"""Carries out the plan of a redrive: sends dead letters to their topics, one at a time, the oldest first.

A message that was sent says so in the log, by REDRIVE_OF. Nothing else is remembered: a run that ends anywhere is
continued by the next one. A send without an answer may have stored its message, so it is not repeated in the same run;
the next run sees in the log whether it did. Messages of one sharding key stay in order: when one is not sent, those
after it are not sent either.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from regulus.client.administration.admin import Admin
from regulus.client.administration.dead_letters import (
    DeadLetter,
    PlannedLetter,
    QueueRange,
    RedrivePlan,
    letters_in,
    made_of,
    marked_in,
)
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.core.queue_selector import RoundRobin, select_by_hash
from regulus.client.core.token_bucket import TokenBucket
from regulus.client.send_result import SendResult
from regulus.client.sending.producer import Producer
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientError,
    ConnectFailed,
    JobRefused,
    MessageIllegal,
    NoRoute,
    RequestTooLarge,
    SendFailed,
    TooManyRequests,
)
from regulus.model import message_properties as names
from regulus.model import redrive as rules
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.receipt_handle import retry_topic_v1, retry_topic_v2
from regulus.model.topics import SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic, retry_topic

UNKNOWN, NOT_SENT = "result unknown", "not sent"
BEHIND, GONE, UNREADABLE = "behind another of its sharding key", "gone meanwhile", "body unreadable"
"""Statuses of letters that were to be sent, besides SENT, and TO_SEND of those whose turn did not come."""

FAILURES_MAX = 3
"""Sends that fail one after another, after which a run stops."""
CANARY_WAIT_MS = 120_000
"""How long the group may take to consume the first letters."""
CANARY_POLL_MS = 500
PROBLEMS_MAX = 20
"""Failures that a report names; others are counted."""
PRODUCER_GROUP = "regulus_redrive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`rate`: messages a second at most; None: as fast as brokers take them. `canary`: the number of messages that are
    sent first; the others follow only if the group consumes these within `canary_wait_ms`, and none comes back."""

    rate: float | None = None
    canary: int = 0
    canary_wait_ms: int = CANARY_WAIT_MS


@dataclass(slots=True)
class RedriveReport:
    """What a run did. `stopped`: why it ended early; empty if it did not. `problems`: the first letters that were not
    sent, or of which that is unknown, with the reason."""

    plan: RedrivePlan
    counts: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    problems: list[tuple[str, str]] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Letters whose turn did not come."""
        return len(self.plan.to_send) - sum(self.counts.values())

    def by_status(self) -> dict[str, int]:
        """All letters of the plan by status."""
        found = {**self.plan.by_status(), **self.counts}
        found.pop(rules.TO_SEND, None)
        return found | ({rules.TO_SEND: self.left} if self.left else {})

    @property
    def is_whole(self) -> bool:
        """Whether all letters were sent that were to be sent."""
        return self.counts[rules.SENT] == len(self.plan.to_send)

    def sentence(self) -> str:
        said = rules.sentence(self.by_status(), is_dry_run=False, brokers=(), other_topic="--to-topic")
        said += "".join(f", {self.counts[status]} {text}" for status, text in _IN_WORDS.items() if self.counts[status])
        if self.left:
            said += f", {self.left} left"
        stopped = f"; stopped: {self.stopped}" if self.stopped else ""
        return f"{said}{rules.names_of(self.plan.brokers)}{stopped}"

    def failed(self, place: str, status: str, reason: str) -> None:
        self.counts[status] += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append((place, f"{status}: {reason}"))


_IN_WORDS = {UNKNOWN: "whose result is unknown (the next run finds out)", NOT_SENT: "not sent: see the errors",
             BEHIND: "not sent: behind another of their sharding key", GONE: "gone meanwhile",
             UNREADABLE: "not sent: their bodies cannot be unpacked"}


class _Sent(NamedTuple):
    place: str
    queue: MessageQueue
    queue_offset: int


class Redrive:
    """One run. `report` says at any time what was done; it is also valid after `run` was cancelled, which ends the run
    after the send that is under way."""

    def __init__(self, admin: Admin, plan: RedrivePlan, pace: Pace, say: Callable[[str], None]) -> None:
        self.report = RedriveReport(plan)
        self._admin = admin
        self._plan = plan
        self._pace = pace
        self._say = say
        self._turn = RoundRobin(0)
        self._held: set[tuple[str, str]] = set()
        """Topics and sharding keys of which a letter was not sent."""
        self._failures = 0

    async def run(self, producer: Producer) -> None:
        """Send what is to be sent. Raises JobRefused when a topic was created again since it was planned."""
        plan, pace = self._plan, self._pace
        if not plan.to_send:
            return
        topics = list(plan.by_topic())
        made = {topic: plan.made[topic] for topic in topics if topic in plan.made}
        if await made_of(self._admin, topics) != made:
            raise JobRefused("a topic was created again while its messages were read: nothing was sent; run this again")
        bucket = TokenBucket(pace.rate, 1, steady_ms()) if pace.rate else None
        canary = _Canary(self._admin, plan) if pace.canary else None
        if canary is not None:
            await canary.begin()
        waiting = {letter.place: letter for letter in plan.to_send}
        try:
            async for letter in letters_in(self._admin, plan.wish.group, _ranges(plan.to_send)):
                planned = waiting.pop(letter.place, None)
                if planned is None:
                    continue
                if bucket is not None:
                    while wait_ms := bucket.take(1, steady_ms()):
                        await asyncio.sleep(wait_ms / 1000)
                sent = await self._send(producer, letter, planned.topic)
                if self._failures >= FAILURES_MAX:
                    self.report.stopped = f"{FAILURES_MAX} sends failed one after another"
                    return
                if canary is not None and sent is not None and canary.note(sent) == pace.canary and waiting:
                    self._say(f"{pace.canary} sent, waiting until group {plan.wish.group} has consumed them")
                    if fault := await canary.fault(pace.canary_wait_ms):
                        self.report.stopped = f"of the first {pace.canary}, {fault}"
                        return
        except asyncio.CancelledError:
            self.report.stopped = "interrupted"
            raise
        for place in waiting:
            self.report.failed(place, GONE, "its queue no longer has it")

    async def _send(self, producer: Producer, letter: DeadLetter, topic: str) -> _Sent | None:
        """Send a letter and note what became of it."""
        report = self.report
        key = letter.message.properties.get(names.SHARDING_KEY)
        if letter.unreadable:
            report.failed(letter.place, UNREADABLE, letter.unreadable)
        elif key is not None and (topic, key) in self._held:
            report.counts[BEHIND] += 1
            return None
        else:
            message = message_again(letter, topic)
            sending = asyncio.ensure_future(self._stored(producer, message, key))
            try:
                result = await asyncio.shield(sending)
            except asyncio.CancelledError:
                # The message may be on its way: its answer says whether it was stored.
                await asyncio.wait([sending])
                self._note(letter.place, sending)
                raise
            except (ClientError, MessageIllegal):
                self._note(letter.place, sending)
            else:
                self._note(letter.place, sending)
                return _Sent(letter.place, result.message_queue, result.queue_offset)
        if key is not None:
            self._held.add((topic, key))
        return None

    async def _stored(self, producer: Producer, message: Message, key: str | None) -> SendResult:
        """Send to one queue, in one attempt."""
        queues = await producer.fetch_publish_message_queues(message.topic)
        queue = self._turn.select(queues) if key is None else select_by_hash(queues, message, key)
        return await producer.send(message, queue=queue)

    def _note(self, place: str, sending: "asyncio.Future[SendResult]") -> None:
        error = sending.exception()
        if error is None:
            self.report.counts[rules.SENT] += 1
            self._failures = 0
            return
        if not isinstance(error, (ClientError, MessageIllegal)):
            raise error
        self._failures += 1
        self.report.failed(place, NOT_SENT if is_not_stored(error) else UNKNOWN, str(error))


def message_again(letter: DeadLetter, topic: str) -> Message:
    """The message to send for a dead letter: as its producer sent it, with the letter's place."""
    message = letter.message
    return Message(topic, message.body, properties=rules.kept_properties(message.properties, letter.place),
                   flag=message.flag)


def is_not_stored(error: Exception) -> bool:
    """Whether it is certain that a send that failed stored nothing."""
    if isinstance(error, SendFailed) and error.cause is not None:
        return is_not_stored(error.cause)
    if isinstance(error, AnswerUnreadable):
        return False
    return isinstance(error, (BrokerRefused, ConnectFailed, MessageIllegal, NoRoute, RequestTooLarge, TooManyRequests))


def _ranges(letters: list[PlannedLetter]) -> list[QueueRange]:
    """The parts of the queues that have the letters."""
    ends: dict[MessageQueue, tuple[int, int]] = {}
    for letter in letters:
        low, high = ends.get(letter.queue, (letter.queue_offset, letter.queue_offset))
        ends[letter.queue] = min(low, letter.queue_offset), max(high, letter.queue_offset)
    return [QueueRange(queue, low, high + 1) for queue, (low, high) in sorted(ends.items())]


class _Canary:
    """The first letters that are sent, and what the group makes of them.

    A message that fails is first a copy among the delayed ones, then in a retry topic, at last a dead letter. The group
    stores its offset after it has sent back what failed, so a copy is in the log by then.
    """

    def __init__(self, admin: Admin, plan: RedrivePlan) -> None:
        self._admin = admin
        self._group = plan.wish.group
        topics = list(plan.by_topic())
        self._retry_topics = frozenset((retry_topic(self._group), *(
            make(topic, self._group) for topic in topics for make in (retry_topic_v1, retry_topic_v2))))
        self._sent: list[_Sent] = []
        self._seen: dict[MessageQueue, int] = {}
        self._back: set[str] = set()

    async def begin(self) -> None:
        """Note the ends of the queues in which copies would appear."""
        self._seen = {queue: (await self._admin.queue_state(queue)).max_offset for queue in await self._queues()}

    def note(self, sent: _Sent) -> int:
        """Add a letter that was sent; returns how many there are."""
        self._sent.append(sent)
        return len(self._sent)

    async def fault(self, wait_ms: int) -> str:
        """Why the others should not be sent; empty if the group consumed the first ones, and none came back."""
        until_ms = steady_ms() + wait_ms
        while True:
            left = await self._not_consumed()
            if back := await self._came_back():
                return f"{back} came back to be tried again: the cause is not mended"
            if not left:
                return ""
            if steady_ms() >= until_ms:
                return f"{left} were not consumed within {wait_ms // 1000} s"
            await asyncio.sleep(CANARY_POLL_MS / 1000)

    async def _not_consumed(self) -> int:
        offsets = {queue: await self._admin.group_offset(self._group, queue) or 0
                   for queue in {sent.queue for sent in self._sent}}
        return sum(offsets[sent.queue] <= sent.queue_offset for sent in self._sent)

    async def _came_back(self) -> int:
        places = {sent.place for sent in self._sent}
        for queue in await self._queues():
            end = (await self._admin.queue_state(queue)).max_offset
            async for message in marked_in(self._admin, QueueRange(queue, self._seen.get(queue, 0), end)):
                home = message.properties.get(names.REAL_TOPIC) if queue.topic in _DELAYED else queue.topic
                place = message.properties[rules.REDRIVE_OF]
                if place in places and (home in self._retry_topics or home == dlq_topic(self._group)):
                    self._back.add(place)
            self._seen[queue] = end
        return len(self._back)

    async def _queues(self) -> list[MessageQueue]:
        queues: list[MessageQueue] = []
        for topic in (*_DELAYED, *sorted(self._retry_topics), dlq_topic(self._group)):
            try:
                queues += await self._admin.queues(topic)
            except NoRoute:
                continue    # nothing was delayed or came back yet
        return queues


_DELAYED = (SCHEDULE_TOPIC, TIMER_TOPIC)
