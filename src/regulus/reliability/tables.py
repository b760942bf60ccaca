"""The tables of the reliability layer, as SQLAlchemy metadata: for `create`, and for migrations made by Alembic.

All times are ms since 1970 by the clock of the database, so that no other clock can be wrong. A *position* is
broker_name, queue_id and queue_offset.

    regulus_stub    messages to be sent, and their state: in the business's database
    message_id      business serial number; sent as a key and as the property BUSINESS_ID
    topic, tags, body, properties, flag     enough to send it again; properties without tags, as `name 0x01 value 0x02`
    status          UNCONFIRMED, CONFIRMED (the effect is committed) or VOIDED (an operator revoked it)
    send_count      sends so far, counted before each
    resend_time     not before this time; also a lease: a relay that increases it may send
    first_send_time     when the first copy became available to its consumers; that of a human's retry, if there was one
    broker_name, queue_id, queue_offset     where the latest send is stored; null until that is known
    create_time     of the business's commit
    last_error      why the latest send failed
    is_manual       no relay sends it any more; a human decides
    version         changes of this row

    regulus_confirmation    a row for each consuming group of a stub, if there are several; one group alone is
                            confirmed by the stub itself. The stub is confirmed with the last of them.
    regulus_inbox           what a group applied: the judge in a consumer's database that has no stubs
    regulus_message_log     what a group has received and not finished, and the position and time of the latest receipt
    regulus_watermark       how far a group has received a queue of a topic; rows are never deleted, and retries, which
                            have positions in another topic, do not move it
    regulus_attempt         each send and each delivery with its outcome: the ledger, which is kept longer than the
                            message log
    regulus_action          what operators did by hand, and why
    regulus_alarm           notices for people, a row for each cause (kind and subject); sent_time is null until they
                            are sent, and closed_time as long as the cause lasts; not sent before due_time, which is
                            also a lease: a sender that increases it may send

An outdated table is recognized by the columns that it lacks.
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
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    false,
    inspect,
    text,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from regulus.errors import ReliabilityRefused
from regulus.model.topics import TOPIC_SIZE_MAX

UNCONFIRMED = "UNCONFIRMED"
CONFIRMED = "CONFIRMED"
VOIDED = "VOIDED"

SEND = "SEND"
DELIVERY = "DELIVERY"
APPLIED = "APPLIED"
"""The outcome of the delivery whose effect is committed; written in the effect's transaction."""

MESSAGE_ID_SIZE_MAX = 128
LAST_ERROR_SIZE_MAX = 500
BODY_SIZE_MAX = 4 << 20
TAGS_SIZE_MAX = 255
CONSUMER_GROUP_SIZE_MAX = 255
BROKER_NAME_SIZE_MAX = 255
OPERATOR_SIZE_MAX = 128
DIGEST_SIZE = 16
STUB_FILL_PERCENT = 50
"""How full PostgreSQL makes a page of stubs."""
ALARM_SUBJECT_SIZE_MAX = 255
ALARM_OPEN_KEY_SIZE_MAX = 300
"""The size of kind and subject together."""

_EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin", "mysql_engine": "InnoDB",
                          "mariadb_charset": "utf8mb4", "mariadb_collate": "utf8mb4_bin", "mariadb_engine": "InnoDB"}
"""The usual collations of MySQL treat `a` and `A` as the same id, group or topic; its default engine may be one without
rollback."""

MYSQL = ("mysql", "mariadb")

_ID = String(MESSAGE_ID_SIZE_MAX)
_WAITS = "status = 'UNCONFIRMED' AND {}"

_GROUP = String(CONSUMER_GROUP_SIZE_MAX)

_LOOSE_TABLES = text("""
    SELECT kept.table_name, kept.engine
    FROM information_schema.tables AS kept JOIN information_schema.engines AS known ON known.engine = kept.engine
    WHERE kept.table_schema = coalesce(:schema, database()) AND kept.table_name IN :names
          AND known.transactions <> 'YES'
    """).bindparams(bindparam("names", expanding=True))

metadata = MetaData()


def _position(*, nullable: bool) -> tuple[Column[Any], ...]:
    return (Column("broker_name", String(BROKER_NAME_SIZE_MAX), nullable=nullable),
            Column("queue_id", Integer, nullable=nullable),
            Column("queue_offset", BigInteger, nullable=nullable))


stubs = Table(
    "regulus_stub", metadata,
    Column("message_id", _ID, primary_key=True),
    Column("topic", String(TOPIC_SIZE_MAX), nullable=False),
    Column("tags", String(TAGS_SIZE_MAX), nullable=False),
    Column("body", LargeBinary(BODY_SIZE_MAX), nullable=False, quote=True),     # a word of MariaDB's sql_mode=ORACLE
    Column("properties", Text, nullable=False),
    Column("flag", Integer, nullable=False),
    Column("status", String(11), nullable=False),
    Column("send_count", Integer, nullable=False),
    Column("resend_time", BigInteger, nullable=False),
    Column("first_send_time", BigInteger),
    *_position(nullable=True),
    Column("create_time", BigInteger, nullable=False),
    Column("last_error", String(LAST_ERROR_SIZE_MAX)),
    Column("is_manual", Boolean, nullable=False, server_default=false()),
    Column("version", Integer, nullable=False),
    CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_stub_status"),
    Index("regulus_stub_time", "create_time", "message_id"),    # for the ledger, and the removal of old stubs
    # If an index may hold a part of the rows, finished ones cost it nothing, and each other row is in one of these:
    # stubs that were sent and wait for their effect do not come before new ones. In MySQL and MariaDB the first index
    # serves both, because due stubs are adjacent in it for each count.
    Index("regulus_stub_new", "status", "is_manual", "send_count", "resend_time",
          postgresql_where=text(_WAITS.format("NOT is_manual AND send_count = 0")),
          sqlite_where=text(_WAITS.format("is_manual = 0 AND send_count = 0"))),
    Index("regulus_stub_due", "status", "resend_time",
          postgresql_where=text(_WAITS.format("NOT is_manual AND send_count > 0")),
          sqlite_where=text(_WAITS.format("is_manual = 0 AND send_count > 0"))),
    # Each row changes three times: claimed, placed, confirmed. If its page has room for that, PostgreSQL logs only the
    # change, and not the body and four indexes again.
    postgresql_with={"fillfactor": STUB_FILL_PERCENT},
    **_EXACT,
)

confirmations = Table(
    "regulus_confirmation", metadata,
    Column("message_id", _ID, primary_key=True),
    Column("consumer_group", _GROUP, primary_key=True),
    Column("status", String(11), nullable=False),
    Column("confirm_time", BigInteger),
    CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_confirmation_status"),
    **_EXACT,
)

inbox = Table(
    "regulus_inbox", metadata,
    Column("message_id", _ID, primary_key=True),
    Column("consumer_group", _GROUP, primary_key=True),
    *_position(nullable=False),
    Column("digest", String(DIGEST_SIZE)),      # of topic and body
    Column("apply_time", BigInteger, nullable=False),
    Index("regulus_inbox_time", "apply_time"),      # for the removal of old rows
    **_EXACT,
)

message_log = Table(
    "regulus_message_log", metadata,
    Column("message_id", _ID, primary_key=True),
    Column("consumer_group", _GROUP, primary_key=True),
    Column("topic", String(TOPIC_SIZE_MAX), nullable=False),
    *_position(nullable=False),
    Column("reconsume_times", Integer, nullable=False),
    Column("create_time", BigInteger, nullable=False),      # of the first receipt
    Column("receive_time", BigInteger, nullable=False),     # of the latest one
    **_EXACT,
)

watermarks = Table(
    "regulus_watermark", metadata,
    Column("consumer_group", _GROUP, primary_key=True),
    Column("topic", String(TOPIC_SIZE_MAX), primary_key=True),
    Column("broker_name", String(BROKER_NAME_SIZE_MAX), primary_key=True),
    Column("queue_id", Integer, primary_key=True),
    Column("queue_offset_max", BigInteger, nullable=False),
    Column("move_time", BigInteger, nullable=False),
    **_EXACT,
)

attempts = Table(
    "regulus_attempt", metadata,
    # SQLite numbers rows itself only in a column of this type.
    Column("attempt_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("message_id", _ID, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("consumer_group", _GROUP),       # of a delivery
    Column("number", Integer, nullable=False),      # of the send, or how often it was consumed before
    *_position(nullable=True),
    Column("begin_time", BigInteger, nullable=False),
    Column("end_time", BigInteger, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("detail", String(LAST_ERROR_SIZE_MAX)),
    CheckConstraint("kind IN ('SEND', 'DELIVERY')", name="regulus_attempt_kind"),
    Index("regulus_attempt_message", "message_id"),
    Index("regulus_attempt_time", "begin_time"),
    **_EXACT,
)

actions = Table(
    "regulus_action", metadata,
    Column("action_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("message_id", _ID, nullable=False),
    Column("action", String(8), nullable=False),
    Column("operator", String(OPERATOR_SIZE_MAX), nullable=False),
    Column("reason", String(LAST_ERROR_SIZE_MAX), nullable=False),
    Column("action_time", BigInteger, nullable=False),
    CheckConstraint("action IN ('RETRY', 'VOID', 'CONFIRM')", name="regulus_action_action"),
    Index("regulus_action_message", "message_id"),
    **_EXACT,
)

alarms = Table(
    "regulus_alarm", metadata,
    Column("alarm_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("kind", String(32), nullable=False),
    Column("subject", String(ALARM_SUBJECT_SIZE_MAX), nullable=False),      # a message id, a group, a queue
    Column("detail", String(LAST_ERROR_SIZE_MAX), nullable=False),
    Column("raise_time", BigInteger, nullable=False),
    Column("due_time", BigInteger, nullable=False, server_default="0"),
    Column("sent_time", BigInteger),
    Column("closed_time", BigInteger),
    # There is one open alarm for a cause: raising it again while it lasts has no effect.
    Column("open_key", String(ALARM_OPEN_KEY_SIZE_MAX), unique=True),
    **_EXACT,
)


def is_message_id(text: str) -> bool:
    """Whether the text may be a business id: a key of a message that fits into the column."""
    return 0 < len(text) <= MESSAGE_ID_SIZE_MAX and text.isprintable() and " " not in text


def storable(text: str, size_max: int) -> str:
    """The part of an outside text that a column can hold: PostgreSQL accepts no 0x00, and no database an unpaired
    surrogate."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()[:size_max]


class now_ms(FunctionElement[int]):
    """The database's clock, in ms since 1970, whatever the time zone of a session.

    It is the time at the beginning of the statement, or conditions on a time would use no index. Within a transaction
    it advances.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(now_ms, "postgresql")
def _now_of_postgresql(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)"


@compiles(now_ms, "sqlite")
def _now_of_sqlite(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@compiles(now_ms, *MYSQL)
def _now_of_mysql(element: now_ms, compiler: SQLCompiler, **_: Any) -> str:
    # One hour of local time occurs twice a year; the earlier one is used.
    return "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000)"


def insert_new(table: Table, dialect_name: str) -> Insert:
    """An insert that leaves an existing row of the same key unchanged. Its row count shows whether it inserted;
    SQLAlchemy returns it on request."""
    if dialect_name in MYSQL:
        return mysql.insert(table).prefix_with("IGNORE")
    statement: Insert = (postgresql if dialect_name == "postgresql" else sqlite).insert(table).on_conflict_do_nothing()
    return statement


def create(connection: Connection) -> None:
    """Make the missing tables and indexes, also those that an earlier, interrupted call did not reach. Raises
    ReliabilityRefused when an existing table is outdated, or kept by an engine without transactions."""
    names = set(inspect(connection).get_table_names(_schema(connection)))
    if present := [table for table in metadata.sorted_tables if table.name in names]:
        check(connection, *present)
    metadata.create_all(connection)
    create_indexes(connection)


def create_indexes(connection: Connection) -> None:
    """Make the indexes that a table lacks. MySQL and MariaDB make a table, and then its indexes, one by one."""
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def check(connection: Connection, *needed: Table) -> None:
    """Raises ReliabilityRefused when one of the tables, the stub table if none is named, is missing, outdated, or kept
    by an engine without transactions."""
    inspector = inspect(connection)
    for table in needed or (stubs,):
        try:
            columns = {column["name"] for column in inspector.get_columns(table.name, _schema(connection))}
        except NoSuchTableError:
            raise missing_table(table) from None
        check_columns(columns, table)
    if connection.dialect.name in MYSQL:
        _check_engines(connection, [table.name for table in needed or (stubs,)])


def _check_engines(connection: Connection, names: list[str]) -> None:
    loose = connection.execute(_LOOSE_TABLES, {"names": names, "schema": _schema(connection)}).first()
    if loose is not None:
        raise ReliabilityRefused(f"the table {loose[0]} is kept by the engine {loose[1]}, which has no transactions: "
                                 "what is rolled back would stay, and be sent; ALTER TABLE "
                                 f"{loose[0]} ENGINE=InnoDB")


def _schema(connection: Connection) -> str | None:
    """The schema to which `schema_translate_map` maps tables without a schema; None for the connection's own."""
    return (connection.get_execution_options().get("schema_translate_map") or {}).get(None)


def check_columns(present: set[str], table: Table = stubs) -> None:
    """Raises ReliabilityRefused."""
    lacking = [column.name for column in table.columns if column.name not in present]
    if lacking:
        raise ReliabilityRefused(f"the table {table.name} is older than this version: it has no column "
                                 f"{', '.join(lacking)}; bring it up to date with `regulus outbox migrate`, or by a "
                                 "migration made from regulus.reliability.tables.metadata")


def missing_table(table: Table = stubs) -> ReliabilityRefused:
    return ReliabilityRefused(f"the database has no table {table.name}; make it with `regulus outbox migrate`, with "
                              "regulus.reliability.tables.create(connection), or by a migration made from its metadata")


def commits_each_statement(dialect: Dialect, dbapi_connection: Any) -> bool:
    """Whether each statement of this connection is committed at once and by itself."""
    driver_connection = getattr(dbapi_connection, "driver_connection", dbapi_connection)    # of an asyncio driver
    if (not dialect.detect_autocommit_setting(dbapi_connection)
            and getattr(driver_connection, "autocommit", None) is not True):
        return False
    return not has_begun(dbapi_connection)


def has_begun(dbapi_connection: Any) -> bool:
    """Whether a transaction was begun by hand, or by the means of the driver: sqlite3, aiosqlite, psycopg."""
    driver_connection = getattr(dbapi_connection, "driver_connection", dbapi_connection)    # of an asyncio driver
    begun = getattr(driver_connection, "in_transaction", None)
    if begun is None and hasattr(driver_connection, "info"):
        begun = getattr(driver_connection.info, "transaction_status", 0) != 0
    return bool(begun)
