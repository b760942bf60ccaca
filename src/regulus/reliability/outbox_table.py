"""The statements of the stub table: what is due, who may send it, where it went, and whether its effect is there.

A claim counts the send and moves `resend_time` on in one transaction, before anything is sent: whoever dies afterwards
has sent too little, never too often. Databases without `UPDATE ... RETURNING` lock the rows first.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    Update,
    bindparam,
    case,
    insert,
    literal,
    select,
    update,
)

from regulus.reliability.retry_policy import ResendPolicy
from regulus.reliability.tables import LAST_ERROR_SIZE_MAX, UNCONFIRMED, confirmations, now_ms, stubs

_SENT = (stubs.c.message_id, stubs.c.send_count, stubs.c.topic, stubs.c.tags, stubs.c.body, stubs.c.properties,
         stubs.c.flag, stubs.c.create_time)
"""What a relay needs of a stub."""


class Position(NamedTuple):
    """Where the send that made this count is stored."""

    message_id: str
    send_count: int
    broker_name: str
    queue_id: int
    queue_offset: int


class Failure(NamedTuple):
    """Why the send that made this count failed."""

    message_id: str
    send_count: int
    error: str


def add() -> Insert:
    """A stub that is due as soon as it is committed. The values of the message are parameters."""
    return insert(stubs).values(status=UNCONFIRMED, send_count=0, resend_time=now_ms(), create_time=now_ms(),
                                is_manual=False, version=1)


def add_group() -> Insert:
    """A consuming group of a stub. Its id and the group are parameters."""
    return insert(confirmations).values(status=UNCONFIRMED)


# --- the relay's ---------------------------------------------------------------------------------------------------


def claim(connection: Connection, policy: ResendPolicy, limit: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Count a send of at most `limit` stubs that are due, oldest first, and that nobody else claims now."""
    due = _due(stubs.c.send_count < policy.attempts_max).limit(limit)
    if connection.dialect.update_returning:
        # As a table of its own, or PostgreSQL may look for rows, and lock them, more than once.
        chosen = due.cte("due")
        rows = connection.execute(_bump(policy, select(chosen.c.message_id)).returning(*_SENT)).all()
        return sorted(rows, key=lambda row: row.create_time)
    ids = connection.execute(due).scalars().all()
    if not ids:
        return []
    connection.execute(_bump(policy, ids))
    return connection.execute(select(*_SENT).where(stubs.c.message_id.in_(ids)).order_by(stubs.c.create_time)).all()


def give_up(connection: Connection, policy: ResendPolicy, limit: int) -> list[str]:
    """Leave stubs that were sent as often as may be, and are due again, to a human; their ids, each given once."""
    ids = connection.execute(_due(stubs.c.send_count >= policy.attempts_max).limit(limit)).scalars().all()
    return [message_id for message_id in ids if connection.execute(
        update(stubs).where(stubs.c.message_id == message_id, *_waits())
        .values(is_manual=True, version=stubs.c.version + 1)).rowcount == 1]


def store_positions(connection: Connection, positions: Sequence[Position]) -> None:
    """Of the latest send alone: what was sent again meanwhile has a higher count.

    A row that is locked is left out: its effect is being applied, and to wait for it would hold up all others.
    """
    free = _not_locked(connection, [position.message_id for position in positions])
    rows = [{"its_id": position.message_id, "its_count": position.send_count, "broker": position.broker_name,
             "queue": position.queue_id, "at": position.queue_offset}
            for position in positions if position.message_id in free]
    if rows:
        connection.execute(_of_send().values(broker_name=bindparam("broker"), queue_id=bindparam("queue"),
                                             queue_offset=bindparam("at"), last_error=None), rows)


def store_failures(connection: Connection, failures: Sequence[Failure]) -> None:
    """The count and the position of an earlier send stay."""
    free = _not_locked(connection, [failure.message_id for failure in failures])
    rows = [{"its_id": failure.message_id, "its_count": failure.send_count,
             "why": failure.error[:LAST_ERROR_SIZE_MAX]} for failure in failures if failure.message_id in free]
    if rows:
        connection.execute(_of_send().values(last_error=bindparam("why")), rows)


# --- for people ----------------------------------------------------------------------------------------------------


def status(connection: Connection, message_id: str) -> str | None:
    """None when there is no such stub."""
    return connection.execute(select(stubs.c.status).where(stubs.c.message_id == message_id)).scalar_one_or_none()


def waiting(connection: Connection, *, is_manual: bool, limit: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Stubs that are unconfirmed, oldest first; with `is_manual` those alone that wait for a human."""
    columns = (stubs.c.message_id, stubs.c.topic, stubs.c.create_time, stubs.c.send_count, stubs.c.resend_time,
               stubs.c.is_manual, stubs.c.last_error)
    found = select(*columns).where(stubs.c.status == UNCONFIRMED).order_by(stubs.c.create_time, stubs.c.message_id)
    if is_manual:
        found = found.where(stubs.c.is_manual)
    return connection.execute(found.limit(limit)).all()


# --- parts of statements -------------------------------------------------------------------------------------------


def _waits() -> tuple[ColumnElement[bool], ...]:
    # Written as literals, as in the index over these rows: a parameter would not let PostgreSQL use it.
    return (stubs.c.status == literal(UNCONFIRMED, literal_execute=True), ~stubs.c.is_manual)


def _due(count_allows: ColumnElement[bool]) -> Select[Any]:
    return (select(stubs.c.message_id).where(*_waits(), count_allows, stubs.c.resend_time <= now_ms())
            .order_by(stubs.c.resend_time).with_for_update(skip_locked=True))


def _bump(policy: ResendPolicy, ids: Iterable[str] | Select[Any]) -> Update:
    count = stubs.c.send_count + 1
    growing = policy.growing_intervals()
    interval = case(growing, value=count, else_=policy.interval_ms_max) if growing else literal(policy.interval_ms_max)
    # In this order: MySQL and MariaDB would see the new count in what is set behind it.
    return update(stubs).where(stubs.c.message_id.in_(ids)).ordered_values(
        (stubs.c.resend_time, now_ms() + interval), (stubs.c.send_count, count),
        (stubs.c.version, stubs.c.version + 1))


def _of_send() -> Update:
    return update(stubs).where(stubs.c.message_id == bindparam("its_id"),
                               stubs.c.send_count == bindparam("its_count")).values(version=stubs.c.version + 1)


def _not_locked(connection: Connection, ids: Sequence[str]) -> frozenset[str]:
    if not ids:
        return frozenset()
    found = select(stubs.c.message_id).where(stubs.c.message_id.in_(ids)).with_for_update(skip_locked=True)
    return frozenset(connection.execute(found).scalars())
