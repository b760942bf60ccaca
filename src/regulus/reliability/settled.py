"""Up to when all can be seen that was ever written: no transaction that is open can add what is older.

A row has the time of its statement, and others see it when its transaction ends. Each database tells in its own way who
may be writing, and since when:

    PostgreSQL      who holds the lock of the table's writers, and when that transaction began
    MySQL, MariaDB  the transactions of InnoDB that have written or locked anything, and the statements that run
    SQLite          has one writer at a time: whoever gets that place has none before him

Where it does not tell, as for want of a right, it is said what could not be seen.
"""

from typing import NamedTuple

from sqlalchemy import Connection, Table, select, text
from sqlalchemy.exc import DBAPIError

from regulus.reliability.database_errors import in_one_line
from regulus.reliability.tables import MYSQL, now_ms


class Settled(NamedTuple):
    """`time_ms`: what is written with an earlier time is there to be seen, but for what is `unseen`: in words, empty
    where nothing is. `is_held_back`: by a transaction that is open, from the present."""

    time_ms: int
    is_held_back: bool = False
    unseen: str = ""


def settled(connection: Connection, table: Table) -> Settled:
    """Of a table's rows, for what `connection` reads from now on. It asks by a connection of its own, so that one that
    keeps to what it saw first sees no earlier moment, if it has read nothing yet."""
    with connection.engine.connect() as own:
        now = own.execute(select(now_ms())).scalar_one()
        if own.dialect.name == "postgresql":
            return _of_postgresql(own, table, now)
        if own.dialect.name in MYSQL:
            return _of_mysql(own, now)
        return _of_sqlite(own, now)


# Whose backend has no transaction any more has ended it since its lock was seen. `disabled`: by track_activities.
_WRITERS_OF_POSTGRESQL = text("""
    SELECT CAST(floor(extract(epoch FROM min(activity.xact_start)) * 1000) AS BIGINT) AS since,
           count(*) FILTER (WHERE held.pid IS NULL OR activity.pid IS NOT NULL
                                  AND coalesce(activity.state, 'disabled') = 'disabled') AS unknown
    FROM pg_locks AS held LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
    WHERE held.locktype = 'relation' AND held.mode = 'RowExclusiveLock'
          AND held.relation = CAST(:name AS regclass)
          AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())""")


def _of_postgresql(own: Connection, table: Table, now: int) -> Settled:
    writers = own.execute(_WRITERS_OF_POSTGRESQL, {"name": table.name}).one()
    return _held_back(now, writers.since, _unknown_writers(writers.unknown, table) if writers.unknown else "")


def _unknown_writers(count: int, table: Table) -> str:
    return (f"since when {count} transactions write to {table.name}, prepared ones or another user's: the role "
            "pg_read_all_stats sees those of others")


_INNODB_SHOWN_LATE_MS = 100
"""For so long the server shows what it looked up before."""
_NO_RIGHT = 1227

# By the zone of the machine, and not of the session. What has neither written nor locked has no row yet.
_WRITERS_OF_MYSQL = text("""
    SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CONVERT_TZ(min(trx_started), 'SYSTEM', '+00:00')) DIV 1000
    FROM information_schema.innodb_trx
    WHERE trx_mysql_thread_id <> connection_id() AND (trx_rows_modified > 0 OR trx_lock_structs > 0)""")
_STATEMENTS_OF_MYSQL = text("""
    SELECT max(time) FROM information_schema.processlist
    WHERE command IN ('Query', 'Execute') AND id <> connection_id()""")


def _of_mysql(own: Connection, now: int) -> Settled:
    """The statements first: one that ends meanwhile leaves its transaction, or what it committed."""
    latest = now - _INNODB_SHOWN_LATE_MS
    running_s = own.execute(_STATEMENTS_OF_MYSQL).scalar_one()
    try:
        began = own.execute(_WRITERS_OF_MYSQL).scalar_one()
    except DBAPIError as error:
        if error.orig is None or error.orig.args[0] != _NO_RIGHT:
            raise
        return Settled(latest, unseen="the transactions of others, which the privilege PROCESS shows")
    since = [began, None if running_s is None else now - (running_s + 1) * 1000]
    return _held_back(latest, min((each for each in since if each is not None), default=None))


def _of_sqlite(own: Connection, now: int) -> Settled:
    if getattr(own.connection.dbapi_connection, "in_transaction", False):
        return Settled(now, unseen="whether somebody writes: the connection is in a transaction already")
    try:
        own.exec_driver_sql("BEGIN IMMEDIATE")
    except DBAPIError as error:
        return Settled(now, unseen=f"a transaction that is open: {in_one_line(error)}")
    own.exec_driver_sql("ROLLBACK")
    return Settled(now)


def _held_back(latest: int, since: int | None, unseen: str = "") -> Settled:
    if since is None or since >= latest:
        return Settled(latest, unseen=unseen)
    return Settled(since, is_held_back=True, unseen=unseen)
