"""What decides that an effect happens once, in the transaction of the effect.

    StubJudge       stub and effect in one database: the stub's confirmation, which counts only while it is unconfirmed;
                    with several consuming groups that of the group's own row, and the stub follows the last of them
    InboxJudge      the consumer has a database of its own: a row of the inbox, which only one can insert

Each `takes` first, which locks the row: of two copies one has its effect, and the other finds it there.
"""

from enum import IntEnum
from typing import Protocol

from sqlalchemy import Connection, Insert, Table, exists, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from regulus.reliability.delivery_log import Delivery, Outcome
from regulus.reliability.tables import (
    CONFIRMED,
    UNCONFIRMED,
    VOIDED,
    confirmations,
    inbox,
    now_ms,
    stubs,
)


class Taken(IntEnum):
    """Whether the effect is ours to make, if this transaction commits."""

    NOT = 0
    WHOLLY = 1
    IN_PART = 2     # one group of several: `settles` has to follow the effect, in its transaction


class Judge(Protocol):
    @property
    def needs(self) -> tuple[Table, ...]: ...

    def takes(self, connection: Connection, delivery: Delivery) -> Taken: ...

    def settles(self, connection: Connection, delivery: Delivery) -> None: ...

    def knows(self, connection: Connection, delivery: Delivery) -> Outcome:
        """What is to be said of a message whose effect is not ours to make: DONE, BUSY or MISSING."""
        ...


class StubJudge:
    needs = (stubs, confirmations)

    def takes(self, connection: Connection, delivery: Delivery) -> Taken:
        if _confirm_alone(connection, delivery.message_id):
            return Taken.WHOLLY
        return Taken.IN_PART if _confirm_group(connection, delivery.message_id,
                                               delivery.consumer_group) else Taken.NOT

    def settles(self, connection: Connection, delivery: Delivery) -> None:
        _confirm_with_last_group(connection, delivery.message_id)

    def knows(self, connection: Connection, delivery: Delivery) -> Outcome:
        status = connection.execute(
            select(stubs.c.status).where(stubs.c.message_id == delivery.message_id)).scalar_one_or_none()
        if status in (CONFIRMED, VOIDED):
            return Outcome.DONE
        if status is None:
            return Outcome.MISSING
        rows = connection.execute(select(confirmations.c.consumer_group, confirmations.c.status)
                                  .where(confirmations.c.message_id == delivery.message_id))
        groups = {row.consumer_group: row.status for row in rows}
        if groups:
            status = groups.get(delivery.consumer_group)
        if status is None:
            return Outcome.MISSING
        return Outcome.BUSY if status == UNCONFIRMED else Outcome.DONE


class InboxJudge:
    needs = (inbox,)

    def takes(self, connection: Connection, delivery: Delivery) -> Taken:
        if not delivery.message_id:
            return Taken.NOT
        row = {"message_id": delivery.message_id, "consumer_group": delivery.consumer_group,
               "broker_name": delivery.queue.broker_name, "queue_id": delivery.queue.queue_id,
               "queue_offset": delivery.message.queue_offset, "apply_time": now_ms()}
        insert: Insert
        if connection.dialect.name in ("mysql", "mariadb"):
            insert = mysql.insert(inbox).prefix_with("IGNORE").values(row)
        else:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            insert = dialect.insert(inbox).values(row).on_conflict_do_nothing()
        # SQLAlchemy does not keep the count of an insert unasked.
        inserted = connection.execute(insert, execution_options={"preserve_rowcount": True})
        return Taken.WHOLLY if inserted.rowcount == 1 else Taken.NOT

    def settles(self, connection: Connection, delivery: Delivery) -> None:
        """The stub is confirmed behind the commit, where it is."""

    def knows(self, connection: Connection, delivery: Delivery) -> Outcome:
        return Outcome.DONE if delivery.message_id else Outcome.MISSING


# --- confirmations ---------------------------------------------------------------------------------------------------


def confirm(connection: Connection, message_id: str, consumer_group: str) -> bool:
    """For a group that applied in another database; whether anything was open."""
    if _confirm_alone(connection, message_id):
        return True
    if not _confirm_group(connection, message_id, consumer_group):
        return False
    _confirm_with_last_group(connection, message_id)
    return True


def _confirm_alone(connection: Connection, message_id: str) -> bool:
    """A stub without groups."""
    return connection.execute(
        update(stubs).where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED,
                            ~exists().where(confirmations.c.message_id == message_id))
        .values(status=CONFIRMED, is_manual=False, version=stubs.c.version + 1)).rowcount == 1


def _confirm_group(connection: Connection, message_id: str, consumer_group: str) -> bool:
    return connection.execute(
        update(confirmations).where(confirmations.c.message_id == message_id,
                                    confirmations.c.consumer_group == consumer_group,
                                    confirmations.c.status == UNCONFIRMED,
                                    exists().where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED))
        .values(status=CONFIRMED, confirm_time=now_ms())).rowcount == 1


def _confirm_with_last_group(connection: Connection, message_id: str) -> None:
    """Confirm a stub none of whose groups is open. Its row is locked first: of two groups that end at the same moment
    the later one sees the other's commit."""
    connection.execute(select(stubs.c.message_id).where(stubs.c.message_id == message_id).with_for_update())
    connection.execute(
        update(stubs).where(
            stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED,
            ~exists().where(confirmations.c.message_id == message_id, confirmations.c.status == UNCONFIRMED))
        .values(status=CONFIRMED, is_manual=False, version=stubs.c.version + 1))
