"""Applies the effect of a message once.

The receipt of all messages of a call is written first. Then, for each message, a judge in the effect's transaction,
which several messages of the call share, lets only one of several copies have its effect (`judges`). Claims let copies
skip the database; without them, and when they do not answer, the database alone decides.

    stub                  what is done                     the listener answers
    UNCONFIRMED           confirm and effect, one commit   CONSUME_SUCCESS
    UNCONFIRMED, fails    rolled back; claim given back    that this message comes again, the others are done
    UNCONFIRMED, claimed  nothing: another works on it     that this message comes again, the others are done
    CONFIRMED, VOIDED     nothing                          CONSUME_SUCCESS
    missing               nothing                          that it comes again; at last a dead letter, and an alarm
    no receipt            nothing                          RECONSUME_LATER, for any error
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from regulus.client.foreign_calls import call, call_here, run_plain
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.model.message import MessageExt
from regulus.reliability import delivery_log, effect_transaction
from regulus.reliability.applying import (
    CONFLICT_TRIES_MAX,
    SETTLED,
    Applying,
    Claim,
    Claims,
    Confirms,
    Part,
    Unfinished,
    deliveries_of,
    is_conflict,
    is_last_of,
    log_unwritten,
    pause_s,
    receipt_options,
)
from regulus.reliability.delivery_log import Delivery, DeliveryOutcome

if TYPE_CHECKING:   # it needs greenlet, which is optional
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

Effect = Callable[[Connection, MessageExt], None]
"""Makes its changes on the connection, and leaves commit and rollback to the caller."""

T = TypeVar("T")


class ApplyOnce(Applying):
    """A listener that makes `effect` happen once for each message of an outbox.

        consumer = PushConsumer("127.0.0.1:9876", "billing", ApplyOnce(engine, book))

    If an effect raises, it is rolled back, and its message is delivered again: alone, or, in order, with those after
    it. The error is logged, or raised when all messages of a call must be delivered again. With `confirms`, the engine
    is for the consumer's own database, without stubs; each effect has a row in its inbox, and is confirmed to the
    stub's database.
    """

    def __init__(self, engine: Engine, effect: Effect, *, claims: Claims | None = None,
                 confirms: Confirms | None = None) -> None:
        """Connects to nothing yet."""
        super().__init__(claims=claims, confirms=confirms)
        self._engine = engine
        self._receipts = engine.execution_options(**receipt_options(engine.dialect.name))
        self._effect = effect

    def check(self) -> None:
        """Raises ReliabilityRefused for a table that is missing or outdated, and for an engine that commits each
        statement by itself; ClaimUnavailable for claims that do not answer."""
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
        deliveries = deliveries_of(messages, context)
        _in_place(self._receive, deliveries)
        unfinished = Unfinished(deliveries, context)
        number = 0
        while left := deliveries[number:]:
            for part in self._share(left, context.is_ordered) if self._shares(left) else [Part(left[0])]:
                if not unfinished.add(number, self.apply(part.delivery) if part.result is None else part.result):
                    return unfinished.answer()
                number += 1
        return unfinished.answer()

    def apply(self, delivery: Delivery) -> DeliveryOutcome | Exception:
        """The outcome, or the error of its effect or of the database; then only the ledger has changed. Raises the
        error when the ledger cannot be written, because the next messages would fail, too."""
        begun = time.monotonic()
        claim = self._win(delivery)
        decided, error = call(_in_place, self._decide if claim.is_open else self._see, delivery, begun)
        outcome = decided if isinstance(decided, DeliveryOutcome) else DeliveryOutcome.FAILED
        self._settle(delivery, claim, outcome, begun)
        if error is not None:
            return self._noted(delivery, begun, error)
        if outcome in SETTLED:
            self._confirm(delivery)
        return outcome

    def _share(self, deliveries: Sequence[Delivery], is_ordered: bool) -> list[Part]:
        """Make the effects of a shared transaction; returns the first deliveries, those with a result or left over."""
        parts: list[Part] = []
        _, error = call(self._commit_together, deliveries, is_ordered, parts)
        self._settle_shared(parts, error is None)
        for part in self._ended(parts, error):
            assert part.error is not None
            part.result = self._noted(part.delivery, part.begun, part.error)
        if error is not None and not isinstance(error, Exception):
            raise error
        if applied := [part.delivery for part in parts if part.result is DeliveryOutcome.APPLIED]:
            self._confirm(*applied)
        return parts or [Part(deliveries[0])]

    def _commit_together(self, deliveries: Sequence[Delivery], is_ordered: bool, parts: list[Part]) -> None:
        with self._engine.begin() as connection:
            effect_transaction.begin_shared(connection)
            for delivery in deliveries:
                begun = time.monotonic()
                part = Part(delivery, self._win(delivery), begun)
                parts.append(part)
                if part.claim.is_open:
                    _, part.error = call(self._add, connection, part)
                    if part.error is not None:
                        self._undo(connection, part)
                if is_last_of(parts, is_ordered):
                    break

    def _add(self, connection: Connection, part: Part) -> None:
        taken = self._take(connection, part.delivery, True)
        if taken:
            with effect_transaction.kept_open(connection):
                run_plain(self._effect, connection, part.delivery.message)
            self._conclude(connection, part.delivery, taken, part.begun, True)
            part.is_applied = True

    def _receive(self, deliveries: list[Delivery]) -> None:
        with self._receipts.begin() as connection:
            delivery_log.receive(connection, deliveries)

    def _decide(self, delivery: Delivery, begun: float) -> DeliveryOutcome:
        with self._engine.begin() as connection:
            taken = self._take(connection, delivery)
            if taken:
                with effect_transaction.kept_open(connection):
                    run_plain(self._effect, connection, delivery.message)
                self._conclude(connection, delivery, taken, begun)
                return DeliveryOutcome.APPLIED
        return self._see(delivery, begun)

    def _see(self, delivery: Delivery, begun: float) -> DeliveryOutcome:
        with self._engine.begin() as connection:
            return self._look(connection, delivery, begun)

    def _noted(self, delivery: Delivery, begun: float, error: BaseException) -> Exception:
        """Note a failure in the ledger. Raises errors that end the call."""
        try:
            with self._engine.begin() as connection:
                self._failed(connection, delivery, begun, error)
        except SQLAlchemyError as unwritten:
            log_unwritten(delivery, unwritten)
            raise error from None
        if not isinstance(error, Exception):
            raise error
        return error


class ApplyOnceAsync(Applying):
    """`ApplyOnce` for an engine and effects of asyncio."""

    def __init__(self, engine: "AsyncEngine", effect: Any, *, claims: Claims | None = None,
                 confirms: Confirms | None = None) -> None:
        """Connects to nothing yet. `effect`: a coroutine function of an AsyncConnection and a MessageExt."""
        super().__init__(claims=claims, confirms=confirms)
        self._engine = engine
        self._receipts = engine.execution_options(**receipt_options(engine.dialect.name))
        self._effect = effect

    async def check(self) -> None:
        """See `ApplyOnce.check`."""
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
        deliveries = deliveries_of(messages, context)
        await _in_place_async(self._receive, deliveries)
        unfinished = Unfinished(deliveries, context)
        number = 0
        while left := deliveries[number:]:
            for part in await self._share(left, context.is_ordered) if self._shares(left) else [Part(left[0])]:
                if not unfinished.add(number, await self.apply(part.delivery) if part.result is None else part.result):
                    return unfinished.answer()
                number += 1
        return unfinished.answer()

    async def apply(self, delivery: Delivery) -> DeliveryOutcome | Exception:
        """See `ApplyOnce.apply`; a cancellation rolls back, too."""
        begun = time.monotonic()
        claim = await self._won(delivery, begun) if self._claims is not None else Claim(is_open=True)
        outcome = DeliveryOutcome.FAILED
        try:
            effect = self._decide if claim.is_open else self._see
            decided, error = await call_here(_in_place_async, effect, delivery, begun)
            outcome = decided if isinstance(decided, DeliveryOutcome) else outcome
        finally:
            if self._claims is not None:
                await asyncio.shield(asyncio.to_thread(self._settle, delivery, claim, outcome, begun))
        if error is not None:
            return await self._noted(delivery, begun, error)
        if self._confirms is not None and outcome in SETTLED:
            await asyncio.to_thread(self._confirm, delivery)
        return outcome

    async def _share(self, deliveries: Sequence[Delivery], is_ordered: bool) -> list[Part]:
        """See `ApplyOnce._share`."""
        parts: list[Part] = []
        is_committed = False
        try:
            _, error = await call_here(self._commit_together, deliveries, is_ordered, parts)
            is_committed = error is None
        finally:
            if self._claims is not None:
                await asyncio.shield(asyncio.to_thread(self._settle_shared, parts, is_committed))
        for part in self._ended(parts, error):
            assert part.error is not None
            part.result = await self._noted(part.delivery, part.begun, part.error)
        if error is not None and not isinstance(error, Exception):
            raise error
        applied = [part.delivery for part in parts if part.result is DeliveryOutcome.APPLIED]
        if applied and self._confirms is not None:
            await asyncio.to_thread(self._confirm, *applied)
        return parts or [Part(deliveries[0])]

    async def _commit_together(self, deliveries: Sequence[Delivery], is_ordered: bool, parts: list[Part]) -> None:
        async with self._engine.begin() as connection:
            await connection.run_sync(effect_transaction.begin_shared)
            for delivery in deliveries:
                begun = time.monotonic()
                claim = await self._won(delivery, begun) if self._claims is not None else Claim(is_open=True)
                part = Part(delivery, claim, begun)
                parts.append(part)
                if part.claim.is_open:
                    _, part.error = await call_here(self._add, connection, part)
                    if part.error is not None:
                        await connection.run_sync(self._undo, part)
                if is_last_of(parts, is_ordered):
                    break

    async def _add(self, connection: "AsyncConnection", part: Part) -> None:
        taken = await connection.run_sync(self._take, part.delivery, True)
        if taken:
            assert connection.sync_connection is not None   # it is begun
            with effect_transaction.kept_open(connection.sync_connection):
                await self._effect(connection, part.delivery.message)
            await connection.run_sync(self._conclude, part.delivery, taken, part.begun, True)
            part.is_applied = True

    async def _won(self, delivery: Delivery, begun: float) -> Claim:
        """Claim in a thread. If the task is cancelled meanwhile, the claim is given back by whichever of the two ends
        last."""
        first = threading.Lock()

        def win() -> Claim:
            claim = self._win(delivery)
            if not first.acquire(blocking=False):
                self._settle(delivery, claim, DeliveryOutcome.FAILED, begun)
            return claim

        winning = asyncio.ensure_future(asyncio.to_thread(win))
        try:
            return await asyncio.shield(winning)
        except asyncio.CancelledError:
            if not first.acquire(blocking=False):
                await asyncio.wait([asyncio.ensure_future(self._given_back(winning, delivery, begun))])
            raise

    async def _given_back(self, winning: "asyncio.Future[Claim]", delivery: Delivery, begun: float) -> None:
        await asyncio.to_thread(self._settle, delivery, await winning, DeliveryOutcome.FAILED, begun)

    async def _receive(self, deliveries: list[Delivery]) -> None:
        async with self._receipts.begin() as connection:
            await connection.run_sync(delivery_log.receive, deliveries)

    async def _decide(self, delivery: Delivery, begun: float) -> DeliveryOutcome:
        async with self._engine.begin() as connection:
            taken = await connection.run_sync(self._take, delivery)
            if taken:
                assert connection.sync_connection is not None   # it is begun
                with effect_transaction.kept_open(connection.sync_connection):
                    await self._effect(connection, delivery.message)
                await connection.run_sync(self._conclude, delivery, taken, begun)
                return DeliveryOutcome.APPLIED
        return await self._see(delivery, begun)

    async def _see(self, delivery: Delivery, begun: float) -> DeliveryOutcome:
        async with self._engine.begin() as connection:
            return await connection.run_sync(self._look, delivery, begun)

    async def _noted(self, delivery: Delivery, begun: float, error: BaseException) -> Exception:
        """See `ApplyOnce._noted`."""
        try:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._failed, delivery, begun, error)
        except SQLAlchemyError as unwritten:
            log_unwritten(delivery, unwritten)
            raise error from None
        if not isinstance(error, Exception):
            raise error
        return error


def apply_once(engine: Engine, *, claims: Claims | None = None,
               confirms: Confirms | None = None) -> Callable[[Effect], ApplyOnce]:
    """Make a listener from an effect.

        @apply_once(engine)
        def book(connection: Connection, message: MessageExt) -> None:
            connection.execute(insert(bookings).values(order=message.body.decode()))
    """
    def listener(effect: Effect) -> ApplyOnce:
        return ApplyOnce(engine, effect, claims=claims, confirms=confirms)
    return listener


def apply_once_async(engine: "AsyncEngine", *, claims: Claims | None = None, confirms: Confirms | None = None
                     ) -> "Callable[[Callable[[AsyncConnection, MessageExt], Awaitable[None]]], ApplyOnceAsync]":
    """Make a listener from a coroutine function."""
    def listener(effect: "Callable[[AsyncConnection, MessageExt], Awaitable[None]]") -> ApplyOnceAsync:
        return ApplyOnceAsync(engine, effect, claims=claims, confirms=confirms)
    return listener


def _in_place(work: Callable[..., T], *arguments: object) -> T:
    """Repeat `work` a few times here, if the database ends the transaction because of another one."""
    for tries in range(1, CONFLICT_TRIES_MAX + 1):
        try:
            return work(*arguments)
        except DBAPIError as error:
            if tries == CONFLICT_TRIES_MAX or not is_conflict(error):
                raise
        time.sleep(pause_s(tries, random.random()))
    raise AssertionError("the last try returns or raises")


async def _in_place_async(work: Callable[..., Awaitable[T]], *arguments: object) -> T:
    for tries in range(1, CONFLICT_TRIES_MAX + 1):
        try:
            return await work(*arguments)
        except DBAPIError as error:
            if tries == CONFLICT_TRIES_MAX or not is_conflict(error):
                raise
        await asyncio.sleep(pause_s(tries, random.random()))
    raise AssertionError("the last try returns or raises")
