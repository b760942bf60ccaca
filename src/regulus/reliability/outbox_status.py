"""The current state of an outbox in numbers: what waits and since when, and what was sent and applied recently.

The unconfirmed stubs are read once, and of the ledger only the window; older entries are not read. A consumer's own
database has no stubs, and the rest describes the consumer.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, func, select

from regulus.reliability.tables import (
    APPLIED,
    DELIVERY,
    SEND,
    UNCONFIRMED,
    alarms,
    attempts,
    message_log,
    now_ms,
    stubs,
)

WINDOW_MS = 3_600_000
"""The default length of the window, for recent numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A number, and the age of the oldest in ms by the database's clock; 0 when there is none."""

    count: int = 0
    oldest_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """Stubs that are neither confirmed nor voided are `due`, `waiting` or `parked`. The other numbers are for the last
    `window_ms`."""

    window_ms: int
    due: Waiting            # a relay sends or reviews them now; the age is counted from the due time
    waiting: Waiting        # sent, and due later; the age is counted from the commit
    parked: Waiting         # left to a human; the age is counted from the commit
    received: dict[str, Waiting]    # by consuming group: not finished, by the first receipt
    stored: int             # sends
    failed: int
    applied: int            # deliveries
    not_applied: int        # answered as done, postponed or failed
    open_alarms: dict[str, int]     # by kind, those whose cause lasts
    untold_alarms: int

    def a_minute(self, count: int) -> float:
        """The rate of an event with this count within the window."""
        return count * 60_000 / self.window_ms


def outbox_status(connection: Connection, window_ms: int = WINDOW_MS) -> OutboxStatus:
    now = connection.execute(select(now_ms())).scalar_one()
    due, waiting, parked = _unconfirmed(connection, now)
    happened = _happened(connection, now - window_ms)
    deliveries = sum(count for (kind, _), count in happened.items() if kind == DELIVERY)
    applied = happened.get((DELIVERY, APPLIED), 0)
    return OutboxStatus(
        window_ms=window_ms, due=due, waiting=waiting, parked=parked,
        received={group: _aged(count, oldest, now) for group, count, oldest in connection.execute(
            select(message_log.c.consumer_group, func.count(), func.min(message_log.c.create_time))
            .group_by(message_log.c.consumer_group).order_by(message_log.c.consumer_group))},
        stored=happened.get((SEND, "STORED"), 0), failed=happened.get((SEND, "FAILED"), 0),
        applied=applied, not_applied=deliveries - applied,
        open_alarms={row.kind: row.number for row in connection.execute(
            select(alarms.c.kind, func.count().label("number")).where(alarms.c.open_key.is_not(None))
            .group_by(alarms.c.kind).order_by(alarms.c.kind))},
        untold_alarms=_count(connection, alarms, alarms.c.sent_time.is_(None)))


def _unconfirmed(connection: Connection, now: int) -> tuple[Waiting, Waiting, Waiting]:
    """Stubs that are due, that wait, and that are left to a human; in one query."""
    is_new = stubs.c.send_count == 0        # due at any time
    is_due = ~stubs.c.is_manual & (is_new | (stubs.c.resend_time <= now))
    is_later = ~stubs.c.is_manual & ~is_new & (stubs.c.resend_time > now)
    kinds: list[tuple[ColumnElement[bool], ColumnElement[int]]] = [
        (is_due, stubs.c.resend_time), (is_later, stubs.c.create_time), (stubs.c.is_manual, stubs.c.create_time)]
    columns = [column for condition, since in kinds
               for column in (func.count(case((condition, 1))), func.min(case((condition, since))))]
    row = connection.execute(select(*columns).where(stubs.c.status == UNCONFIRMED)).one()
    due, waiting, parked = (_aged(row[at], row[at + 1], now) for at in (0, 2, 4))
    return due, waiting, parked


def _happened(connection: Connection, since_ms: int) -> dict[tuple[str, str], int]:
    """Sends and deliveries by kind and outcome."""
    return {(kind, outcome): count for kind, outcome, count in connection.execute(
        select(attempts.c.kind, attempts.c.outcome, func.count()).where(attempts.c.begin_time >= since_ms)
        .group_by(attempts.c.kind, attempts.c.outcome))}


def _count(connection: Connection, table: Table, condition: ColumnElement[Any]) -> int:
    return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()


def _aged(count: int, oldest: int | None, now: int) -> Waiting:
    """The age is never negative, because the clock of a database may be set back."""
    return Waiting(count=count, oldest_ms=0 if oldest is None else max(0, now - oldest))
