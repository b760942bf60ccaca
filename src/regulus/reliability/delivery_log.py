"""The statements of the consumer's side: what a group has received, how far it got, and how each delivery ended.

    receive     adds a row for each received message, and moves the queue's watermark: before anything is done with it
    conclude    the outcome of a delivery whose message is done; removes its row, in the transaction of the effect
    attempt     the outcome of any other delivery: a row of the ledger for each

The watermark says that the group was given all messages below it. It goes back only with its queue, and retries, which
are stored in the group's own retry topic, do not move it.

Each effect pays for these statements, so they are built once for each kind of database; on PostgreSQL, where round
trips to the server dominate, receipt and conclusion are one statement each.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    Delete,
    Insert,
    Integer,
    String,
    Table,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    true,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite

from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability.tables import (
    DELIVERY,
    LAST_ERROR_SIZE_MAX,
    MYSQL,
    attempts,
    is_message_id,
    message_log,
    now_ms,
    storable,
    watermarks,
)


class DeliveryOutcome(StrEnum):
    """How a delivery ended."""

    APPLIED = "APPLIED"     # its effect was committed by this delivery
    DONE = "DONE"           # its effect was committed before
    VOIDED = "VOIDED"       # an operator revoked it
    BUSY = "BUSY"           # another worker has it
    MISSING = "MISSING"     # no such message was committed here, or not for this group
    FAILED = "FAILED"       # the effect or the database failed, and nothing is changed


class Delivery(NamedTuple):
    """One message of an outbox as delivered to one group, with the position of this copy."""

    consumer_group: str
    queue: MessageQueue
    message: MessageExt

    @property
    def message_id(self) -> str:
        return business_id(self.message)


def business_id(message: MessageExt) -> str:
    """The business id; empty when the message has none, or one that no outbox assigns."""
    message_id = message.properties.get(names.BUSINESS_ID, "")
    return message_id if is_message_id(message_id) else ""


def receive(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """Write down deliveries of one queue, all or none of them."""
    last = max(deliveries, key=lambda each: each.message.queue_offset)
    latest = {each.message_id: each for each in deliveries if each.message_id}
    # In a fixed order, so that no two of these deadlock.
    received = [latest[message_id] for message_id in sorted(latest)]
    if connection.dialect.name == "postgresql":
        connection.execute(_receive_at_once(), _received_at_once(received, last))
        return
    if received:
        connection.execute(_receive(connection.dialect.name), [_received(each) for each in received])
    if _is_original(last):
        raise_watermarks(connection, last.consumer_group, {last.queue: last.message.queue_offset})


def raise_watermarks(connection: Connection, consumer_group: str, reached: Mapping[MessageQueue, int]) -> None:
    """Raise watermarks to the offset that the group was given last in each queue, or stored as its next, except for
    retry topics. Stubs below it count as passed."""
    if reached:
        # In a fixed order, so that no two of these deadlock.
        connection.execute(_raise_watermark(connection.dialect.name),
                           [_watermark(consumer_group, queue, reached[queue]) for queue in sorted(reached)])


class MadeAnew(NamedTuple):
    """A queue that ends before what a group received in it; its watermark starts again with the stored offset."""

    queue: MessageQueue
    watermark: int
    end: int
    stored: int


def watermarks_of(connection: Connection, consumer_group: str) -> dict[MessageQueue, int]:
    found = connection.execute(select(watermarks).where(watermarks.c.consumer_group == consumer_group))
    return {MessageQueue(row.topic, row.broker_name, row.queue_id): row.queue_offset_max for row in found}


def lower_watermark(connection: Connection, consumer_group: str, anew: MadeAnew) -> bool:
    """Lower a watermark unless it was moved since it was read; returns whether it was lowered."""
    queue = anew.queue
    return connection.execute(update(watermarks).where(
        watermarks.c.consumer_group == consumer_group, watermarks.c.topic == queue.topic,
        watermarks.c.broker_name == queue.broker_name, watermarks.c.queue_id == queue.queue_id,
        watermarks.c.queue_offset_max == anew.watermark
    ).values(queue_offset_max=anew.stored, move_time=now_ms())).rowcount == 1


def conclude(connection: Connection, delivery: Delivery, spent_ms: int, outcome: DeliveryOutcome,
             judged: Table | None = None) -> bool:
    """Conclude a delivery: first the confirmation, last the removal of the receipt.

    `judged`: the table with the confirmation of an effect. False when PostgreSQL finds no confirmation written by this
    transaction; `effect_transaction` checks other databases.
    """
    row = _attempted(delivery, spent_ms, outcome)
    if connection.dialect.name == "postgresql":
        # SQLAlchemy returns the row count of an insert only on request.
        written = connection.execute(_conclude_at_once(judged), row, execution_options={"preserve_rowcount": True})
        return written.rowcount == 1
    connection.execute(_attempt(), row)
    connection.execute(_forget(), {"its_id": delivery.message_id, "its_group": delivery.consumer_group})
    return True


def attempt(connection: Connection, delivery: Delivery, spent_ms: int, outcome: DeliveryOutcome,
            detail: str = "") -> None:
    """Note a delivery in the ledger. `spent_ms`: its duration, by a monotonic clock."""
    connection.execute(_attempt(), _attempted(delivery, spent_ms, outcome, detail))


# --- values ----------------------------------------------------------------------------------------------------------


def _place(delivery: Delivery) -> dict[str, Any]:
    return {"broker_name": delivery.queue.broker_name, "queue_id": delivery.queue.queue_id,
            "queue_offset": delivery.message.queue_offset}


def _received(delivery: Delivery) -> dict[str, Any]:
    return {"message_id": delivery.message_id, "consumer_group": delivery.consumer_group,
            "topic": delivery.message.topic, "reconsume_times": delivery.message.reconsume_times, **_place(delivery)}


def _watermark(consumer_group: str, queue: MessageQueue, queue_offset: int) -> dict[str, Any]:
    return {"consumer_group": consumer_group, "topic": queue.topic, "broker_name": queue.broker_name,
            "queue_id": queue.queue_id, "queue_offset_max": queue_offset}


def _received_at_once(received: Sequence[Delivery], last: Delivery) -> dict[str, Any]:
    return {**_watermark(last.consumer_group, last.queue, last.message.queue_offset), "is_original": _is_original(last),
            "received": json.dumps([{"message_id": each.message_id, "topic": each.message.topic,
                                     "queue_offset": each.message.queue_offset,
                                     "reconsume_times": each.message.reconsume_times} for each in received])}


def _is_original(delivery: Delivery) -> bool:
    """Whether it is not a retry, which has an offset of the group's retry topic."""
    return delivery.queue.topic == delivery.message.topic


def _attempted(delivery: Delivery, spent_ms: int, outcome: DeliveryOutcome, detail: str = "") -> dict[str, Any]:
    return {"message_id": delivery.message_id, "consumer_group": delivery.consumer_group,
            "number": delivery.message.reconsume_times, "spent_ms": spent_ms, "outcome": outcome.value,
            "detail": storable(detail, LAST_ERROR_SIZE_MAX) or None, **_place(delivery)}


# --- statements ------------------------------------------------------------------------------------------------------

_RECEIVED_ANEW = ("topic", "broker_name", "queue_id", "queue_offset", "reconsume_times", "receive_time")
"""The columns that a later copy of a message changes in its row."""
_RECEIVED_EACH = ("message_id", "topic", "queue_offset", "reconsume_times")
_ATTEMPTED = ("message_id", "consumer_group", "number", "broker_name", "queue_id", "queue_offset", "outcome", "detail")

_Upsert = sqlite.Insert | postgresql.Insert


@cache
def _attempt() -> Insert:
    return insert(attempts).values(kind=DELIVERY, end_time=now_ms(),
                                   begin_time=now_ms() - bindparam("spent_ms", type_=BigInteger))


@cache
def _forget() -> Delete:
    return delete(message_log).where(message_log.c.message_id == bindparam("its_id"),
                                     message_log.c.consumer_group == bindparam("its_group"))


@cache
def _receive(dialect_name: str) -> Insert:
    times = {"create_time": now_ms(), "receive_time": now_ms()}
    if dialect_name in MYSQL:
        of_mysql: mysql.Insert = mysql.insert(message_log).values(times)
        return of_mysql.on_duplicate_key_update({name: of_mysql.inserted[name] for name in _RECEIVED_ANEW})
    of_sqlite = sqlite.insert(message_log).values(times)
    return of_sqlite.on_conflict_do_update(index_elements=list(message_log.primary_key), set_=_received_anew(of_sqlite))


@cache
def _raise_watermark(dialect_name: str) -> Insert:
    if dialect_name in MYSQL:
        of_mysql = mysql.insert(watermarks).values(move_time=now_ms())
        given, known = of_mysql.inserted, watermarks.c
        # The time first: expressions after it would see the new offset.
        return of_mysql.on_duplicate_key_update([
            ("move_time", case((given.queue_offset_max > known.queue_offset_max, given.move_time),
                               else_=known.move_time)),
            ("queue_offset_max", func.greatest(known.queue_offset_max, given.queue_offset_max))])
    of_others: _Upsert = (postgresql if dialect_name == "postgresql" else sqlite).insert(watermarks)
    return _or_raised(of_others.values(move_time=now_ms()))


def _received_anew(statement: _Upsert) -> dict[str, Any]:
    return {name: statement.excluded[name] for name in _RECEIVED_ANEW}


def _or_raised(statement: _Upsert) -> _Upsert:
    given = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=list(watermarks.primary_key),
        set_={"queue_offset_max": given.queue_offset_max, "move_time": given.move_time},
        where=given.queue_offset_max > watermarks.c.queue_offset_max)


# --- PostgreSQL's ----------------------------------------------------------------------------------------------------


@cache
def _receive_at_once() -> Insert:
    """Rows and watermark in one statement. Its commit does not wait for the disk: a receipt that is lost in a crash of
    the database costs a resend, which the judge answers."""
    unsynced = select(func.set_config("synchronous_commit", "off", true())).cte("unsynced")
    of_watermark = postgresql.insert(watermarks).from_select(
        ["consumer_group", "topic", "broker_name", "queue_id", "queue_offset_max", "move_time"],
        select(_given("consumer_group", String), _given("topic", String), _given("broker_name", String),
               _given("queue_id", Integer), _given("queue_offset_max", BigInteger), now_ms())
        .where(bindparam("is_original", type_=Boolean)))
    moved = _or_raised(of_watermark).cte("moved")
    columns = [column(name, message_log.c[name].type) for name in _RECEIVED_EACH]
    each = func.json_to_recordset(cast(_given("received", String), JSON)).table_valued(*columns, name="each")
    each = each.render_derived(with_types=True)
    of_log = postgresql.insert(message_log).from_select(
        ["message_id", "consumer_group", "topic", "broker_name", "queue_id", "queue_offset", "reconsume_times",
         "create_time", "receive_time"],
        select(each.c.message_id, _given("consumer_group", String), each.c.topic, _given("broker_name", String),
               _given("queue_id", Integer), each.c.queue_offset, each.c.reconsume_times, now_ms(), now_ms())
        .select_from(each.join(unsynced, true())).order_by(each.c.message_id))
    return of_log.on_conflict_do_update(index_elements=list(message_log.primary_key),
                                        set_=_received_anew(of_log)).add_cte(moved)


@cache
def _conclude_at_once(judged: Table | None) -> Insert:
    forgotten = delete(message_log).where(message_log.c.message_id == _given("message_id", String),
                                          message_log.c.consumer_group == _given("consumer_group", String))
    columns = {name: _given(name, attempts.c[name].type) for name in _ATTEMPTED}
    row = select(*columns.values(), literal(DELIVERY), now_ms() - bindparam("spent_ms", type_=BigInteger), now_ms())
    if judged is not None:
        row = row.where(_is_written_here(judged))
    return insert(attempts).from_select([*columns, "kind", "begin_time", "end_time"], row).add_cte(
        forgotten.cte("forgotten"))


def _is_written_here(judged: Table) -> ColumnElement[bool]:
    """Whether this transaction itself, and no part of it that may be undone separately, wrote the message's row."""
    its_row = exists().where(judged.c.message_id == _given("message_id", String),
                             literal_column(f"{judged.name}.xmin = pg_current_xact_id()::xid", Boolean))
    if "consumer_group" in judged.c:
        its_row = its_row.where(judged.c.consumer_group == _given("consumer_group", String))
    return its_row


def _given(name: str, kind: Any) -> BindParameter[Any]:
    return bindparam(name, type_=kind)
