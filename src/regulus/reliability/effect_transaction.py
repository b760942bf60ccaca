"""The transaction of an effect, which the effect is not to end: whatever ends it parts effect and confirmation.

    connection.commit()             is refused, so that nothing is done
    anything else, as a COMMIT or ROLLBACK in words, the driver's own, DDL in MySQL, or a deadlock that the effect
    swallowed                       is found behind the effect, before more is committed

PostgreSQL tells it by the row of the confirmation, in the statement that concludes a delivery; others by a savepoint,
which goes with its transaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from regulus.errors import ReliabilityRefused

_SAVEPOINT = "regulus_effect"


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
    """Behind the effect. Raises ReliabilityRefused."""
    if not connection.in_transaction():
        raise ended()
    if connection.dialect.name == "postgresql":
        return
    try:
        connection.exec_driver_sql(f"RELEASE SAVEPOINT {_SAVEPOINT}")
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        raise ended() from error


def ended() -> ReliabilityRefused:
    return ReliabilityRefused("the effect ended the transaction by itself; leave commit and rollback to apply_once, or "
                              "effect and confirmation may come apart")


def _refuse(connection: Connection) -> None:
    # A commit that raises is not rolled back by SQLAlchemy: the pool's next user would commit what is left.
    connection.dialect.do_rollback(connection.connection)
    raise ended()
