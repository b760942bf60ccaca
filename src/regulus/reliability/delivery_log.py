"""The statements of the consumer's side: what a group has received, how far it got, and how each delivery ended.

    receive     a row for each message that is taken in, and the queue's watermark: before anything is done with it
    finish      the row goes, in the transaction of the effect, or once the message is known to be done
    attempt     a row of the ledger for each delivery

The watermark says that the group was given what is below it. It never goes back, and retries, which are stored in the
group's own retry topic, do not move it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Insert, Table, case, delete, func, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite

from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability.tables import DELIVERY, LAST_ERROR_SIZE_MAX, attempts, message_log, now_ms, watermarks


class Outcome(StrEnum):
    """How a delivery ended."""

    APPLIED = "APPLIED"     # its effect is committed, now
    DONE = "DONE"           # it was before, or nobody wants it: voided
    BUSY = "BUSY"           # somebody else works on it
    MISSING = "MISSING"     # nobody committed such a message here, or not for this group
    FAILED = "FAILED"       # the effect or the database failed, and nothing is changed


class Delivery(NamedTuple):
    """One message of an outbox as one group is given it, at the place where this copy is stored."""

    consumer_group: str
    queue: MessageQueue
    message: MessageExt

    @property
    def message_id(self) -> str:
        return self.message.properties.get(names.BUSINESS_ID, "")


def receive(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """Of one queue, in one transaction."""
    rows = {each.message_id: _received(each) for each in deliveries if each.message_id}
    if rows:
        # In one order, so that no two of these wait for each other.
        connection.execute(_upsert(connection, message_log, ("topic", "broker_name", "queue_id", "queue_offset",
                                                             "reconsume_times", "receive_time")),
                           [rows[message_id] for message_id in sorted(rows)])
    last = max(deliveries, key=lambda each: each.message.queue_offset)
    if last.queue.topic == last.message.topic:
        raise_watermarks(connection, last.consumer_group, {last.queue: last.message.queue_offset})


def raise_watermarks(connection: Connection, consumer_group: str, reached: Mapping[MessageQueue, int]) -> None:
    """By the offset that the group was given last in each queue, of topics that are no retry topics."""
    if reached:
        # In one order, so that no two of these wait for each other.
        connection.execute(_watermark_upsert(connection), [
            {"consumer_group": consumer_group, "topic": queue.topic, "broker_name": queue.broker_name,
             "queue_id": queue.queue_id, "queue_offset_max": reached[queue]} for queue in sorted(reached)])


def finish(connection: Connection, delivery: Delivery) -> None:
    connection.execute(delete(message_log).where(message_log.c.message_id == delivery.message_id,
                                                 message_log.c.consumer_group == delivery.consumer_group))


def attempt(connection: Connection, delivery: Delivery, begin_ms: ColumnElement[int] | int, outcome: Outcome,
            detail: str = "") -> None:
    connection.execute(insert(attempts).values(
        message_id=delivery.message_id, kind=DELIVERY, consumer_group=delivery.consumer_group,
        number=delivery.message.reconsume_times, begin_time=begin_ms, end_time=now_ms(), outcome=outcome.value,
        detail=detail[:LAST_ERROR_SIZE_MAX] or None, **_place(delivery)))


def _place(delivery: Delivery) -> dict[str, Any]:
    return {"broker_name": delivery.queue.broker_name, "queue_id": delivery.queue.queue_id,
            "queue_offset": delivery.message.queue_offset}


def _received(delivery: Delivery) -> dict[str, Any]:
    return {"message_id": delivery.message_id, "consumer_group": delivery.consumer_group,
            "topic": delivery.message.topic, "reconsume_times": delivery.message.reconsume_times, **_place(delivery)}


def _upsert(connection: Connection, table: Table, replaced: Sequence[str]) -> Insert:
    times = {"create_time": now_ms(), "receive_time": now_ms()}
    if connection.dialect.name in ("mysql", "mariadb"):
        of_mysql: mysql.Insert = mysql.insert(table).values(times)
        return of_mysql.on_duplicate_key_update({name: of_mysql.inserted[name] for name in replaced})
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    of_others: postgresql.Insert | sqlite.Insert = dialect.insert(table).values(times)
    return of_others.on_conflict_do_update(index_elements=list(table.primary_key),
                                           set_={name: of_others.excluded[name] for name in replaced})


def _watermark_upsert(connection: Connection) -> Insert:
    values = {"move_time": now_ms()}
    known = watermarks.c.queue_offset_max
    if connection.dialect.name in ("mysql", "mariadb"):
        of_mysql: mysql.Insert = mysql.insert(watermarks).values(values)
        given = of_mysql.inserted
        # The time first: what is set behind it would see the new offset.
        return of_mysql.on_duplicate_key_update([
            ("move_time", case((given.queue_offset_max > known, given.move_time), else_=watermarks.c.move_time)),
            ("queue_offset_max", func.greatest(known, given.queue_offset_max))])
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    of_others: postgresql.Insert | sqlite.Insert = dialect.insert(watermarks).values(values)
    return of_others.on_conflict_do_update(
        index_elements=list(watermarks.primary_key),
        set_={"queue_offset_max": of_others.excluded.queue_offset_max, "move_time": of_others.excluded.move_time},
        where=of_others.excluded.queue_offset_max > known)
