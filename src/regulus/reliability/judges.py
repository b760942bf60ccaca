"""The judges, which decide in the transaction of an effect that it happens once.

    StubJudge       stub and effect in one database: the stub's confirmation, which succeeds only while it is
                    unconfirmed; with several consuming groups that of the group's own row, and the stub
                    follows the last of them
    InboxJudge      the consumer has a database of its own: a row of the inbox, which only one can insert

Each calls `takes` first, which locks the row: one of two copies has its effect, and the other finds it there.
"""

from enum import IntEnum
from functools import cache
from hashlib import blake2b
from typing import Any, Protocol

from sqlalchemy import Connection, Insert, Select, Table, Update, bindparam, exists, select, update

from regulus.errors import ReliabilityRefused
from regulus.reliability import tables
from regulus.reliability.delivery_log import Delivery, DeliveryOutcome
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
    IN_PART = 2     # one of several groups: `settles` must follow the effect, in its transaction


class Judge(Protocol):
    @property
    def needs(self) -> tuple[Table, ...]: ...

    def takes(self, connection: Connection, delivery: Delivery) -> Taken: ...

    def table(self, taken: Taken) -> Table:
        """The table with the row that `takes` wrote."""
        ...

    def settles(self, connection: Connection, delivery: Delivery) -> None: ...

    def knows(self, connection: Connection, delivery: Delivery) -> DeliveryOutcome:
        """The outcome of a message whose effect is not ours to make: DONE, VOIDED, BUSY or MISSING."""
        ...


class StubJudge:
    needs = (stubs, confirmations)

    def takes(self, connection: Connection, delivery: Delivery) -> Taken:
        if _confirm_alone(connection, delivery.message_id):
            return Taken.WHOLLY
        return Taken.IN_PART if _confirm_group(connection, delivery.message_id,
                                               delivery.consumer_group) else Taken.NOT

    def table(self, taken: Taken) -> Table:
        return confirmations if taken is Taken.IN_PART else stubs

    def settles(self, connection: Connection, delivery: Delivery) -> None:
        _confirm_with_last_group(connection, delivery.message_id)

    def knows(self, connection: Connection, delivery: Delivery) -> DeliveryOutcome:
        found = connection.execute(_status(), {"its_id": delivery.message_id}).all()
        groups = {row.consumer_group: row.of_group for row in found if row.consumer_group is not None}
        of_stub = found[0].status if found else None
        status = groups.get(delivery.consumer_group) if groups else of_stub
        if status is None:
            return DeliveryOutcome.MISSING
        if VOIDED in (of_stub, status):
            return DeliveryOutcome.VOIDED
        return DeliveryOutcome.DONE if CONFIRMED in (of_stub, status) else DeliveryOutcome.BUSY


class InboxJudge:
    needs = (inbox,)

    def takes(self, connection: Connection, delivery: Delivery) -> Taken:
        if not delivery.message_id:
            return Taken.NOT
        row = {"message_id": delivery.message_id, "consumer_group": delivery.consumer_group,
               "broker_name": delivery.queue.broker_name, "queue_id": delivery.queue.queue_id,
               "queue_offset": delivery.message.queue_offset, "digest": _digest(delivery)}
        # SQLAlchemy returns the row count of an insert only on request.
        inserted = connection.execute(_take(connection.dialect.name), row,
                                      execution_options={"preserve_rowcount": True})
        return Taken.WHOLLY if inserted.rowcount == 1 else Taken.NOT

    def table(self, taken: Taken) -> Table:
        return inbox

    def settles(self, connection: Connection, delivery: Delivery) -> None:
        """Does nothing: the stub is confirmed in its own database, after the commit."""

    def knows(self, connection: Connection, delivery: Delivery) -> DeliveryOutcome:
        """Raises ReliabilityRefused for a different message with the id of an applied one."""
        if not delivery.message_id:
            return DeliveryOutcome.MISSING
        applied = connection.execute(_applied(), {"its_id": delivery.message_id,
                                                  "its_group": delivery.consumer_group}).one_or_none()
        if applied is None:
            return DeliveryOutcome.BUSY
        if applied.digest != _digest(delivery):
            raise ReliabilityRefused(
                f"group {delivery.consumer_group} applied another message of the business id {delivery.message_id}, of "
                "another topic or body; this one is not applied and not confirmed: ids have to be unique among all "
                "that a group consumes, whatever database they come from")
        return DeliveryOutcome.DONE


def _digest(delivery: Delivery) -> str:
    """Distinguishes a copy from a different message with the same id."""
    content = delivery.message.topic.encode() + b"\0" + delivery.message.body
    return blake2b(content, digest_size=tables.DIGEST_SIZE // 2).hexdigest()


# --- confirmations ---------------------------------------------------------------------------------------------------


def confirm(connection: Connection, message_id: str, consumer_group: str) -> bool:
    """Confirm for a group that applied in another database; returns whether anything was open."""
    if _confirm_alone(connection, message_id):
        return True
    if not _confirm_group(connection, message_id, consumer_group):
        return False
    _confirm_with_last_group(connection, message_id)
    return True


def _confirm_alone(connection: Connection, message_id: str) -> bool:
    """Confirm a stub without groups."""
    return connection.execute(_alone(), {"its_id": message_id}).rowcount == 1


def _confirm_group(connection: Connection, message_id: str, consumer_group: str) -> bool:
    return connection.execute(_of_group(), {"its_id": message_id, "its_group": consumer_group}).rowcount == 1


def _confirm_with_last_group(connection: Connection, message_id: str) -> None:
    """Confirm a stub if none of its groups is open. Its row is written first: if two groups end at the same moment, the
    later one sees the other's commit, or, if its isolation level prevents that, gets a conflict."""
    connection.execute(_touch(), {"its_id": message_id})
    connection.execute(_with_last_group(), {"its_id": message_id})


# --- statements, built once: each effect pays for them ---------------------------------------------------------------

_ITS_STUB = stubs.c.message_id == bindparam("its_id")
_ITS_ROWS = confirmations.c.message_id == bindparam("its_id")
_CONFIRMED = {"status": CONFIRMED, "is_manual": False, "version": stubs.c.version + 1}


@cache
def _alone() -> Update:
    return update(stubs).where(_ITS_STUB, stubs.c.status == UNCONFIRMED, ~exists().where(_ITS_ROWS)).values(_CONFIRMED)


@cache
def _of_group() -> Update:
    return (update(confirmations)
            .where(_ITS_ROWS, confirmations.c.consumer_group == bindparam("its_group"),
                   confirmations.c.status == UNCONFIRMED, exists().where(_ITS_STUB, stubs.c.status == UNCONFIRMED))
            .values(status=CONFIRMED, confirm_time=now_ms()))


@cache
def _touch() -> Update:
    return update(stubs).where(_ITS_STUB, stubs.c.status == UNCONFIRMED).values(version=stubs.c.version + 1)


@cache
def _with_last_group() -> Update:
    is_open = exists().where(_ITS_ROWS, confirmations.c.status == UNCONFIRMED)
    return update(stubs).where(_ITS_STUB, stubs.c.status == UNCONFIRMED, ~is_open).values(_CONFIRMED)


@cache
def _status() -> Select[Any]:
    return (select(stubs.c.status, confirmations.c.consumer_group, confirmations.c.status.label("of_group"))
            .outerjoin_from(stubs, confirmations, stubs.c.message_id == confirmations.c.message_id).where(_ITS_STUB))


@cache
def _applied() -> Select[Any]:
    return select(inbox.c.digest).where(inbox.c.message_id == bindparam("its_id"),
                                        inbox.c.consumer_group == bindparam("its_group"))


@cache
def _take(dialect_name: str) -> Insert:
    return tables.insert_new(inbox, dialect_name).values(apply_time=now_ms())
