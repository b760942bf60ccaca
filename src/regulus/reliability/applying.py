"""What blocking and asynchronous listeners of an inbox have in common: all but who waits.

    gate        a claim, so that a copy leaves alone what another works on
    receipt     in a transaction of its own, before anything is done
    judge       in the effect's transaction; then the effect, which may not end it, its row of the ledger, and the
                receipt goes
    behind      the claim is kept or given back, and the stub's database told where that is another one
"""

import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from regulus.client.foreign_calls import call
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ClaimUnavailable, ReliabilityRefused
from regulus.model.message import MessageExt
from regulus.reliability import delivery_log, effect_transaction, tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.reliability.delivery_log import Delivery, Outcome
from regulus.reliability.judges import InboxJudge, Judge, StubJudge, Taken

_log = logging.getLogger(__name__)

MISSING_TRIES_MAX = 3
"""Deliveries of a message without a stub, before it is parked among the dead letters."""
CONFLICT_TRIES_MAX = 3
"""Times that an effect is made, because the database ended its transaction for another's sake."""
CONFLICT_PAUSE_S = 0.05
SETTLED = frozenset({Outcome.APPLIED, Outcome.DONE, Outcome.VOIDED})
"""Outcomes after which a message need not come again."""

_DEAD_LETTER = -1
_CONFLICTS = frozenset({"40001", "40P01", "1213", "1205", "1020"})
"""PostgreSQL: serialization failure, deadlock. MySQL and MariaDB: deadlock, lock wait timeout, record has changed."""


class Claims(Protocol):
    """`RedisClaims`, or another gate of the same kind. Each method may raise ClaimUnavailable."""

    @property
    def lease_ms(self) -> int: ...

    def check(self) -> None: ...

    def win(self, message_id: str, token: str) -> bool: ...

    def is_done(self, message_id: str) -> bool: ...

    def release(self, message_id: str, token: str) -> None: ...

    def finish(self, message_id: str, token: str) -> None: ...


class Claim(NamedTuple):
    """What came of asking for one. `is_open`: the effect may be begun, for the database decides; False where another
    holds it. `token`: what we hold it by, empty where we do not; `is_certain`: False where no answer said whether we
    do."""

    is_open: bool
    token: str = ""
    is_certain: bool = True


class Confirms(Protocol):
    """Tells the stub's database of an effect that is committed in another one."""

    def confirm(self, message_id: str, consumer_group: str) -> None: ...


class Applying:
    """A listener without its engine. What takes a connection runs in the transaction that the caller began with it."""

    def __init__(self, *, claims: Claims | None, confirms: Confirms | None) -> None:
        self._claims = claims
        self._confirms = confirms
        self._judge: Judge = StubJudge() if confirms is None else InboxJudge()
        self._is_checked = False
        self._are_claims_away = False
        self._is_lease_told = False

    # --- over a connection in a transaction ------------------------------------------------------------------------

    def _check(self, connection: Connection) -> None:
        if tables.commits_each_statement(connection.dialect, connection.connection.dbapi_connection):
            raise ReliabilityRefused("the engine commits each statement by itself, so that an effect could come "
                                     "without its confirmation: make it without isolation_level AUTOCOMMIT")
        tables.check(connection, *self._judge.needs, tables.message_log, tables.watermarks, tables.attempts,
                     tables.alarms)

    def _take(self, connection: Connection, delivery: Delivery) -> Taken:
        """Before the effect."""
        taken = self._judge.takes(connection, delivery)
        if taken:
            effect_transaction.mark(connection)
        return taken

    def _conclude(self, connection: Connection, delivery: Delivery, taken: Taken, begun: float) -> None:
        """Behind the effect. What other groups wait for is locked last."""
        effect_transaction.check(connection)
        if not delivery_log.conclude(connection, delivery, _spent_ms(begun), Outcome.APPLIED,
                                     self._judge.table(taken)):
            raise effect_transaction.ended()
        if taken is Taken.IN_PART:
            self._judge.settles(connection, delivery)

    def _look(self, connection: Connection, delivery: Delivery, begun: float) -> Outcome:
        """What is known of a message whose effect is not ours to make."""
        outcome = self._judge.knows(connection, delivery)
        is_parked = outcome is Outcome.MISSING and _is_last_try(delivery)
        if is_parked:
            raise_alarm(connection, AlarmKind.MISSING_STUB, _name(delivery),
                        f"group {delivery.consumer_group} was sent what nobody committed here")
        if delivery.message_id and (is_parked or outcome in SETTLED):
            delivery_log.conclude(connection, delivery, _spent_ms(begun), outcome)
        elif delivery.message_id:
            delivery_log.attempt(connection, delivery, _spent_ms(begun), outcome)
        return outcome

    def _failed(self, connection: Connection, delivery: Delivery, begun: float, error: BaseException) -> None:
        delivery_log.attempt(connection, delivery, _spent_ms(begun), Outcome.FAILED, f"{type(error).__name__}: {error}")

    # --- claims and confirmations ----------------------------------------------------------------------------------

    def _win(self, delivery: Delivery) -> Claim:
        """What is said to be done is open, too: the database may have lost it. So is what nobody answers about, and it
        may be ours all the same, by an answer that comes too late."""
        if self._claims is None or not delivery.message_id:
            return Claim(is_open=True)
        token = secrets.token_hex(16)
        try:
            is_ours = self._claims.win(delivery.message_id, token)
            claim = Claim(is_open=is_ours or self._claims.is_done(delivery.message_id), token=token if is_ours else "")
        except ClaimUnavailable as error:
            if not self._are_claims_away:
                _log.warning("the database alone decides about message %s, and about all others until the claims "
                             "answer: %s", delivery.message_id, error)
            self._are_claims_away = True
            return Claim(is_open=True, token=token, is_certain=False)
        self._are_claims_away = False
        return claim

    def _settle(self, delivery: Delivery, claim: Claim, outcome: Outcome, begun: float) -> None:
        """What may be ours is asked for once more only where a copy would wait for it: not behind an effect, which the
        database tells. So a Redis that is away costs those that succeed one wait each, and those that fail two."""
        if self._claims is None or not claim.token or (outcome in SETTLED and not claim.is_certain):
            return
        self._tell_of_lease(delivery, _spent_ms(begun), self._claims.lease_ms)
        settle = self._claims.finish if outcome in SETTLED else self._claims.release
        try:
            settle(delivery.message_id, claim.token)
        except ClaimUnavailable as error:
            _log.warning("the claim of message %s stays until its lease ends: %s", delivery.message_id, error)

    def _tell_of_lease(self, delivery: Delivery, spent_ms: int, lease_ms: int) -> None:
        if spent_ms <= lease_ms or self._is_lease_told:
            return
        self._is_lease_told = True
        _log.warning("the effect of message %s took %d ms, longer than the claim's lease of %d ms: copies may have "
                     "reached the database meanwhile; give a lease_ms longer than an effect ever takes",
                     delivery.message_id, spent_ms, lease_ms)

    def _confirm(self, delivery: Delivery) -> None:
        """One that is lost costs a resend, whose delivery confirms again."""
        if self._confirms is None:
            return
        _, error = call(self._confirms.confirm, delivery.message_id, delivery.consumer_group)
        if error is not None:
            _log.warning("the effect of message %s is committed, and its stub not yet confirmed: %s: %s",
                         delivery.message_id, type(error).__name__, error)


class Unfinished:
    """Those of a call's messages that are to come again: others work on them, or nobody committed them.

    The others are done. Where messages are consumed in order, the first that another works on holds up those behind it,
    and all come again, which a listener in order cannot say of some alone; those that are done are told as done then.
    """

    def __init__(self, deliveries: Sequence[Delivery], context: ConsumeContext) -> None:
        self._deliveries = deliveries
        self._context = context
        self._busy: list[int] = []
        self._strays: list[int] = []

    def add(self, number: int, outcome: Outcome) -> bool:
        """Whether the next ones may be begun. `number`: its place in the call."""
        if outcome is Outcome.BUSY:
            self._busy.append(number)
        elif outcome is Outcome.MISSING:
            self._strays.append(number)
        return not (outcome is Outcome.BUSY and self._context.is_ordered)

    def answer(self) -> ConsumeStatus:
        """What nobody committed becomes a dead letter where none of the others would become one with it."""
        again = self._busy + self._strays
        if not again:
            return ConsumeStatus.CONSUME_SUCCESS
        strays = [self._deliveries[number] for number in self._strays]
        if not self._busy and all(map(_is_last_try, strays)):
            self._context.delay_level_when_next_consume = _DEAD_LETTER
            for stray in strays:
                _log.error("message %s has no stub in this database after %d deliveries; it goes to the dead letters: "
                           "was it sent without outbox.add, for another group, or is this another database?",
                           _name(stray), stray.message.reconsume_times + 1)
        if self._context.is_ordered or len(again) == len(self._deliveries):
            return ConsumeStatus.RECONSUME_LATER
        self._context.failed_indexes = frozenset(again)
        return ConsumeStatus.CONSUME_SUCCESS


def deliveries_of(messages: Sequence[MessageExt], context: ConsumeContext) -> list[Delivery]:
    return [Delivery(context.consumer_group, context.message_queue, message) for message in messages]


def receipt_options(dialect_name: str) -> dict[str, Any]:
    """Of the engine that receipts are written by: where they are one statement, that is the whole transaction."""
    return {"isolation_level": "AUTOCOMMIT"} if dialect_name == "postgresql" else {}


def is_conflict(error: DBAPIError) -> bool:
    """Whether the database ended the transaction for another's sake, so that it may be tried again here."""
    original = error.orig
    code = getattr(original, "sqlstate", None) or (original.args[0] if original is not None and original.args else "")
    return str(code) in _CONFLICTS


def pause_s(tries: int, jitter: float) -> float:
    """Before the next try: who comes back at once takes the rows again that the other waits for."""
    return CONFLICT_PAUSE_S * (1 << (tries - 1)) * (0.5 + 0.5 * jitter)


def log_unwritten(delivery: Delivery, error: Exception) -> None:
    _log.warning("that message %s failed is not in the ledger: %s", delivery.message_id, error)


def _is_last_try(delivery: Delivery) -> bool:
    return delivery.message.reconsume_times + 1 >= MISSING_TRIES_MAX


def _name(delivery: Delivery) -> str:
    """For alarms and logs, which take no half characters either."""
    return tables.storable(delivery.message_id or delivery.message.message_id, tables.ALARM_SUBJECT_SIZE_MAX)


def _spent_ms(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
