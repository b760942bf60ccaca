"""The transaction of an effect, which the effect is not to end: whatever ends it parts effect and confirmation.

    connection.commit()             is refused, so that nothing is done
    anything else, as a COMMIT or ROLLBACK in words, the driver's own, DDL in MySQL, or a deadlock that the effect
    swallowed                       is found behind the effect, before more is committed

PostgreSQL tells it by the row of the confirmation, in the statement that concludes a delivery; others by a savepoint,
which goes with its transaction. Where several effects share one, each has a savepoint on every database, by which it
can be undone alone.
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
    """Whatever else the transaction held is gone, or committed."""


def begin_shared(connection: Connection) -> None:
    """A transaction for several effects. Python's sqlite3 begins none for a savepoint, whose end would commit."""
    if connection.dialect.name == "sqlite" and not tables.has_begun(connection.connection.dbapi_connection):
        connection.exec_driver_sql("BEGIN")


def mark_shared(connection: Connection) -> None:
    """Before all that belongs to one message of several."""
    connection.exec_driver_sql(f"SAVEPOINT {_SHARED}")


def check_shared(connection: Connection) -> None:
    """Behind all that belongs to it. Raises EndedByEffect."""
    _release(connection, _SHARED)


def keep_nested(connection: Connection) -> None:
    """What is written behind a savepoint that the effect left open, before all is checked. SQLAlchemy would take that
    for the next effect's, too, whose Session would then roll back to it and not say so. Raises what the database raises
    where it has none."""
    while (nested := connection.get_nested_transaction()) is not None:
        nested.commit()


def undo_shared(connection: Connection) -> None:
    """All that belongs to it, and nothing of the others. Raises what the database raises where there is nothing left to
    go back to."""
    while (nested := connection.get_nested_transaction()) is not None:     # see `keep_nested`
        nested.rollback()
    connection.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_SHARED}")
    connection.exec_driver_sql(f"RELEASE SAVEPOINT {_SHARED}")


def mark(connection: Connection) -> None:
    """Behind the confirmation, before the effect."""
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(f"SAVEPOINT {_SAVEPOINT}")


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """While the effect runs."""
    event.listen(connection, "commit", _refuse)
    try:
        yield
    finally:
        event.remove(connection, "commit", _refuse)


def check(connection: Connection) -> None:
    """Behind the effect. Raises EndedByEffect."""
    check_begun(connection)
    if connection.dialect.name != "postgresql":
        _release(connection, _SAVEPOINT)


def check_begun(connection: Connection) -> None:
    """What SQLAlchemy knows of it. Raises EndedByEffect."""
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
    # A commit that raises is not rolled back by SQLAlchemy: the pool's next user would commit what is left.
    connection.dialect.do_rollback(connection.connection)
    raise ended()
