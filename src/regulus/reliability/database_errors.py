"""Errors of databases and their drivers, described alike for all of them."""

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from regulus.errors import DatabaseRefused, DatabaseUnanswered

_MYSQL_CLIENT_CODES = range(2000, 3000)
"""Numbers that the driver itself uses; the server uses others."""
_UNDEFINED_TABLE, _NO_SUCH_TABLE_OF_MYSQL = "42P01", 1146
_NOT_PREPARED_HERE = frozenset({"26000", "42P05"})
"""PostgreSQL: a prepared statement that this connection does not have, or that another connection made in it."""


def shown(engine: Engine) -> str:
    """The database's address, without the password."""
    return engine.url.render_as_string(hide_password=True)


def refusal(engine: Engine, error: DBAPIError, *, is_let_in: bool) -> DatabaseUnanswered | DatabaseRefused:
    """A database error in one sentence with the remedy; `is_let_in`: the connection had been accepted."""
    if is_unanswered(error):
        return DatabaseUnanswered(f"{shown(engine)} does not answer: {in_one_line(error)}; check that it runs, and "
                                  "that this is its address")
    remedy = ""
    if getattr(error.orig, "sqlstate", None) in _NOT_PREPARED_HERE:
        remedy = ("; as behind a pooler in transaction mode: add ?prepare_threshold=None to the address, or, in a "
                  "program, connect_args={'prepare_threshold': None} to create_engine")
    elif getattr(error.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
        remedy = "; try again when the program that writes to it is done"
    elif not is_let_in and engine.dialect.name != "sqlite":
        remedy = "; check the user, the password and the database in its address"
    return DatabaseRefused(f"{shown(engine)} refuses: {in_one_line(error)}{remedy}")


def in_one_line(error: BaseException) -> str:
    """The driver's own text, without the statement and the link that SQLAlchemy adds."""
    return " ".join(str(_of_driver(error)).split())


def is_unanswered(error: DBAPIError) -> bool:
    """Whether no server could be reached, or it was lost; False when one refused, as for a wrong password."""
    if error.connection_invalidated:
        return True
    said = error.orig
    code = said.args[0] if said is not None and said.args else None
    if isinstance(code, int):
        return code in _MYSQL_CLIENT_CODES
    # libpq has no number for what a server answers to a new connection: its severity, or the request for a password,
    # shows it.
    return (_is_operational(said) and getattr(said, "sqlstate", "") is None and "FATAL:" not in str(said)
            and not getattr(getattr(said, "pgconn", None), "used_password", False))


def is_missing_table(error: BaseException) -> bool:
    """Whether a statement names a table that does not exist, by an error of SQLAlchemy or of a driver."""
    said = _of_driver(error)
    return (getattr(said, "sqlstate", None) == _UNDEFINED_TABLE or said.args[:1] == (_NO_SUCH_TABLE_OF_MYSQL,)
            or (_is_operational(said) and str(said).startswith("no such table: ")))


def passing(error: BaseException) -> str | None:
    """One line for an error that may pass by itself: a database that is unreachable, locked or full. None for a
    programming error, whose traceback is needed."""
    said = _of_driver(error)
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    # SQLite reports a wrong statement as operational, too.
    if is_lost or (_is_operational(said) and getattr(said, "sqlite_errorname", "") != "SQLITE_ERROR"):
        return f"the database says: {in_one_line(error)}"
    return None


def _of_driver(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _is_operational(error: BaseException | None) -> bool:
    """Whether the class is the one that PEP 249 gives to errors that are not programming errors."""
    return any(kind.__name__ == "OperationalError" for kind in type(error).__mro__)
