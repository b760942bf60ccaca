"""Applies the effect of a message once.

Receipt is written down first, for all messages of a call; then, for each, a judge in the effect's own transaction lets
one of several copies have its effect (`judges`). Claims save copies the way to the database; without them, and when
they do not answer, the database alone decides.

    stub                  what is done                     the listener answers
    UNCONFIRMED           confirm and effect, one commit   CONSUME_SUCCESS
    UNCONFIRMED, fails    rolled back; claim given back    RECONSUME_LATER: whatever was raised
    UNCONFIRMED, claimed  nothing: another works on it     RECONSUME_LATER
    CONFIRMED, VOIDED     nothing                          CONSUME_SUCCESS
    missing               nothing                          RECONSUME_LATER; at last a dead letter, and an alarm
    no receipt            nothing                          RECONSUME_LATER: whatever was raised
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from regulus.client.foreign_calls import call, call_here
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ClaimUnavailable, ReliabilityRefused
from regulus.model.message import MessageExt
from regulus.reliability import delivery_log, tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.reliability.delivery_log import Delivery, Outcome
from regulus.reliability.judges import InboxJudge, Judge, StubJudge, Taken

if TYPE_CHECKING:   # it needs greenlet, which nobody else has to install
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_log = logging.getLogger(__name__)

Effect = Callable[[Connection, MessageExt], None]
"""Makes its changes by the connection, and leaves commit and rollback to the caller."""

MISSING_TRIES_MAX = 3
"""Deliveries of a message without a stub, before it is parked among the dead letters."""
CONFLICT_TRIES_MAX = 3
"""Times that an effect is made anew at once, because the database ended its transaction for another's sake."""

_DEAD_LETTER = -1
_CONFLICTS = frozenset({"40001", "40P01", "1213", "1205", "1020"})
"""PostgreSQL: serialization failure, deadlock. MySQL and MariaDB: deadlock, lock wait timeout, record has changed."""


class Claims(Protocol):
    """`RedisClaims`, or another gate of the same kind. Each method may raise ClaimUnavailable."""

    @property
    def lease_ms(self) -> int: ...

    def check(self) -> None: ...

    def win(self, message_id: str) -> str | None: ...

    def release(self, message_id: str, token: str) -> None: ...

    def finish(self, message_id: str, token: str) -> None: ...


class Confirms(Protocol):
    """Tells the stub's database of an effect that is committed in another one."""

    def confirm(self, message_id: str, consumer_group: str) -> None: ...


class _Applying:
    """What blocking and asynchronous listeners have in common: all but who waits."""

    def __init__(self, *, claims: Claims | None, confirms: Confirms | None) -> None:
        self._claims = claims
        self._confirms = confirms
        self._judge: Judge = StubJudge() if confirms is None else InboxJudge()
        self._is_checked = False

    # --- over a connection in a transaction ------------------------------------------------------------------------

    def _receive(self, connection: Connection, deliveries: list[Delivery]) -> None:
        if connection.dialect.name == "postgresql":
            # A receipt that is lost in a crash of the database costs a resend, which the judge answers.
            connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
        delivery_log.receive(connection, deliveries)

    def _conclude(self, connection: Connection, delivery: Delivery, taken: Taken, begun: float) -> None:
        """The confirmation came first; the log row goes last."""
        if not connection.in_transaction():
            raise ReliabilityRefused("the effect ended the transaction by itself; leave commit and rollback to "
                                     "apply_once, or effect and confirmation may come apart")
        delivery_log.attempt(connection, delivery, _since(begun), Outcome.APPLIED)
        if taken is Taken.IN_PART:
            self._judge.settles(connection, delivery)
        delivery_log.finish(connection, delivery)

    def _look(self, connection: Connection, delivery: Delivery, begun: float) -> Outcome:
        """What is known of a message whose effect is not ours to make."""
        outcome = self._judge.knows(connection, delivery)
        if outcome is Outcome.DONE:
            delivery_log.finish(connection, delivery)
        if delivery.message_id:
            delivery_log.attempt(connection, delivery, _since(begun), outcome)
        if outcome is Outcome.MISSING and _is_last_try(delivery):
            raise_alarm(connection, AlarmKind.MISSING_STUB, _name(delivery),
                        f"group {delivery.consumer_group} was sent what nobody committed here")
        return outcome

    def _failed(self, connection: Connection, delivery: Delivery, begun: float, error: BaseException) -> None:
        delivery_log.attempt(connection, delivery, _since(begun), Outcome.FAILED, f"{type(error).__name__}: {error}")

    def _check(self, connection: Connection) -> None:
        if tables.commits_each_statement(connection.dialect, connection.connection.dbapi_connection):
            raise ReliabilityRefused("the engine commits each statement by itself, so that an effect could come "
                                     "without its confirmation: make it without isolation_level AUTOCOMMIT")
        tables.check(connection, *self._judge.needs, tables.message_log, tables.watermarks, tables.attempts,
                     tables.alarms)

    # --- claims and confirmations ----------------------------------------------------------------------------------

    def _win(self, delivery: Delivery) -> str | bool | None:
        """Our token; None when the claim is another's; True when the database alone decides."""
        if self._claims is None:
            return True
        try:
            return self._claims.win(delivery.message_id)
        except ClaimUnavailable as error:
            _log.warning("the database alone decides about message %s: %s", delivery.message_id, error)
            return True

    def _settle(self, delivery: Delivery, token: object, outcome: Outcome, begun: float) -> None:
        if self._claims is None or not isinstance(token, str):
            return
        spent_ms = int((time.monotonic() - begun) * 1000)
        if spent_ms > self._claims.lease_ms:
            _log.warning("the effect of message %s took %d ms, longer than the claim's lease of %d ms: copies may have "
                         "reached the database meanwhile; give a longer lease_ms", delivery.message_id, spent_ms,
                         self._claims.lease_ms)
        settle = self._claims.finish if outcome in (Outcome.APPLIED, Outcome.DONE) else self._claims.release
        try:
            settle(delivery.message_id, token)
        except ClaimUnavailable as error:
            _log.warning("the claim of message %s stays until its lease ends: %s", delivery.message_id, error)

    def _confirm(self, delivery: Delivery) -> None:
        """One that is lost costs a resend, whose delivery confirms again."""
        if self._confirms is None:
            return
        _, error = call(self._confirms.confirm, delivery.message_id, delivery.consumer_group)
        if error is not None:
            _log.warning("the effect of message %s is committed, and its stub not yet confirmed: %s: %s",
                         delivery.message_id, type(error).__name__, error)


class ApplyOnce(_Applying):
    """A listener that has `effect` happen once for each message of an outbox.

        consumer = PushConsumer("127.0.0.1:9876", "billing", ApplyOnce(engine, book))

    An effect that raises is rolled back, and its message comes again. Of several messages of one call those before the
    failure are applied, and answer as done when they come again. `confirms`: the engine is of a database of the
    consumer's own, without stubs; each effect has a row in its inbox, and the stub's database is told.
    """

    def __init__(self, engine: Engine, effect: Effect, *, claims: Claims | None = None,
                 confirms: Confirms | None = None) -> None:
        """Connects to nothing yet."""
        super().__init__(claims=claims, confirms=confirms)
        self._engine = engine
        self._effect = effect

    def check(self) -> None:
        """Raises ReliabilityRefused for a table that is missing or older, and for an engine that commits each statement
        by itself; ClaimUnavailable for claims that do not answer."""
        if self._claims is not None:
            self._claims.check()
        with self._engine.connect() as connection:
            self._check(connection)
        self._is_checked = True

    def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        if not self._is_checked:
            with self._engine.connect() as connection:
                self._check(connection)
            self._is_checked = True
        deliveries = [Delivery(context.consumer_group, context.message_queue, message) for message in messages]
        with self._engine.begin() as connection:
            self._receive(connection, deliveries)
        for delivery in deliveries:
            outcome = self.apply(delivery)
            if outcome not in (Outcome.APPLIED, Outcome.DONE):
                return _later(delivery, outcome, context)
        return ConsumeStatus.CONSUME_SUCCESS

    def apply(self, delivery: Delivery) -> Outcome:
        """Raises what the effect and the database raise; nothing is changed then."""
        begun = time.monotonic()
        token = self._win(delivery)
        if token is None:
            with self._engine.begin() as connection:
                return self._look(connection, delivery, begun)
        decided, error = call(self._decide, delivery, begun)
        outcome = decided if isinstance(decided, Outcome) else Outcome.FAILED
        self._settle(delivery, token, outcome, begun)
        if error is not None:
            self._note_failure(delivery, begun, error)
            raise error
        if outcome in (Outcome.APPLIED, Outcome.DONE):
            self._confirm(delivery)
        return outcome

    def _decide(self, delivery: Delivery, begun: float) -> Outcome:
        for tries_left in range(CONFLICT_TRIES_MAX, 0, -1):
            try:
                return self._decide_now(delivery, begun)
            except DBAPIError as error:
                if tries_left == 1 or not is_conflict(error):
                    raise
        raise AssertionError("the last try returns or raises")

    def _decide_now(self, delivery: Delivery, begun: float) -> Outcome:
        with self._engine.begin() as connection:
            taken = self._judge.takes(connection, delivery)
            if taken:
                self._effect(connection, delivery.message)
                self._conclude(connection, delivery, taken, begun)
                return Outcome.APPLIED
        with self._engine.begin() as connection:
            return self._look(connection, delivery, begun)

    def _note_failure(self, delivery: Delivery, begun: float, error: BaseException) -> None:
        try:
            with self._engine.begin() as connection:
                self._failed(connection, delivery, begun, error)
        except SQLAlchemyError as unwritten:
            _log.warning("that message %s failed is not in the ledger: %s", delivery.message_id, unwritten)


class ApplyOnceAsync(_Applying):
    """The same for an engine and effects of asyncio."""

    def __init__(self, engine: "AsyncEngine", effect: Any, *, claims: Claims | None = None,
                 confirms: Confirms | None = None) -> None:
        """Connects to nothing yet. `effect`: a coroutine function of an AsyncConnection and a MessageExt."""
        super().__init__(claims=claims, confirms=confirms)
        self._engine = engine
        self._effect = effect

    async def check(self) -> None:
        """As of `ApplyOnce`."""
        if self._claims is not None:
            await asyncio.to_thread(self._claims.check)
        async with self._engine.connect() as connection:
            await connection.run_sync(self._check)
        self._is_checked = True

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        if not self._is_checked:
            async with self._engine.connect() as connection:
                await connection.run_sync(self._check)
            self._is_checked = True
        deliveries = [Delivery(context.consumer_group, context.message_queue, message) for message in messages]
        async with self._engine.begin() as connection:
            await connection.run_sync(self._receive, deliveries)
        for delivery in deliveries:
            outcome = await self.apply(delivery)
            if outcome not in (Outcome.APPLIED, Outcome.DONE):
                return _later(delivery, outcome, context)
        return ConsumeStatus.CONSUME_SUCCESS

    async def apply(self, delivery: Delivery) -> Outcome:
        """As of `ApplyOnce`; a cancellation rolls back, too."""
        begun = time.monotonic()
        token = await asyncio.to_thread(self._win, delivery) if self._claims is not None else True
        if token is None:
            async with self._engine.begin() as connection:
                return await connection.run_sync(self._look, delivery, begun)
        outcome = Outcome.FAILED
        try:
            decided, error = await call_here(self._decide, delivery, begun)
            outcome = decided if isinstance(decided, Outcome) else outcome
        finally:
            if self._claims is not None:
                await asyncio.shield(asyncio.to_thread(self._settle, delivery, token, outcome, begun))
        if error is not None:
            await self._note_failure(delivery, begun, error)
            raise error
        if self._confirms is not None and outcome in (Outcome.APPLIED, Outcome.DONE):
            await asyncio.to_thread(self._confirm, delivery)
        return outcome

    async def _decide(self, delivery: Delivery, begun: float) -> Outcome:
        for tries_left in range(CONFLICT_TRIES_MAX, 0, -1):
            try:
                return await self._decide_now(delivery, begun)
            except DBAPIError as error:
                if tries_left == 1 or not is_conflict(error):
                    raise
        raise AssertionError("the last try returns or raises")

    async def _decide_now(self, delivery: Delivery, begun: float) -> Outcome:
        async with self._engine.begin() as connection:
            taken = await connection.run_sync(self._judge.takes, delivery)
            if taken:
                await self._effect(connection, delivery.message)
                await connection.run_sync(self._conclude, delivery, taken, begun)
                return Outcome.APPLIED
        async with self._engine.begin() as connection:
            return await connection.run_sync(self._look, delivery, begun)

    async def _note_failure(self, delivery: Delivery, begun: float, error: BaseException) -> None:
        try:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._failed, delivery, begun, error)
        except SQLAlchemyError as unwritten:
            _log.warning("that message %s failed is not in the ledger: %s", delivery.message_id, unwritten)


def apply_once(engine: Engine, *, claims: Claims | None = None,
               confirms: Confirms | None = None) -> Callable[[Effect], ApplyOnce]:
    """Make a listener of an effect.

        @apply_once(engine)
        def book(connection: Connection, message: MessageExt) -> None:
            connection.execute(insert(bookings).values(order=message.body.decode()))
    """
    def listener(effect: Effect) -> ApplyOnce:
        return ApplyOnce(engine, effect, claims=claims, confirms=confirms)
    return listener


def apply_once_async(engine: "AsyncEngine", *, claims: Claims | None = None, confirms: Confirms | None = None
                     ) -> "Callable[[Callable[[AsyncConnection, MessageExt], Awaitable[None]]], ApplyOnceAsync]":
    """The same of a coroutine function."""
    def listener(effect: "Callable[[AsyncConnection, MessageExt], Awaitable[None]]") -> ApplyOnceAsync:
        return ApplyOnceAsync(engine, effect, claims=claims, confirms=confirms)
    return listener


def is_conflict(error: DBAPIError) -> bool:
    """Whether the database ended the transaction for another's sake, so that it may be tried again at once."""
    original = error.orig
    code = getattr(original, "sqlstate", None) or (original.args[0] if original is not None and original.args else "")
    return str(code) in _CONFLICTS


def _later(delivery: Delivery, outcome: Outcome, context: ConsumeContext) -> ConsumeStatus:
    if outcome is Outcome.MISSING and _is_last_try(delivery):
        context.delay_level_when_next_consume = _DEAD_LETTER
        _log.error("message %s has no stub in this database after %d deliveries; it goes to the dead letters: was it "
                   "sent without outbox.add, for another group, or is this another database?", _name(delivery),
                   delivery.message.reconsume_times + 1)
    return ConsumeStatus.RECONSUME_LATER


def _is_last_try(delivery: Delivery) -> bool:
    return delivery.message.reconsume_times + 1 >= MISSING_TRIES_MAX


def _name(delivery: Delivery) -> str:
    return delivery.message_id or delivery.message.message_id


def _since(begun: float) -> Any:
    """The database's time when a delivery began."""
    return tables.now_ms() - int((time.monotonic() - begun) * 1000)
