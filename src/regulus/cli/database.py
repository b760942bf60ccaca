"""The databases of the reliability layer, as its commands are given them."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from regulus.errors import ReliabilityRefused
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, ExceptionContext

P = ParamSpec("P")

VARIABLE = "REGULUS_DATABASE"
EFFECTS_VARIABLE = "REGULUS_EFFECTS_DATABASE"

_PREPARE_THRESHOLD = "prepare_threshold"


def with_database(command: Callable[Concatenate["Connection", P], Any]) -> Callable[..., None]:
    """Give a command `--database`; it gets a connection in a transaction, first, which its end commits. The tables are
    there."""
    return _given(command, has_tables=True)


def with_any_database(command: Callable[Concatenate["Connection", P], Any]) -> Callable[..., None]:
    """The same for a command that makes the tables."""
    return _given(command, has_tables=False)


def _given(command: Callable[Concatenate["Connection", P], Any], *, has_tables: bool) -> Callable[..., None]:
    @click.option("--database", envvar=VARIABLE, show_envvar=True, required=True, metavar="URL",
                  help="Of the stubs, as SQLAlchemy writes it: postgresql+psycopg://user:password@host/name, "
                       "sqlite:///shop.sqlite.")
    @wraps(command)
    def call(*args: Any, database: str, **kwargs: Any) -> None:
        with connected(database, has_tables=has_tables) as connection:
            command(connection, *args, **kwargs)
    return call


@contextmanager
def connected(address: str, *, has_tables: bool = True, option: str = "--database") -> "Iterator[Connection]":
    """In a transaction, see `opened`."""
    with opened(address, has_tables=has_tables, option=option) as engine, engine.begin() as connection:
        yield connection


@contextmanager
def opened(address: str, *, has_tables: bool = True, option: str = "--database") -> "Iterator[Engine]":
    """The database that `option` names. Raises MissingExtra; DatabaseUnanswered and DatabaseRefused, which show no
    password, also for what this database says later; ReliabilityRefused when it `has_tables` of which one is missing or
    older. What another database of the command says passes by."""
    require_extra("sql", "the database")
    from sqlalchemy import event
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    from regulus.reliability.database_errors import refusal, shown

    engine = _engine(address, option)
    said: list[BaseException | None] = [None]

    def listen(context: "ExceptionContext") -> None:
        said[0] = context.sqlalchemy_exception

    event.listen(engine, "handle_error", listen)
    is_let_in = False
    try:
        with engine.connect() as connection:
            is_let_in = True
            if has_tables:
                _check_tables(connection)
        yield engine
    except DBAPIError as error:
        if error is not said[0]:
            raise
        raise refusal(engine, error, is_let_in=is_let_in) from error
    except SQLAlchemyError as error:
        raise click.ClickException(f"{shown(engine)}: {error}") from error
    finally:
        engine.dispose()


def _check_tables(connection: "Connection") -> None:
    from regulus.reliability import tables
    from regulus.reliability.database_errors import shown

    try:
        tables.check(connection, *tables.metadata.sorted_tables)
    except ReliabilityRefused as error:     # a command may have two databases
        raise ReliabilityRefused(f"{shown(connection.engine)}: {error}") from error


def operator_name() -> str:
    """Whom an action is written down for."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):     # no user of this number, as in a container; before Python 3.13 a KeyError
        return ""


def _engine(address: str, option: str) -> "Engine":
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        url, arguments = _typed(make_url(address), option)
        engine = create_engine(url, connect_args=arguments)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise click.UsageError(f"{option} names a driver that is not installed ({error}); "
                               "`pip install 'regulus-mq[sql]'` brings postgresql+psycopg:// and mysql+pymysql:// "
                               "(MySQL and MariaDB)") from error
    except ArgumentError as error:
        raise click.UsageError(f"{option} is no address of a database; write "
                               "postgresql+psycopg://user:password@host/name or sqlite:///shop.sqlite") from error
    place = engine.url.database
    if engine.dialect.name == "sqlite" and place and not place.startswith("file:") and not Path(place).exists():
        raise click.UsageError(f"{option}: there is no file {place}, and SQLite would make an empty one of any name "
                               f"that is misspelt; if it is to be a new one, first: touch {quote(place)}")
    return engine


def _typed(url: "URL", option: str) -> "tuple[URL, dict[str, int | None]]":
    """The address without what psycopg does not take as a text, as all of an address is; and that, for the driver."""
    said = url.query.get(_PREPARE_THRESHOLD)
    if said is None or url.get_driver_name() != "psycopg":
        return url, {}
    if said != "None" and not (isinstance(said, str) and said.isdecimal()):
        raise click.UsageError(f"{option}: {_PREPARE_THRESHOLD} is {said!r}; give None, or how often a statement is "
                               "carried out before it is prepared")
    return url.difference_update_query([_PREPARE_THRESHOLD]), {
        _PREPARE_THRESHOLD: None if said == "None" else int(said)}
