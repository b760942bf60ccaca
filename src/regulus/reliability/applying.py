"""The common part of blocking and asynchronous listeners of an inbox.

    gate        a claim, so that a copy does not disturb another worker
    receipt     in a separate transaction, before anything is done
    judge       in the effect's transaction; then the effect, which may not end it, its row of the ledger, and the
                receipt is removed
    afterwards  the claim is kept or given back, and the effect is confirmed to the stub's database if that is another
                one

The effects of a call share commits: all that are made within TOGETHER_MS_MAX, each after a savepoint, so that one that
fails is undone alone. A copy, or a message that another worker has, is left over for a separate transaction, and so are
all messages of a commit that the database refused.
"""

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from regulus.client.foreign_calls import call
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ClaimUnavailable, ReliabilityRefused
from regulus.model.message import MessageExt
from regulus.reliability import delivery_log, effect_transaction, tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.reliability.delivery_log import Delivery, DeliveryOutcome
from regulus.reliability.judges import InboxJudge, Judge, StubJudge, Taken

_log = logging.getLogger(__name__)

MISSING_TRIES_MAX = 3
"""Deliveries of a message without a stub before it becomes a dead letter."""
CONFLICT_TRIES_MAX = 3
"""Attempts for an effect when the database ends its transaction because of another one."""
CONFLICT_PAUSE_S = 0.05
TOGETHER_MS_MAX = 100
"""Effects share a commit until they have taken this long: others wait for their locks."""
ALONE_S = 10.0
"""After the database ended a shared transaction because of another one, each effect is committed by itself for this
long."""
SETTLED = frozenset({DeliveryOutcome.APPLIED, DeliveryOutcome.DONE, DeliveryOutcome.VOIDED})
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
    """The answer to a claim.

    `is_open`: the effect may begin, because the database decides; False when another worker holds the claim. `token`:
    what we hold it by, empty if we do not; `is_certain`: False when no answer said whether we do.
    """

    is_open: bool
    token: str = ""
    is_certain: bool = True


_UNCLAIMED = Claim(is_open=True)


class Confirms(Protocol):
    """Confirms to the stub's database an effect that is committed in another one."""

    def confirm(self, message_id: str, consumer_group: str) -> None: ...


@runtime_checkable
class ConfirmsTogether(Protocol):
    """Confirms several effects at once, or none of them."""

    def confirm_all(self, message_ids: Sequence[str], consumer_group: str) -> None: ...


@dataclass(slots=True)
class Part:
    """One of several messages whose effects share a commit. `error`: what its effect raised; `result`: its outcome,
    None while it is left over."""

    delivery: Delivery
    claim: Claim = _UNCLAIMED
    begun: float = field(default_factory=time.monotonic)
    is_applied: bool = False
    error: BaseException | None = None
    result: DeliveryOutcome | Exception | None = None


class Applying:
    """A listener without its engine. Methods with a connection run in the transaction that the caller began on it."""

    def __init__(self, *, claims: Claims | None, confirms: Confirms | None) -> None:
        self._claims = claims
        self._confirms = confirms
        self._judge: Judge = StubJudge() if confirms is None else InboxJudge()
        self._is_checked = False
        self._are_claims_away = False
        self._is_lease_told = False
        self._alone_until = 0.0

    # --- over a connection in a transaction ------------------------------------------------------------------------

    def _check(self, connection: Connection) -> None:
        if tables.commits_each_statement(connection.dialect, connection.connection.dbapi_connection):
            raise ReliabilityRefused("the engine commits each statement by itself, so that an effect could come "
                                     "without its confirmation: make it without isolation_level AUTOCOMMIT")
        tables.check(connection, *self._judge.needs, tables.message_log, tables.watermarks, tables.attempts,
                     tables.alarms)

    def _take(self, connection: Connection, delivery: Delivery, is_shared: bool = False) -> Taken:
        """Take a delivery, before its effect. `is_shared`: other effects use the transaction too."""
        if is_shared:
            effect_transaction.mark_shared(connection)
        taken = self._judge.takes(connection, delivery)
        if taken and not is_shared:
            effect_transaction.mark(connection)
        elif not taken and is_shared:
            effect_transaction.check_shared(connection)
        return taken

    def _conclude(self, connection: Connection, delivery: Delivery, taken: Taken, begun: float,
                  is_shared: bool = False) -> None:
        """Conclude a delivery, after its effect. Rows for which other groups wait are locked last."""
        if is_shared:
            effect_transaction.check_begun(connection)
            effect_transaction.keep_nested(connection)
        else:
            effect_transaction.check(connection)
        if not delivery_log.conclude(connection, delivery, _spent_ms(begun), DeliveryOutcome.APPLIED,
                                     None if is_shared else self._judge.table(taken)):
            raise effect_transaction.ended()
        if taken is Taken.IN_PART:
            self._judge.settles(connection, delivery)
        if is_shared:
            effect_transaction.check_shared(connection)

    def _undo(self, connection: Connection, part: Part) -> None:
        """Undo one failed effect in a shared transaction. Raises when the whole transaction is lost."""
        assert part.error is not None
        if not isinstance(part.error, Exception) or is_passing(part.error):
            raise part.error
        effect_transaction.undo_shared(connection)
        self._failed(connection, part.delivery, part.begun, part.error)

    def _look(self, connection: Connection, delivery: Delivery, begun: float) -> DeliveryOutcome:
        """The outcome of a message whose effect is not ours to make."""
        outcome = self._judge.knows(connection, delivery)
        is_parked = outcome is DeliveryOutcome.MISSING and _is_last_try(delivery)
        if is_parked:
            raise_alarm(connection, AlarmKind.MISSING_STUB, _name(delivery),
                        f"group {delivery.consumer_group} was sent what nobody committed here")
        if delivery.message_id and (is_parked or outcome in SETTLED):
            delivery_log.conclude(connection, delivery, _spent_ms(begun), outcome)
        elif delivery.message_id:
            delivery_log.attempt(connection, delivery, _spent_ms(begun), outcome)
        return outcome

    def _failed(self, connection: Connection, delivery: Delivery, begun: float, error: BaseException) -> None:
        delivery_log.attempt(connection, delivery, _spent_ms(begun), DeliveryOutcome.FAILED,
                             f"{type(error).__name__}: {error}")

    # --- shared transactions ---------------------------------------------------------------------------------------

    def _shares(self, deliveries: Sequence[Delivery]) -> bool:
        return len(deliveries) > 1 and time.monotonic() >= self._alone_until

    def _ended(self, parts: Sequence[Part], error: BaseException | None) -> list[Part]:
        """Finish the parts of a shared transaction, with the error that it raised; returns the parts that are left
        over.

        All others get their result. Claims are given back for those whose failure is not in the ledger.
        """
        if error is None:
            for part in parts:
                part.result = DeliveryOutcome.APPLIED if part.is_applied else _failure(part)
            return []
        if isinstance(error, DBAPIError) and is_conflict(error):
            self._alone_until = time.monotonic() + ALONE_S
        failed = [part for part in parts if part.error is not None and not is_passing(part.error)]
        for part in failed:
            part.result = _failure(part)
        return failed

    # --- claims and confirmations ----------------------------------------------------------------------------------

    def _win(self, delivery: Delivery) -> Claim:
        """Claim a message. If the claim says that it is done, the effect may begin too: the database may have lost it.
        The same is true without an answer; then a late answer may still have given us the claim."""
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

    def _settle(self, delivery: Delivery, claim: Claim, outcome: DeliveryOutcome, begun: float) -> None:
        """Give the claim back or mark it as done. A claim that may be ours is asked for again only if a copy would wait
        for it: not after an effect, because the database knows of that. So a Redis failure costs successful effects one
        wait each, and failed ones two."""
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

    def _settle_shared(self, parts: Sequence[Part], is_committed: bool) -> None:
        for part in parts:
            outcome = DeliveryOutcome.APPLIED if is_committed and part.is_applied else DeliveryOutcome.FAILED
            self._settle(part.delivery, part.claim, outcome, part.begun)

    def _confirm(self, *deliveries: Delivery) -> None:
        """Confirm effects of one group. A lost confirmation costs a resend, whose delivery confirms again."""
        if self._confirms is None:
            return
        if len(deliveries) > 1 and isinstance(self._confirms, ConfirmsTogether):
            _, error = call(self._confirms.confirm_all, [each.message_id for each in deliveries],
                            deliveries[0].consumer_group)
            if not isinstance(error, DBAPIError) or not is_conflict(error):
                _tell_of_unconfirmed(deliveries, error)
                return
        for delivery in deliveries:
            _, error = call(self._confirms.confirm, delivery.message_id, delivery.consumer_group)
            _tell_of_unconfirmed([delivery], error)


class Unfinished:
    """Collects the messages of a call that must be delivered again: other workers have them, their transaction was not
    committed, or they failed.

    The others are done. If messages are consumed in order, the first one that is busy or failed holds up those after
    it, and all are delivered again, because an ordered listener cannot name single messages; those that are done are
    then answered as done.
    """

    def __init__(self, deliveries: Sequence[Delivery], context: ConsumeContext) -> None:
        self._deliveries = deliveries
        self._context = context
        self._busy: list[int] = []
        self._strays: list[int] = []
        self._failed: dict[int, Exception] = {}

    def add(self, number: int, result: DeliveryOutcome | Exception) -> bool:
        """Add a result; returns whether the next messages may begin. `number`: the message's position in the call."""
        if isinstance(result, Exception):
            self._failed[number] = result
        elif result is DeliveryOutcome.BUSY:
            self._busy.append(number)
        elif result is DeliveryOutcome.MISSING:
            self._strays.append(number)
        return not (self._context.is_ordered and (result is DeliveryOutcome.BUSY or isinstance(result, Exception)))

    def answer(self) -> ConsumeStatus:
        """The answer for the call. A message without a commit becomes a dead letter if none of the others would become
        one with it. Raises the first error when all messages must be delivered again."""
        again = [*self._busy, *self._strays, *self._failed]
        if not again:
            return ConsumeStatus.CONSUME_SUCCESS
        if self._failed and (self._context.is_ordered or len(again) == len(self._deliveries)):
            raise next(iter(self._failed.values()))
        for number, error in self._failed.items():
            _log.warning("the effect of message %s failed; it comes again, and the others of its call do not",
                         _name(self._deliveries[number]), exc_info=error)
        strays = [self._deliveries[number] for number in self._strays]
        if not self._busy and not self._failed and all(map(_is_last_try, strays)):
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
    """Options of the engine that writes receipts: if they are one statement, it is committed by itself."""
    return {"isolation_level": "AUTOCOMMIT"} if dialect_name == "postgresql" else {}


def is_conflict(error: DBAPIError) -> bool:
    """Whether the database ended the transaction because of another one, so that it may be tried again here."""
    original = error.orig
    code = getattr(original, "sqlstate", None) or (original.args[0] if original is not None and original.args else "")
    return str(code) in _CONFLICTS


def is_passing(error: BaseException) -> bool:
    """Whether the error belongs to the transaction or its connection, and not to the effect."""
    return isinstance(error, DBAPIError) and (error.connection_invalidated or is_conflict(error))


def is_last_of(parts: Sequence[Part], is_ordered: bool) -> bool:
    """Whether a shared transaction ends here: because of its time, or in order because a message is not applied."""
    return (_spent_ms(parts[0].begun) >= TOGETHER_MS_MAX) or (is_ordered and not parts[-1].is_applied)


def pause_s(tries: int, jitter: float) -> float:
    """The pause before the next attempt: an immediate one would take the rows again for which the other transaction
    waits."""
    return CONFLICT_PAUSE_S * (1 << (tries - 1)) * (0.5 + 0.5 * jitter)


def log_unwritten(delivery: Delivery, error: Exception) -> None:
    _log.warning("that message %s failed is not in the ledger: %s", delivery.message_id, error)


def _failure(part: Part) -> Exception | None:
    return part.error if isinstance(part.error, Exception) else None


def _tell_of_unconfirmed(deliveries: Sequence[Delivery], error: BaseException | None) -> None:
    if error is not None:
        more = f" and {len(deliveries) - 1} more" if len(deliveries) > 1 else ""
        _log.warning("the effect of message %s%s is committed, and its stub not yet confirmed: %s: %s",
                     deliveries[0].message_id, more, type(error).__name__, error)


def _is_last_try(delivery: Delivery) -> bool:
    return delivery.message.reconsume_times + 1 >= MISSING_TRIES_MAX


def _name(delivery: Delivery) -> str:
    """The message's name in alarms and logs, without unpaired surrogates."""
    return tables.storable(delivery.message_id or delivery.message.message_id, tables.ALARM_SUBJECT_SIZE_MAX)


def _spent_ms(begun: float) -> int:
    return int((time.monotonic() - begun) * 1000)
