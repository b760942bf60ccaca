"""Up to which time all written rows are visible: no open transaction can add older ones.

A row has the time of its statement, and becomes visible when its transaction ends. Each database shows in its own way
which transactions may be writing, and since when:

    PostgreSQL      which one holds the lock of the table's writers, and when that transaction began
    MySQL, MariaDB  the transactions of InnoDB that have written or locked anything, and the statements that run
    SQLite          has one writer at a time: a transaction that becomes the writer has none before it

If that cannot be read, for example for lack of a privilege, the result says what could not be seen.
"""

import time
from typing import NamedTuple

from sqlalchemy import Connection, Table, select, text
from sqlalchemy.exc import DBAPIError

from regulus.reliability.database_errors import in_one_line
from regulus.reliability.tables import MYSQL, commits_each_statement, now_ms


class Settled(NamedTuple):
    """`time_ms`: rows written with an earlier time are visible, except for what `unseen` describes; it is empty if
    there is nothing.

    `is_held_back`: an open transaction makes it earlier than now.
    """

    time_ms: int
    is_held_back: bool = False
    unseen: str = ""


def settled(connection: Connection, table: Table) -> Settled:
    """The settled time of a table's rows, for what `connection` reads from now on.

    This uses no other connection, of which a pool may have none: the given one must have neither read nor written in
    its transaction. If its isolation level keeps to the moment of the first read, that moment comes after this.
    """
    now = connection.execute(select(now_ms())).scalar_one()
    if connection.dialect.name == "postgresql":
        return _of_postgresql(connection, table, now)
    if connection.dialect.name in MYSQL:
        return _of_mysql(connection, now)
    return _of_sqlite(connection, now)


_KEEPS_TO_ITS_FIRST_LOOK = text("""
    SELECT current_setting('transaction_isolation') <> 'read committed' AS keeps,
           pg_current_xact_id_if_assigned() IS NOT NULL AS has_written""")

# A backend without a transaction has ended it since its lock was seen. `disabled`: by track_activities.
_WRITERS_OF_POSTGRESQL = text("""
    SELECT CAST(floor(extract(epoch FROM min(activity.xact_start)) * 1000) AS BIGINT) AS since,
           count(*) FILTER (WHERE held.pid IS NULL OR activity.pid IS NOT NULL
                                  AND coalesce(activity.state, 'disabled') = 'disabled') AS unknown
    FROM pg_locks AS held LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
    WHERE held.locktype = 'relation' AND held.mode = 'RowExclusiveLock'
          AND held.relation = CAST(:name AS regclass)
          AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())""")


def _of_postgresql(connection: Connection, table: Table, now: int) -> Settled:
    writers = connection.execute(_WRITERS_OF_POSTGRESQL, {"name": table.name}).one()
    own = connection.execute(_KEEPS_TO_ITS_FIRST_LOOK).one()
    # If each statement is a transaction, each reads the current state.
    keeps = own.keeps and not commits_each_statement(connection.dialect, connection.connection.dbapi_connection)
    if keeps and own.has_written:
        return Settled(now, unseen="what others committed since this transaction looked first, which wrote something "
                                   "and cannot begin anew")
    if keeps:       # at the same level
        connection.exec_driver_sql("ROLLBACK AND CHAIN")
    return _held_back(now, writers.since, _unknown_writers(writers.unknown, table) if writers.unknown else "")


def _unknown_writers(count: int, table: Table) -> str:
    return (f"since when {count} transactions write to {table.name}, prepared ones or another user's: the role "
            "pg_read_all_stats sees those of others")


_INNODB_SHOWN_LATE_MS = 100
"""For this long the server shows cached rows; and if they are read more often, it never updates them."""
_NO_RIGHT = 1227
_LOOKS_MAX, _BETWEEN_LOOKS_S = 10, 0.15

# By the zone of the machine, not of the session. When its clocks are set back, a time of that hour has two meanings:
# the earlier one is used. Zones change by half an hour, one, or two. A transaction that has neither written nor locked
# has no row yet.
_WRITERS_OF_MYSQL = text("""
    SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', min(utc - INTERVAL shift MINUTE)) DIV 1000
    FROM (SELECT local, CONVERT_TZ(local, 'SYSTEM', '+00:00') AS utc
          FROM (SELECT min(trx_started) AS local FROM information_schema.innodb_trx
                WHERE trx_rows_modified > 0 OR trx_lock_structs > 0) AS first) AS began
    JOIN (SELECT 0 AS shift UNION SELECT 30 UNION SELECT 60 UNION SELECT 120) AS shifts
    WHERE shift = 0 OR CONVERT_TZ(utc - INTERVAL shift MINUTE, '+00:00', 'SYSTEM') = local""")
_STATEMENTS_OF_MYSQL = text("""
    SELECT max(time) FROM information_schema.processlist
    WHERE command IN ('Query', 'Execute') AND id <> connection_id()""")


_IN_TRANSACTION = text("SELECT @@in_transaction")
_OWN_OF_MYSQL = text("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = connection_id()")


def _of_mysql(own: Connection, now: int) -> Settled:
    """Without reading a table of InnoDB, which would fix the snapshot of the transaction. The statements first: one
    that ends meanwhile leaves its transaction, or what it committed."""
    latest = now - _INNODB_SHOWN_LATE_MS
    running_s = own.execute(_STATEMENTS_OF_MYSQL).scalar_one()
    # MySQL does not show whether a transaction is open that another one would commit.
    is_free = bool(getattr(own.dialect, "is_mariadb", False)) and not own.execute(_IN_TRANSACTION).scalar_one()
    try:
        if is_free and not _begun_and_seen(own):
            return Settled(latest, unseen="who writes at the moment: somebody looks at innodb_trx so often that InnoDB "
                                          "shows nothing new there")
        began = own.execute(_WRITERS_OF_MYSQL).scalar_one()
    except DBAPIError as error:
        if error.orig is None or error.orig.args[0] != _NO_RIGHT:
            raise
        return Settled(latest, unseen="the transactions of others: GRANT PROCESS ON *.* TO this user shows them")
    finally:
        if is_free:
            own.exec_driver_sql("COMMIT")
    since = [began, None if running_s is None else now - (running_s + 1) * 1000]
    return _held_back(latest, min((each for each in since if each is not None), default=None))


def _begun_and_seen(own: Connection) -> bool:
    """Begin a transaction, and wait until InnoDB shows it: then it shows all that had begun before. It shows nothing
    new to any client as long as one reads more often than every 100 ms."""
    own.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    for _ in range(_LOOKS_MAX):
        if own.execute(_OWN_OF_MYSQL).scalar_one():
            return True
        time.sleep(_BETWEEN_LOOKS_S)
    return False


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
