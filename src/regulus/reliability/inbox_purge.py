"""Removes what a consumer's own database no longer needs: rows of the inbox, of the ledger and of lost receipts.

A row of the inbox answers later copies, so it must be kept longer than any copy: those that a broker still keeps, those
that are retried, and those that a relay, or a human, may still send. If a service has its own outbox in the same
database, the attempts of its stubs are the ledger's proofs, and are removed with the stubs.
"""

from sqlalchemy import Column, ColumnElement, Engine, Table, bindparam, delete, exists, inspect, select, tuple_

from regulus.reliability.background import read_committed
from regulus.reliability.retry_policy import INBOX_KEEP_MS, ResendPolicy, check_keep_ms
from regulus.reliability.tables import attempts, inbox, message_log, now_ms, stubs

ROWS_MAX = 1_000
"""The maximum number of rows removed in one transaction."""


def purge_inbox(engine: Engine, *, keep_ms: int = INBOX_KEEP_MS, policy: ResendPolicy | None = None) -> int:
    """Remove old rows; returns the number of rows of the inbox removed. `policy`: that of the relays. Raises
    ConfigError when copies of messages of that age may still arrive."""
    check_keep_ms(keep_ms, policy or ResendPolicy())
    engine = read_committed(engine)
    with engine.connect() as connection:
        before = connection.execute(select(now_ms() - keep_ms)).scalar_one()
        has_stubs = inspect(connection).has_table(stubs.name)
    old_attempts = attempts.c.begin_time < before
    if has_stubs:
        old_attempts &= ~exists().where(stubs.c.message_id == attempts.c.message_id)
    _remove(engine, attempts, attempts.c.begin_time, old_attempts)
    _remove(engine, message_log, message_log.c.receive_time, message_log.c.receive_time < before)
    return _remove(engine, inbox, inbox.c.apply_time, inbox.c.apply_time < before)


def _remove(engine: Engine, table: Table, time: Column[int], is_over: ColumnElement[bool]) -> int:
    keys = list(table.primary_key)
    one = delete(table).where(*[key == bindparam(f"its_{key.name}") for key in keys])
    old = select(time, *keys).where(is_over).order_by(time, *keys).limit(ROWS_MAX)
    removed = 0
    page = old
    while True:
        with engine.begin() as connection:
            rows = connection.execute(page).all()
            if not rows:
                return removed
            connection.execute(one, [{f"its_{key.name}": value for key, value in zip(keys, row[1:], strict=True)}
                                     for row in rows])
        removed += len(rows)
        # Continue from there: rows that stay are not read again and again.
        page = old.where(time >= rows[-1][0], tuple_(time, *keys) > tuple(rows[-1]))
