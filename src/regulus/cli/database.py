"""The databases of the reliability layer, as its commands are given them."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from regulus.spark.extras import require_extra

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

P = ParamSpec("P")

VARIABLE = "REGULUS_DATABASE"
EFFECTS_VARIABLE = "REGULUS_EFFECTS_DATABASE"


def with_database(command: Callable[Concatenate["Connection", P], Any]) -> Callable[..., None]:
    """Give a command `--database`; it gets a connection in a transaction, first, which its end commits."""
    @click.option("--database", envvar=VARIABLE, show_envvar=True, required=True, metavar="URL",
                  help="Of the stubs, as SQLAlchemy writes it: postgresql+psycopg://user:password@host/name, "
                       "sqlite:///shop.sqlite.")
    @wraps(command)
    def call(*args: Any, database: str, **kwargs: Any) -> None:
        with connected(database) as connection:
            command(connection, *args, **kwargs)
    return call


@contextmanager
def connected(address: str) -> "Iterator[Connection]":
    """In a transaction, see `opened`."""
    with opened(address) as engine, engine.begin() as connection:
        yield connection


@contextmanager
def opened(address: str) -> "Iterator[Engine]":
    """Raises MissingExtra; click's error, without the password, for what the database says."""
    require_extra("sql", "the database")
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    engine = _engine(address)
    try:
        yield engine
    except DBAPIError as error:
        raise click.ClickException(f"{_shown(engine)}: {str(error.orig).strip()}") from error
    except SQLAlchemyError as error:
        raise click.ClickException(f"{_shown(engine)}: {error}") from error
    finally:
        engine.dispose()


def operator_name() -> str:
    """Whom an action is written down for."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):     # no user of this number, as in a container; before Python 3.13 a KeyError
        return ""


def _engine(address: str) -> "Engine":
    from sqlalchemy import create_engine
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        engine = create_engine(address)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise click.UsageError(f"--database names a driver that is not installed ({error})") from error
    except ArgumentError as error:
        raise click.UsageError("--database is no address of a database; write "
                               "postgresql+psycopg://user:password@host/name or sqlite:///shop.sqlite") from error
    place = engine.url.database
    if engine.dialect.name == "sqlite" and place and not place.startswith("file:") and not Path(place).exists():
        raise click.UsageError(f"there is no file {place}; SQLite would make an empty one")
    return engine


def _shown(engine: "Engine") -> str:
    return engine.url.render_as_string(hide_password=True)
