"""Alarms for people, one for each cause as long as it lasts.

Alarms are rows, so that raising one needs only the transaction that raises it; `alarm_loop` sends them.

    raised  --claimed by one sender, for a lease-->  under way  --all channels took it-->  sent
    under way  --a channel failed, or the lease ended-->  raised: not before its due_time

An alarm is open until its cause is gone, whether it is sent or not.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Update, exists, select, update

from regulus.reliability import outbox_table
from regulus.reliability.tables import (
    ALARM_OPEN_KEY_SIZE_MAX,
    ALARM_SUBJECT_SIZE_MAX,
    LAST_ERROR_SIZE_MAX,
    UNCONFIRMED,
    alarms,
    insert_new,
    now_ms,
    storable,
    stubs,
)


class AlarmKind(StrEnum):
    """The kinds of alarms; the comment gives the subject of each."""

    MANUAL = "MANUAL"                       # a stub that was sent the maximum number of times
    MISSING_STUB = "MISSING_STUB"           # a message whose transaction was not committed here
    DEAD_LETTER = "DEAD_LETTER"             # a stub whose message a group gave up
    STALE_RECEIPT = "STALE_RECEIPT"         # a stub that a group received long ago and did not finish
    CONSUMER_DOWN = "CONSUMER_DOWN"         # a queue of a group that does not move, with stubs waiting in it
    DEAD_LETTERS = "DEAD_LETTERS"           # a group whose dead letters grow
    BLOCKED_QUEUE = "BLOCKED_QUEUE"         # a group with queues that are stuck at one message
    GIVEN_UP_SENDS = "GIVEN_UP_SENDS"       # a file of kept sends, some of which were given up


OF_STUBS = (AlarmKind.MANUAL, AlarmKind.DEAD_LETTER, AlarmKind.STALE_RECEIPT)
"""Their cause is gone when the stub is done, or starts again."""


class Cause(NamedTuple):
    kind: AlarmKind
    subject: str
    detail: str


class Alarm(NamedTuple):
    """One alarm. Times in ms since 1970; `closed_time` is empty as long as the cause lasts."""

    alarm_id: int
    kind: str
    subject: str
    detail: str
    raise_time: int
    closed_time: int | None


_TOLD = (alarms.c.alarm_id, alarms.c.kind, alarms.c.subject, alarms.c.detail, alarms.c.raise_time,
         alarms.c.closed_time)


# --- causes ----------------------------------------------------------------------------------------------------------


def raise_alarm(connection: Connection, kind: AlarmKind, subject: str, detail: str) -> None:
    """Raise an alarm; does nothing if it is already open."""
    raise_alarms(connection, [Cause(kind, subject, detail)])


def raise_alarms(connection: Connection, causes: Iterable[Cause]) -> None:
    by_key = {_open_key(cause.kind, cause.subject): cause for cause in causes}
    if not by_key:
        return
    # In a fixed order: a transaction that raises an alarm waits for another one that raised it and did not commit yet.
    rows = [{"kind": by_key[key].kind.value, "subject": storable(by_key[key].subject, ALARM_SUBJECT_SIZE_MAX),
             "detail": storable(by_key[key].detail, LAST_ERROR_SIZE_MAX), "open_key": key} for key in sorted(by_key)]
    connection.execute(insert_new(alarms, connection.dialect.name).values(raise_time=now_ms()), rows)


def close_alarm(connection: Connection, kind: AlarmKind, subject: str) -> None:
    """Close the alarm of a cause that is gone; if the cause comes back, that is another alarm."""
    connection.execute(_close().where(alarms.c.open_key == _open_key(kind, subject)))


def close_of_stub(connection: Connection, message_id: str) -> None:
    """Close the alarms of a stub that is done, or starts again."""
    connection.execute(_close().where(alarms.c.open_key.in_([_open_key(kind, message_id) for kind in OF_STUBS])))


def close_settled(connection: Connection) -> None:
    """Close alarms of stubs that were finished meanwhile, for example by a late delivery, and of queues that move again
    or in which no stub waits.

    Effects and receipts do not check for alarms themselves, which would cost each of them a statement.
    """
    # A separate query first: it takes longer than SQLite's one writer may, and in an update MySQL would lock each stub
    # it reads.
    moved = connection.execute(select(alarms.c.alarm_id).where(
        alarms.c.open_key.is_not(None), alarms.c.kind == AlarmKind.CONSUMER_DOWN.value,
        ~outbox_table.stands_still(alarms.c.subject, alarms.c.raise_time))).scalars().all()
    is_done = exists().where(stubs.c.message_id == alarms.c.subject, stubs.c.status != UNCONFIRMED)
    connection.execute(_close().where(alarms.c.open_key.is_not(None), is_done,
                                      alarms.c.kind.in_([kind.value for kind in OF_STUBS])))
    if moved:
        connection.execute(_close().where(alarms.c.open_key.is_not(None), alarms.c.alarm_id.in_(moved)))


def open_alarms(connection: Connection, limit: int) -> list[Alarm]:
    """The open alarms, oldest first."""
    return [Alarm(*row) for row in connection.execute(
        select(*_TOLD).where(alarms.c.open_key.is_not(None)).order_by(alarms.c.alarm_id).limit(limit))]


# --- sending ---------------------------------------------------------------------------------------------------------


def claim(connection: Connection, lease_ms: int, limit: int) -> list[Alarm]:
    """Claim at most `limit` alarms that were not sent, oldest first, until the lease ends."""
    due = (select(alarms.c.alarm_id).where(alarms.c.sent_time.is_(None), alarms.c.due_time <= now_ms())
           .order_by(alarms.c.alarm_id).limit(limit).with_for_update(skip_locked=True))
    bump = update(alarms).values(due_time=now_ms() + lease_ms)
    if connection.dialect.update_returning:
        # As a separate table, because otherwise PostgreSQL may look for rows, and lock them, more than once.
        chosen = due.cte("due")
        rows = connection.execute(
            bump.where(alarms.c.alarm_id.in_(select(chosen.c.alarm_id))).returning(*_TOLD)).all()
    else:
        ids = connection.execute(due).scalars().all()
        connection.execute(bump.where(alarms.c.alarm_id.in_(ids)))
        rows = connection.execute(select(*_TOLD).where(alarms.c.alarm_id.in_(ids))).all()
    return sorted(Alarm(*row) for row in rows)


def put_back(connection: Connection, alarm_ids: Sequence[int], wait_ms: int) -> None:
    """Let alarms be sent again, after `wait_ms`."""
    connection.execute(update(alarms).where(alarms.c.alarm_id.in_(alarm_ids)).values(due_time=now_ms() + wait_ms))


def mark_sent(connection: Connection, alarm_ids: Sequence[int]) -> None:
    connection.execute(update(alarms).where(alarms.c.alarm_id.in_(alarm_ids)).values(sent_time=now_ms()))


def _close() -> Update:
    values: dict[str, Any] = {"open_key": None, "closed_time": now_ms()}
    return update(alarms).values(values)


def _open_key(kind: AlarmKind, subject: str) -> str:
    return storable(f"{kind.value} {subject}", ALARM_OPEN_KEY_SIZE_MAX)
