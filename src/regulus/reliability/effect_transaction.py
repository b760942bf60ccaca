"""Protects the transaction of an effect, which the effect must not end: that would separate effect and confirmation.

    connection.commit()             is refused, so that nothing is done
    anything else, as a COMMIT or ROLLBACK in SQL, the driver's own, DDL in MySQL, or a deadlock that the effect
    ignored                         is found after the effect, before more is committed

PostgreSQL detects it by the row of the confirmation, in the statement that concludes a delivery; others by a savepoint,
which is lost with its transaction. If several effects share a transaction, each has a savepoint on every database, by
which it can be undone alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from regulus.errors import ReliabilityRefused
from regulus.reliability import tables

_SAVEPOINT = "regulus_effect"
_SHARED = "regulus_shared"


class EndedByEffect(ReliabilityRefused):
    """The effect ended its transaction; everything else in it is lost, or committed."""


def begin_shared(connection: Connection) -> None:
    """Begin a transaction for several effects. Python's sqlite3 begins none for a savepoint, whose end would commit."""
    if connection.dialect.name == "sqlite" and not tables.has_begun(connection.connection.dbapi_connection):
        connection.exec_driver_sql("BEGIN")


def mark_shared(connection: Connection) -> None:
    """Set a savepoint before the statements of one of several messages."""
    connection.exec_driver_sql(f"SAVEPOINT {_SHARED}")


def check_shared(connection: Connection) -> None:
    """Check the savepoint after the statements of a message. Raises EndedByEffect."""
    _release(connection, _SHARED)


def keep_nested(connection: Connection) -> None:
    """Keep what was written after a savepoint that the effect left open, before the checks. Otherwise SQLAlchemy would
    use that savepoint for the next effect, whose Session would silently roll back to it. Raises what the database
    raises when there is none."""
    while (nested := connection.get_nested_transaction()) is not None:
        nested.commit()


def undo_shared(connection: Connection) -> None:
    """Undo the statements of one message, and nothing else. Raises what the database raises when there is no savepoint
    left."""
    while (nested := connection.get_nested_transaction()) is not None:     # see `keep_nested`
        nested.rollback()
    connection.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_SHARED}")
    connection.exec_driver_sql(f"RELEASE SAVEPOINT {_SHARED}")


def mark(connection: Connection) -> None:
    """Set the savepoint after the confirmation, before the effect."""
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(f"SAVEPOINT {_SAVEPOINT}")


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """Refuse commits while the effect runs."""
    event.listen(connection, "commit", _refuse)
    try:
        yield
    finally:
        event.remove(connection, "commit", _refuse)


def check(connection: Connection) -> None:
    """Check the transaction after the effect. Raises EndedByEffect."""
    check_begun(connection)
    if connection.dialect.name != "postgresql":
        _release(connection, _SAVEPOINT)


def check_begun(connection: Connection) -> None:
    """Check that SQLAlchemy's transaction is still open. Raises EndedByEffect."""
    if not connection.in_transaction():
        raise ended()


def _release(connection: Connection, savepoint: str) -> None:
    try:
        connection.exec_driver_sql(f"RELEASE SAVEPOINT {savepoint}")
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        raise ended() from error


def ended() -> EndedByEffect:
    return EndedByEffect("the effect ended the transaction by itself; leave commit and rollback to apply_once, or "
                              "effect and confirmation may come apart")


def _refuse(connection: Connection) -> None:
    # SQLAlchemy does not roll back a failed commit: the pool's next user would commit what is left.
    connection.dialect.do_rollback(connection.connection)
    raise ended()
