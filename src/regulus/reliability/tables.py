"""The tables of the reliability layer, as SQLAlchemy metadata: for `create`, and for migrations made by Alembic.

    stub            what is to be sent, and what became of it
    message_id      business serial number; sent as a key and as the property BUSINESS_ID
    topic, tags, body, properties, flag     enough to send it again; properties without tags, as `name 0x01 value 0x02`
    status          UNCONFIRMED, CONFIRMED (the effect is committed) or VOIDED (an operator took it back)
    send_count      sends so far, counted before each
    resend_time     not before this time; a lease, too: who bumps it may send
    broker_name, queue_id, queue_offset     where the latest send is stored; null until that is known
    create_time     all times are ms since 1970 by the clock of the database, so that no other clock can be wrong
    last_error      why the latest send failed
    is_manual       no relay sends it any more; a human decides
    version         changes of this row

An older table is told by the columns that it lacks.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    inspect,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from regulus.errors import ReliabilityRefused
from regulus.model.topics import TOPIC_SIZE_MAX

UNCONFIRMED = "UNCONFIRMED"
CONFIRMED = "CONFIRMED"
VOIDED = "VOIDED"

MESSAGE_ID_SIZE_MAX = 128
LAST_ERROR_SIZE_MAX = 500
BODY_SIZE_MAX = 4 << 20
TAGS_SIZE_MAX = 255

_ID = String(MESSAGE_ID_SIZE_MAX).with_variant(
    # MySQL's usual collations take `a` and `A` for the same id.
    mysql.VARCHAR(MESSAGE_ID_SIZE_MAX, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
_WAITS = "status = 'UNCONFIRMED' AND {}"

metadata = MetaData()

stubs = Table(
    "regulus_stub", metadata,
    Column("message_id", _ID, primary_key=True),
    Column("topic", String(TOPIC_SIZE_MAX), nullable=False),
    Column("tags", String(TAGS_SIZE_MAX), nullable=False),
    Column("body", LargeBinary(BODY_SIZE_MAX), nullable=False),
    Column("properties", Text, nullable=False),
    Column("flag", Integer, nullable=False),
    Column("status", String(11), nullable=False),
    Column("send_count", Integer, nullable=False),
    Column("resend_time", BigInteger, nullable=False),
    Column("broker_name", String(255)),
    Column("queue_id", Integer),
    Column("queue_offset", BigInteger),
    Column("create_time", BigInteger, nullable=False),
    Column("last_error", String(LAST_ERROR_SIZE_MAX)),
    Column("is_manual", Boolean, nullable=False, server_default=false()),
    Column("version", Integer, nullable=False),
    CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_stub_status"),
    # Where an index may hold a part of the rows, those that are done cost it nothing.
    Index("regulus_stub_due", "status", "resend_time",
          postgresql_where=text(_WAITS.format("NOT is_manual")), sqlite_where=text(_WAITS.format("is_manual = 0"))),
)


class now_ms(FunctionElement[int]):
    """The database's clock, in ms since 1970; within a transaction it goes on."""

    type = BigInteger()
    inherit_cache = True


@compiles(now_ms, "postgresql")
def _now_of_postgresql(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "sqlite")
def _now_of_sqlite(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@compiles(now_ms, "mysql", "mariadb")
def _now_of_mysql(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(unix_timestamp(sysdate(3)) * 1000 AS SIGNED)"


def create(connection: Connection) -> None:
    """Make the tables that are not there. Raises ReliabilityRefused when one is there and older."""
    metadata.create_all(connection)
    check(connection)


def check(connection: Connection) -> None:
    """Raises ReliabilityRefused when the stub table is missing or older than this version needs it."""
    try:
        columns = {column["name"] for column in inspect(connection).get_columns(stubs.name)}
    except NoSuchTableError:
        raise missing_table() from None
    check_columns(columns)


def check_columns(present: set[str]) -> None:
    """Raises ReliabilityRefused."""
    lacking = [column.name for column in stubs.columns if column.name not in present]
    if lacking:
        raise ReliabilityRefused(f"the table {stubs.name} is older than this version: it has no column "
                                 f"{', '.join(lacking)}; bring it up to date by a migration made from "
                                 "regulus.reliability.tables.metadata")


def missing_table() -> ReliabilityRefused:
    return ReliabilityRefused(f"the database has no table {stubs.name}; make it with regulus.reliability.tables."
                              "create(connection), or by a migration made from its metadata")


def commits_each_statement(dialect: Dialect, dbapi_connection: Any) -> bool:
    """Whether what this connection writes is committed at once, and with nothing else."""
    driver_connection = getattr(dbapi_connection, "driver_connection", dbapi_connection)    # of an asyncio driver
    if (not dialect.detect_autocommit_setting(dbapi_connection)
            and getattr(driver_connection, "autocommit", None) is not True):
        return False
    return not _has_begun(driver_connection)


def _has_begun(driver_connection: Any) -> bool:
    """Whether somebody began a transaction by hand, or by the means of the driver: sqlite3, aiosqlite, psycopg."""
    begun = getattr(driver_connection, "in_transaction", None)
    if begun is None and hasattr(driver_connection, "info"):
        begun = getattr(driver_connection.info, "transaction_status", 0) != 0
    return bool(begun)
