"""Writes messages into the stub table, in the transaction that stores the data they refer to.

If the transaction is rolled back, the message never existed; if it is committed, a relay sends the message, and again
until its effect is confirmed.
"""

import inspect
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    Dialect,
    Insert,
    Table,
    TwoPhaseTransaction,
    bindparam,
    make_url,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session

from regulus.client.core.message_check import check_message
from regulus.errors import ConfigError, MessageIllegal, ReliabilityRefused
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.reliability import outbox_table, tables
from regulus.reliability.database_errors import is_missing_table

if TYPE_CHECKING:   # it needs greenlet, which is optional
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

CHANNEL = "regulus_stub"
"""The channel on which PostgreSQL notifies relays of a commit."""
PROPERTIES_RESERVE = 1024
"""Bytes of properties that are reserved for producer and broker."""

_MESSAGE_COLUMNS = ("message_id", "topic", "tags", "body", "properties", "flag")
_DJANGO_ATOMIC = "in_atomic_block"     # an attribute that only Django's connections have
_DIALECTS = {"sqlite3": "sqlite", "psycopg": "postgresql+psycopg"}


class Outbox:
    """The outbox of one database.

        outbox = Outbox()
        with Session(engine) as session, session.begin():
            session.add(order)
            outbox.add(session, Message("Orders", order.to_json()))

    The table is checked before the first message. `groups`: the consuming groups, if there are several; each confirms
    its own effect, and messages are sent again until all have. `notifies`: a relay on PostgreSQL is notified of each
    commit; with very many small transactions at once, their commits then wait for one another.
    """

    def __init__(self, *, groups: Sequence[str] = (), message_size_max: int = tables.BODY_SIZE_MAX,
                 notifies: bool = True) -> None:
        """Raises ConfigError."""
        if isinstance(groups, str) or len(set(groups)) != len(groups) or not all(groups):
            raise ConfigError(f"groups is {groups!r}; give the names of the consuming groups, each once")
        self._groups = tuple(groups)
        self._message_size_max = min(message_size_max, tables.BODY_SIZE_MAX)
        self._notifies = notifies
        self._is_checked = False

    def add(self, connection: Session | Connection | Any, message: Message, *, message_id: str = "") -> str:
        """Store the message in the transaction that `connection` is in, or begins with this; returns its business id.

        `connection` is a session or connection of SQLAlchemy, `django.db.connection` within `atomic()`, or a connection
        of sqlite3 or psycopg. `message_id` is a serial number of the application's own, which must be new. The message
        itself is not changed.

        Raises ReliabilityRefused when each statement is committed by itself, a session writes by several engines, or
        the table is missing or outdated; MessageIllegal for a message that no broker accepts.
        """
        message_id = message_id or new_message_id()
        values = stub_values(message, message_id, self._message_size_max)
        if isinstance(connection, Session | scoped_session):
            connection = _of_session(connection() if isinstance(connection, scoped_session) else connection)
        if isinstance(connection, Connection):
            self._add(connection, values)
        else:
            self._add_to_driver(_of_django(connection) if hasattr(connection, _DJANGO_ATOMIC) else connection, values)
        return message_id

    async def add_async(self, connection: "AsyncSession | AsyncConnection", message: Message, *,
                        message_id: str = "") -> str:
        """Like `add`, for sessions and connections of SQLAlchemy's asyncio extension."""
        def add(inner: Session | Connection) -> str:
            return self.add(inner, message, message_id=message_id)
        return await connection.run_sync(add)

    def _add(self, connection: Connection, values: dict[str, object]) -> None:
        driver_connection = connection.connection.dbapi_connection
        _check_transaction(connection.dialect, driver_connection)
        if not self._is_checked:
            tables.check(connection, *self._needs())
            self._is_checked = True
        with _table_named(tables.stubs, DBAPIError):
            connection.execute(outbox_table.add(), values)
        if self._groups:
            with _table_named(tables.confirmations, DBAPIError):
                connection.execute(outbox_table.add_group(), self._group_rows(values))
        # A transaction with a notification cannot be prepared; relays also check at an interval.
        if self._tells(connection.dialect) and not isinstance(connection.get_transaction(), TwoPhaseTransaction):
            connection.exec_driver_sql(f"NOTIFY {CHANNEL}")

    def _add_to_driver(self, connection: Any, values: dict[str, object]) -> None:
        dialect = _dialect(connection)
        _check_transaction(dialect, connection)
        cursor = connection.cursor()
        try:
            if not self._is_checked:
                for table in self._needs():
                    _check_table(dialect, cursor, table)
                self._is_checked = True
            failure = dialect.import_dbapi().Error
            with _table_named(tables.stubs, failure):
                _run(cursor, _insert(dialect), values)
            with _table_named(tables.confirmations, failure):
                for row in self._group_rows(values):
                    _run(cursor, _insert_group(dialect), row)
            if self._tells(dialect):
                cursor.execute(f"NOTIFY {CHANNEL}")
        finally:
            cursor.close()

    def _needs(self) -> tuple[Table, ...]:
        return (tables.stubs, tables.confirmations) if self._groups else (tables.stubs,)

    def _group_rows(self, values: Mapping[str, object]) -> list[dict[str, object]]:
        return [{"message_id": values["message_id"], "consumer_group": group} for group in self._groups]

    def _tells(self, dialect: Dialect) -> bool:
        return self._notifies and dialect.name == "postgresql"


def new_message_id() -> str:
    """A unique id of 32 characters; later ones are larger, so that an index grows at its end."""
    return f"{int(time.time() * 1000):012X}{secrets.token_hex(10).upper()}"


def stub_values(message: Message, message_id: str, size_max: int = tables.BODY_SIZE_MAX) -> dict[str, object]:
    """The columns of a message. Raises MessageIllegal when it cannot be stored and sent unchanged."""
    check_message(message, size_max)
    if not tables.is_message_id(message_id):
        raise MessageIllegal(f"message_id is {message_id[:200]!r}; it is a key of the message and has up to "
                             f"{tables.MESSAGE_ID_SIZE_MAX} printable characters without spaces")
    if len(message.tags) > tables.TAGS_SIZE_MAX:
        raise MessageIllegal(f"the tag has {len(message.tags)} characters, more than {tables.TAGS_SIZE_MAX}")
    properties = {name: value for name, value in message.properties.items() if name != names.TAGS and value}
    if message_id not in message.keys.split():
        properties[names.KEYS] = f"{message_id} {message.keys}".rstrip()
    properties[names.BUSINESS_ID] = message_id
    text = names.format(properties)
    if "\0" in text + message.tags:
        raise MessageIllegal("a property of the message has the character 0x00, which databases do not store")
    size = len(text.encode()) + len(message.tags.encode())
    if size > names.PROPERTIES_SIZE_MAX - PROPERTIES_RESERVE:
        raise MessageIllegal(f"the properties have {size} bytes, more than "
                             f"{names.PROPERTIES_SIZE_MAX - PROPERTIES_RESERVE}; put large values into the body")
    return {"message_id": message_id, "topic": message.topic, "tags": message.tags, "body": bytes(message.body),
            "properties": text, "flag": message.flag}


def _of_session(session: Session) -> Connection:
    """Raises ReliabilityRefused when the business data may be in another transaction than the stub."""
    # Each engine has a separate transaction, even for the same database.
    engines = {bind.engine for bind in (session.bind, *session.binds.values()) if bind is not None}
    if len(engines) > 1 and not session.twophase:
        raise ReliabilityRefused(
            "this session writes by several engines, whose commits are not one, so that the message could be sent "
            "without what it speaks of: give outbox.add the connection by which the business's rows are written, "
            "session.connection(bind_arguments={'mapper': Order}), or make the session with twophase=True")
    return session.connection()


def _check_transaction(dialect: Dialect, driver_connection: Any) -> None:
    if tables.commits_each_statement(dialect, driver_connection):
        raise _not_in_a_transaction("begin a transaction before outbox.add")


def _of_django(connection: Any) -> Any:
    """The driver's connection, in the transaction of `atomic()`."""
    if not getattr(connection, _DJANGO_ATOMIC):
        raise _not_in_a_transaction("call it within transaction.atomic()")
    connection.ensure_connection()
    return connection.connection


@contextmanager
def _table_named(table: Table, failure: type[Exception]) -> Iterator[None]:
    """Raises ReliabilityRefused when the table is now missing, or is in another database."""
    try:
        yield
    except failure as error:
        if is_missing_table(error):
            raise tables.missing_table(table) from error
        raise


def _not_in_a_transaction(remedy: str) -> ReliabilityRefused:
    return ReliabilityRefused("this connection commits each statement by itself, so that the message could be sent "
                              f"without what it speaks of: {remedy}, and make the changes of the business in it")


def _check_table(dialect: Dialect, cursor: Any, table: Table) -> None:
    """Like `tables.check`, with the means of a driver."""
    try:
        cursor.execute(f"SELECT * FROM {table.name} WHERE 1 = 0")
    except dialect.import_dbapi().Error as error:
        raise tables.missing_table(table) from error
    tables.check_columns({column[0] for column in cursor.description}, table)


def _dialect(connection: Any) -> Dialect:
    """The dialect of the connection's driver. Raises ReliabilityRefused for unsupported drivers."""
    modules = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    known = sorted(modules & _DIALECTS.keys())
    if not known or inspect.iscoroutinefunction(getattr(connection, "commit", None)):
        raise ReliabilityRefused(f"{type(connection).__module__}.{type(connection).__qualname__} is not a connection "
                                 "that the outbox writes by: give a session or connection of SQLAlchemy (asyncio: to "
                                 "add_async), django.db.connection, or one of sqlite3 or psycopg")
    return _dialect_named(_DIALECTS[known[0]])


@cache
def _dialect_named(name: str) -> Dialect:
    return make_url(f"{name}://").get_dialect()()


class _Statement(NamedTuple):
    """A statement in a driver's own syntax: with the values that never change, and the order of all values if they have
    no names."""

    text: str
    fixed: dict[str, object]
    order: list[str] | None


def _run(cursor: Any, statement: _Statement, values: Mapping[str, object]) -> None:
    named = {**statement.fixed, **values}
    cursor.execute(statement.text, named if statement.order is None else [named[name] for name in statement.order])


@cache
def _insert(dialect: Dialect) -> _Statement:
    return _compiled(outbox_table.add(), _MESSAGE_COLUMNS, dialect)


@cache
def _insert_group(dialect: Dialect) -> _Statement:
    return _compiled(outbox_table.add_group(), ("message_id", "consumer_group"), dialect)


def _compiled(statement: Insert, columns: Sequence[str], dialect: Dialect) -> _Statement:
    given: dict[str, BindParameter[object]] = {name: bindparam(name) for name in columns}
    compiled = statement.values(given).compile(dialect=dialect)
    return _Statement(str(compiled), dict(compiled.params), compiled.positiontup if compiled.positional else None)
