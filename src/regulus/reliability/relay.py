"""Chooses what a relay sends next, and writes down the results: the blocking part, which uses the database.

Any number of relays may work on one table: each due stub is claimed by one of them, for the interval after which it
would be due again.
"""

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, Engine, select

from regulus.client.core import batching
from regulus.errors import ConfigError
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.model.resend_rules import ResendAction
from regulus.reliability import delays, outbox_table, tables
from regulus.reliability.alarms import AlarmKind, Cause, raise_alarms
from regulus.reliability.background import in_transaction, read_committed
from regulus.reliability.outbox_table import Claim, Failure, Position, Reviewed
from regulus.reliability.retry_policy import ResendPolicy

BATCH_SIZE_MAX = 1 << 20
"""Bytes of one request to a broker."""
BACKLOG_QUEUES_MAX = 10_000
"""Queues whose rate is remembered; beyond it all are measured again."""
_RATE_OVER_MS = 5_000
PLACE_TRIES_MAX = 10
"""Rounds in which the position of a message is written down if its row is not locked.

An effect that takes longer either confirms the stub, which then needs no position, or fails, and the stub is sent again
when it is due.
"""
UNPLACED_MAX = 10_000
"""The maximum number of positions still to be written; the newest are kept."""


class Claimed(NamedTuple):
    """A stub that this relay has claimed for one send."""

    message_id: str
    send_count: int
    message: Message
    first_send_time: int        # of this count: a human's retry has another


class _Unplaced(NamedTuple):
    """A message whose position could not be written down, because its row was locked."""

    position: Position
    tries_left: int


class Review(NamedTuple):
    """The result of a review: the number of stubs due again, those to send, and those left to a human."""

    stubs: int
    claimed: list[Claimed]
    left_to_human: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    # Relay
    policy: ResendPolicy = field(default_factory=ResendPolicy)
    """When stubs are sent again."""
    batch_max: int = 1_000
    """[stubs] Claimed at once, with their bodies in memory together. Less for large bodies."""
    poll_interval_ms: int = 1_000
    """[ms] Pause between two looks at a table where nothing was due, if nothing wakes the relay. Less sends sooner and
    asks the database more often."""

    def __post_init__(self) -> None:
        for key, high in (("batch_max", 10_000), ("poll_interval_ms", 3_600_000)):
            if not 1 <= getattr(self, key) <= high:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be 1 to {high}")


class DueStubs:
    """The stubs of one database, as one relay uses them. One thread may be in `review` while others are in other
    methods.

    `claim` only claims, so that nothing else delays new stubs.
    """

    def __init__(self, engine: Engine, config: RelayConfig) -> None:
        self._engine = read_committed(engine)
        self._config = config
        self._backlog = Backlog()
        self._unplaced: deque[_Unplaced] = deque(maxlen=UNPLACED_MAX)

    def check(self) -> None:
        """Raises ReliabilityRefused when a table is missing or older."""
        with self._engine.connect() as connection:
            tables.check(connection, tables.stubs, tables.confirmations, tables.message_log, tables.watermarks,
                         tables.attempts, tables.alarms)

    def claim(self) -> list[Claimed]:
        """Claim at most `batch_max` stubs that were never sent. Their sends count from now on, whatever happens to
        them, except for those that are given back."""
        return in_transaction(self._engine, self._claim)

    def _claim(self, connection: Connection) -> list[Claimed]:
        claimed = _claimed(outbox_table.claim(connection, self._config.policy, self._config.batch_max))
        put_off_ms = _put_off_delayed(connection, claimed)
        return [each._replace(first_send_time=each.first_send_time + put_off_ms.get(each.message_id, 0))
                for each in claimed]

    def give_back(self, claimed: Sequence[Claimed]) -> None:
        """Give back claims of which nothing was sent, nor will be."""
        in_transaction(self._engine, lambda connection: outbox_table.give_back(
            connection, [Claim(each.message_id, each.send_count, each.first_send_time) for each in claimed]))

    def _place_left(self) -> None:
        """Write the remaining positions. Another relay that searches for rows locks some of ours for a moment, too."""
        # Taken out one by one: `store` adds others from another thread.
        tried = [self._unplaced.popleft() for _ in range(len(self._unplaced))]
        if not tried:
            return
        left = {each.position for each in tried}
        try:
            left = set(in_transaction(self._engine, lambda connection: outbox_table.place(
                connection, [each.position for each in tried])))
        finally:
            self._unplaced.extend(_Unplaced(each.position, each.tries_left - 1)
                                  for each in tried if each.position in left and each.tries_left > 1)

    def review(self) -> Review:
        """Apply the rules to at most `batch_max` stubs that were sent and are due again.

        They are claimed, postponed, or left to a human with the corresponding alarms, in one transaction.
        """
        self._place_left()
        return in_transaction(self._engine, self._review)

    def _review(self, connection: Connection) -> Review:
        policy = self._config.policy
        reviewed = outbox_table.review(connection, policy, self._config.batch_max)
        by_action: dict[ResendAction, list[Reviewed]] = defaultdict(list)
        for each in reviewed:
            by_action[each.action].append(each)
        waits_ms = {each.message_id: policy.interval_ms for each in by_action[ResendAction.WAIT]}
        for each in by_action[ResendAction.POSTPONE] + by_action[ResendAction.CONSUMER_DOWN]:
            waits_ms[each.message_id] = self._backlog.wait_ms(each, policy)
        outbox_table.postpone(connection, waits_ms)
        raise_alarms(connection, _causes(by_action))
        left = [each.message_id for each in by_action[ResendAction.MANUAL]]
        outbox_table.give_up(connection, left)
        again = by_action[ResendAction.RESEND] + by_action[ResendAction.RESEND_AND_TELL]
        claimed = _claimed(outbox_table.claim_again(connection, policy, [each.message_id for each in again]))
        return Review(len(reviewed), claimed, left)

    def store(self, outcomes: Iterable[Position | Failure]) -> None:
        """Write down where messages are stored, and why others failed."""
        positions, failures = [], []
        for outcome in outcomes:
            if isinstance(outcome, Position):
                positions.append(outcome)
            else:
                failures.append(outcome)

        def write(connection: Connection) -> list[Position]:
            left = outbox_table.place(connection, positions)
            outbox_table.note_stored(connection, positions)
            outbox_table.store_failures(connection, failures)
            return left

        left = in_transaction(self._engine, write)
        self._unplaced.extend(_Unplaced(position, PLACE_TRIES_MAX) for position in left)


class Backlog:
    """The rate at which queues are consumed, from two reviews."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}       # offset and time of the first review
        self._rates: dict[str, float] = {}                  # messages per ms

    def wait_ms(self, stub: Reviewed, policy: ResendPolicy) -> int:
        """The time until a stub is probably reached, plus its interval; the interval alone while no rate is known."""
        interval = policy.interval_after(max(1, stub.send_count))
        if stub.queue is None or stub.queue_offset is None or stub.received_up_to is None:
            return interval
        rate = self._rate(stub.queue, stub.received_up_to)
        lag = stub.queue_offset - stub.received_up_to
        return interval + (min(policy.backlog_wait_max_ms, int(lag / rate)) if rate else 0)

    def _rate(self, queue: str, received_up_to: int) -> float:
        now = time.monotonic() * 1000
        first, first_ms = self._seen.setdefault(queue, (received_up_to, now))
        if now - first_ms >= _RATE_OVER_MS:
            self._rates[queue] = max(0, received_up_to - first) / (now - first_ms)
            self._seen[queue] = received_up_to, now
        if len(self._seen) > BACKLOG_QUEUES_MAX:
            self._seen.clear()
            self._rates.clear()
        return self._rates.get(queue, 0.0)


def _causes(by_action: Mapping[ResendAction, Sequence[Reviewed]]) -> Iterator[Cause]:
    for each in by_action[ResendAction.MANUAL]:
        yield Cause(AlarmKind.MANUAL, each.message_id,
                    f"sent {each.send_count} times to {each.topic}, and its effect is not confirmed")
    for each in by_action[ResendAction.RESEND_AND_TELL]:
        yield Cause(AlarmKind.STALE_RECEIPT, each.message_id,
                    f"a consumer of {each.topic} received it long ago and did not finish it")
    for each in by_action[ResendAction.CONSUMER_DOWN]:
        yield Cause(AlarmKind.CONSUMER_DOWN, each.queue or each.topic,
                    "stubs wait in this queue, and no consumer gets on in it")


def _claimed(rows: Sequence[outbox_table.Sent]) -> list[Claimed]:
    return [Claimed(row.message_id, row.send_count,
                    Message(row.topic, row.body, row.tags, properties=_properties(row), flag=row.flag),
                    row.first_send_time)
            for row in rows]


def _put_off_delayed(connection: Connection, claimed: Sequence[Claimed]) -> dict[str, int]:
    """Postpone delayed messages until they are delivered and the interval has passed; returns by how much, by ids."""
    delayed = [each for each in claimed if delays.has_delay(each.message.properties)]
    if not delayed:
        return {}
    now_ms = connection.execute(select(tables.now_ms())).scalar_one()
    waits_ms = {each.message_id: delays.delay_ms(each.message.properties, now_ms) for each in delayed}
    outbox_table.put_off(connection, waits_ms)
    return waits_ms


def _properties(row: outbox_table.Sent) -> dict[str, str]:
    """The properties. For a resend the delay is removed: its time has come."""
    properties = names.parse(row.properties)
    return properties if row.send_count == 1 else delays.without_delay(properties)


def batches(claimed: Sequence[Claimed]) -> Iterator[list[Claimed]]:
    """Split stubs into requests: messages of one topic, without delays, that together are not too large."""
    together: dict[tuple[str, bool], list[Claimed]] = defaultdict(list)
    for stub in claimed:
        if batching.may_gather(stub.message):
            together[stub.message.topic, batching.waits(stub.message)].append(stub)
        else:
            yield [stub]
    for stubs in together.values():
        start = 0
        for batch in batching.split([stub.message for stub in stubs], BATCH_SIZE_MAX):
            yield stubs[start:start + len(batch)]
            start += len(batch)
