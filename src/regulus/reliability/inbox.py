"""Applies the effect of a message once, where stub and effect are in one database.

The confirmation of the stub, an update that counts only while it is unconfirmed, is in the effect's transaction and
comes first: it locks the stub, so that of two copies one has its effect and the other finds it there. Claims save
copies the way to the database; without them, and when they do not answer, the database alone decides.

    stub                  what is done                     the listener answers
    UNCONFIRMED           confirm and effect, one commit   CONSUME_SUCCESS
    UNCONFIRMED, fails    rolled back; claim given back    RECONSUME_LATER: whatever was raised
    UNCONFIRMED, claimed  nothing: another works on it     RECONSUME_LATER
    CONFIRMED, VOIDED     nothing                          CONSUME_SUCCESS
    missing               nothing                          RECONSUME_LATER; at last a dead letter
"""

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from sqlalchemy import Connection, Engine

from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ClaimUnavailable, ReliabilityRefused
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.reliability import outbox_table, tables

_log = logging.getLogger(__name__)

Effect = Callable[[Connection, MessageExt], None]
"""Makes its changes by the connection, and leaves commit and rollback to the caller."""

MISSING_TRIES_MAX = 3
"""Deliveries of a message without a stub, before it is parked among the dead letters."""
_DEAD_LETTER = -1


class Claims(Protocol):
    """`RedisClaims`, or another gate of the same kind. Each method may raise ClaimUnavailable."""

    def check(self) -> None: ...

    def win(self, message_id: str) -> str | None: ...

    def release(self, message_id: str, token: str) -> None: ...

    def finish(self, message_id: str, token: str) -> None: ...


class Outcome(Enum):
    APPLIED = auto()    # confirmed with its effect, now
    DONE = auto()       # confirmed before, or voided
    BUSY = auto()       # somebody else works on it
    MISSING = auto()    # no such stub


class ApplyOnce:
    """A listener that has `effect` happen once for each message of an outbox.

        consumer = PushConsumer("127.0.0.1:9876", "billing", ApplyOnce(engine, book))

    An effect that raises is rolled back, and its message comes again. Of several messages of one call those before the
    failure are applied, and answer as done when they come again.
    """

    def __init__(self, engine: Engine, effect: Effect, *, claims: Claims | None = None) -> None:
        """Connects to nothing yet."""
        self._engine = engine
        self._effect = effect
        self._claims = claims
        self._is_checked = False

    def check(self) -> None:
        """Raises ReliabilityRefused for a table that is missing or older, and for an engine that commits each statement
        by itself; ClaimUnavailable for claims that do not answer."""
        if self._claims is not None:
            self._claims.check()
        self._check_database()

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        if not self._is_checked:
            self._check_database()
        for message in messages:
            outcome = self.apply(message)
            if outcome is Outcome.BUSY:
                return ConsumeStatus.RECONSUME_LATER
            if outcome is Outcome.MISSING:
                _park(message, context)
                return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS

    def apply(self, message: MessageExt) -> Outcome:
        """Raises what the effect and the database raise; nothing is changed then."""
        message_id = message.properties.get(names.BUSINESS_ID, "")
        if self._claims is None:
            return self._decide(message_id, message)
        try:
            token = self._claims.win(message_id)
        except ClaimUnavailable as error:
            _log.warning("the database alone decides about message %s: %s", message_id, error)
            return self._decide(message_id, message)
        if token is None:
            return self._look(message_id)
        return self._apply_claimed(self._claims, token, message_id, message)

    def _apply_claimed(self, claims: Claims, token: str, message_id: str, message: MessageExt) -> Outcome:
        outcome = Outcome.MISSING   # as when the effect raises: the claim is given back
        try:
            outcome = self._decide(message_id, message)
        finally:
            settle = claims.release if outcome in (Outcome.MISSING, Outcome.BUSY) else claims.finish
            try:
                settle(message_id, token)
            except ClaimUnavailable as error:
                _log.warning("the claim of message %s stays until its lease ends: %s", message_id, error)
        return outcome

    def _decide(self, message_id: str, message: MessageExt) -> Outcome:
        with self._engine.connect() as connection, connection.begin() as transaction:
            if outbox_table.confirm(connection, message_id):
                self._effect(connection, message)
                if not transaction.is_active:
                    raise ReliabilityRefused("the effect ended the transaction by itself; leave commit and rollback to "
                                             "apply_once, or effect and confirmation may come apart")
                return Outcome.APPLIED
        return self._look(message_id)

    def _look(self, message_id: str) -> Outcome:
        """What is known of a message whose effect is not ours to make."""
        with self._engine.connect() as connection:
            status = outbox_table.status(connection, message_id)
        if status is None:
            return Outcome.MISSING
        return Outcome.BUSY if status == tables.UNCONFIRMED else Outcome.DONE

    def _check_database(self) -> None:
        with self._engine.connect() as connection:
            if tables.commits_each_statement(connection.dialect, connection.connection.dbapi_connection):
                raise ReliabilityRefused("the engine commits each statement by itself, so that an effect could come "
                                         "without its confirmation: make it without isolation_level AUTOCOMMIT")
            tables.check(connection)
        self._is_checked = True


def apply_once(engine: Engine, *, claims: Claims | None = None) -> Callable[[Effect], ApplyOnce]:
    """Make a listener of an effect.

        @apply_once(engine)
        def book(connection: Connection, message: MessageExt) -> None:
            connection.execute(insert(bookings).values(order=message.body.decode()))
    """
    def listener(effect: Effect) -> ApplyOnce:
        return ApplyOnce(engine, effect, claims=claims)
    return listener


def _park(message: MessageExt, context: ConsumeContext) -> None:
    if message.reconsume_times + 1 >= MISSING_TRIES_MAX:
        context.delay_level_when_next_consume = _DEAD_LETTER
        _log.error("message %s has no stub in this database after %d deliveries; it goes to the dead letters: was it "
                   "sent without outbox.add, or is this another database?", message.properties.get(names.BUSINESS_ID)
                   or message.message_id, message.reconsume_times + 1)
