"""Removes what the stubs' database no longer needs.

    stubs       confirmed or voided, with their groups, receipts and attempts: a time after commit and last send
    alarms      that were sent: a time after they were closed, or raised and never closed
    receipts    of finished stubs, which a consumer that died left behind: at once

A late copy needs its stub, or it looks like one whose transaction was not committed. Decisions by hand stay.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, exists, func, or_, select, tuple_

from regulus.reliability import tables
from regulus.reliability.background import read_committed
from regulus.reliability.retry_policy import KEEP_MS, ResendPolicy, check_keep_ms
from regulus.reliability.tables import UNCONFIRMED, alarms, attempts, confirmations, message_log, now_ms, stubs

ROWS_MAX = 1_000
"""The maximum number of rows removed in one transaction."""


@dataclass(slots=True)
class Purged:
    """How many rows were removed; rows that belong to a stub were removed with it."""

    stubs: int = 0
    receipts: int = 0
    alarms: int = 0


def purge_stubs(engine: Engine, *, keep_ms: int = KEEP_MS, policy: ResendPolicy | None = None) -> Purged:
    """Remove old rows. `policy`: that of the relays. Rows that are locked are left for the next time. Raises
    ConfigError when copies of messages of that age may still arrive, ReliabilityRefused when a table is missing or
    outdated."""
    check_keep_ms(keep_ms, policy or ResendPolicy())
    engine = read_committed(engine)
    with engine.connect() as connection:
        tables.check(connection, stubs, confirmations, message_log, attempts, alarms)
    return Purged(stubs=_repeat(engine, lambda connection: _remove_stubs(connection, keep_ms)),
                  receipts=_repeat(engine, lambda connection: _remove(connection, message_log, _is_done())),
                  alarms=_repeat(engine, lambda connection: _remove(connection, alarms, _is_told(keep_ms))))


def _repeat(engine: Engine, remove: Callable[[Connection], int]) -> int:
    removed = 0
    while True:
        with engine.begin() as connection:
            count = remove(connection)
        removed += count
        if count < ROWS_MAX:
            return removed


def _remove_stubs(connection: Connection, keep_ms: int) -> int:
    """A send increases `resend_time`, which therefore shows the last send."""
    before = now_ms() - keep_ms
    ids = connection.execute(
        select(stubs.c.message_id)
        .where(stubs.c.create_time < before, stubs.c.resend_time < before, stubs.c.status != UNCONFIRMED)
        .order_by(stubs.c.create_time).limit(ROWS_MAX).with_for_update(skip_locked=True)).scalars().all()
    for table in (confirmations, message_log, attempts, stubs) if ids else ():
        connection.execute(delete(table).where(table.c.message_id.in_(ids)))
    return len(ids)


def _remove(connection: Connection, table: Table, is_over: ColumnElement[bool]) -> int:
    keys = list(table.primary_key)
    rows = connection.execute(
        select(*keys).where(is_over).limit(ROWS_MAX).with_for_update(skip_locked=True)).all()
    if rows:
        connection.execute(delete(table).where(tuple_(*keys).in_([tuple(row) for row in rows])))
    return len(rows)


def _is_done() -> ColumnElement[bool]:
    """Whether a receipt's stub, or its group of the stub, is done."""
    return or_(exists().where(stubs.c.message_id == message_log.c.message_id, stubs.c.status != UNCONFIRMED),
               exists().where(confirmations.c.message_id == message_log.c.message_id,
                              confirmations.c.consumer_group == message_log.c.consumer_group,
                              confirmations.c.status != UNCONFIRMED))


def _is_told(keep_ms: int) -> ColumnElement[bool]:
    return alarms.c.sent_time.is_not(None) & (
        func.coalesce(alarms.c.closed_time, alarms.c.raise_time) < now_ms() - keep_ms)
