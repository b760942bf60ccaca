"""Removes what a consumer's own database no longer needs: rows of the inbox, of the ledger and of lost receipts.

A row of the inbox is what answers a copy, so it has to outlive every copy: those that a broker still keeps, those that
are tried again, and those that a relay, or a human, may still send.
"""

from sqlalchemy import Column, Engine, Select, Table, bindparam, delete, select

from regulus.reliability.retry_policy import INBOX_KEEP_MS, ResendPolicy, check_keep_ms
from regulus.reliability.tables import attempts, inbox, message_log, now_ms

ROWS_MAX = 1_000
"""Of one transaction."""


def purge_inbox(engine: Engine, *, keep_ms: int = INBOX_KEEP_MS, policy: ResendPolicy | None = None) -> int:
    """Rows of the inbox that were removed. `policy`: that of the relays. Raises ConfigError when copies may still come
    of what is that old."""
    check_keep_ms(keep_ms, policy or ResendPolicy())
    with engine.connect() as connection:
        before = connection.execute(select(now_ms() - keep_ms)).scalar_one()
    for table, time in ((attempts, attempts.c.begin_time), (message_log, message_log.c.receive_time)):
        _remove(engine, table, time, before)
    return _remove(engine, inbox, inbox.c.apply_time, before)


def _remove(engine: Engine, table: Table, time: Column[int], before: int) -> int:
    keys = list(table.primary_key)
    one = delete(table).where(*[key == bindparam(f"its_{key.name}") for key in keys])
    old: Select[tuple[object, ...]] = select(*keys).where(time < before).order_by(time).limit(ROWS_MAX)
    removed = 0
    while True:
        with engine.begin() as connection:
            rows = [{f"its_{name}": value for name, value in row._mapping.items()} for row in connection.execute(old)]
            if not rows:
                return removed
            connection.execute(one, rows)
        removed += len(rows)
