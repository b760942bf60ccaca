"""What people have to be told, once for each cause as long as it lasts.

Alarms are rows, so that whoever raises one needs its own transaction alone; `alarm_loop` sends them.

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
    """Each with what its subject is."""

    MANUAL = "MANUAL"                       # a stub that was sent as often as may be
    MISSING_STUB = "MISSING_STUB"           # a message that nobody committed
    DEAD_LETTER = "DEAD_LETTER"             # a stub whose message was given up by a group
    STALE_RECEIPT = "STALE_RECEIPT"         # a stub that a group received long ago, and did not finish
    CONSUMER_DOWN = "CONSUMER_DOWN"         # a queue of a group that does not move, with stubs waiting behind it
    DEAD_LETTERS = "DEAD_LETTERS"           # a group whose dead letters grow
    BLOCKED_QUEUE = "BLOCKED_QUEUE"         # a group of which queues stand still at one message
    GIVEN_UP_SENDS = "GIVEN_UP_SENDS"       # a file of kept sends of which some were given up


OF_STUBS = (AlarmKind.MANUAL, AlarmKind.DEAD_LETTER, AlarmKind.STALE_RECEIPT)
"""Their cause is gone when the stub is done, or begins anew."""


class Cause(NamedTuple):
    kind: AlarmKind
    subject: str
    detail: str


class Alarm(NamedTuple):
    """Times in ms since 1970; `closed_time` is None as long as the cause lasts."""

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
    """One that is open already stays as it is."""
    raise_alarms(connection, [Cause(kind, subject, detail)])


def raise_alarms(connection: Connection, causes: Iterable[Cause]) -> None:
    by_key = {_open_key(cause.kind, cause.subject): cause for cause in causes}
    if not by_key:
        return
    # In one order: who raises what another raised, and did not commit yet, waits for it.
    rows = [{"kind": by_key[key].kind.value, "subject": storable(by_key[key].subject, ALARM_SUBJECT_SIZE_MAX),
             "detail": storable(by_key[key].detail, LAST_ERROR_SIZE_MAX), "open_key": key} for key in sorted(by_key)]
    connection.execute(insert_new(alarms, connection.dialect.name).values(raise_time=now_ms()), rows)


def close_alarm(connection: Connection, kind: AlarmKind, subject: str) -> None:
    """Its cause is gone; when it comes back, it is another alarm."""
    connection.execute(_close().where(alarms.c.open_key == _open_key(kind, subject)))


def close_of_stub(connection: Connection, message_id: str) -> None:
    """The stub is done, or begins anew."""
    connection.execute(_close().where(alarms.c.open_key.in_([_open_key(kind, message_id) for kind in OF_STUBS])))


def close_settled(connection: Connection) -> None:
    """Those of stubs that are done meanwhile, as by a late delivery, and of queues that go on, or in which no stub
    waits any more. Effects and receipts do not look for alarms themselves; that would cost each of them a statement."""
    # Asked first: it takes longer than SQLite's one writer may, and in an update MySQL would lock each stub it sees.
    moved = connection.execute(select(alarms.c.alarm_id).where(
        alarms.c.open_key.is_not(None), alarms.c.kind == AlarmKind.CONSUMER_DOWN.value,
        ~outbox_table.stands_still(alarms.c.subject, alarms.c.raise_time))).scalars().all()
    is_done = exists().where(stubs.c.message_id == alarms.c.subject, stubs.c.status != UNCONFIRMED)
    connection.execute(_close().where(alarms.c.open_key.is_not(None), is_done,
                                      alarms.c.kind.in_([kind.value for kind in OF_STUBS])))
    if moved:
        connection.execute(_close().where(alarms.c.open_key.is_not(None), alarms.c.alarm_id.in_(moved)))


def open_alarms(connection: Connection, limit: int) -> list[Alarm]:
    """Whose cause lasts, oldest first."""
    return [Alarm(*row) for row in connection.execute(
        select(*_TOLD).where(alarms.c.open_key.is_not(None)).order_by(alarms.c.alarm_id).limit(limit))]


# --- sending ---------------------------------------------------------------------------------------------------------


def claim(connection: Connection, lease_ms: int, limit: int) -> list[Alarm]:
    """At most `limit` alarms that nobody was told of, oldest first; ours until the lease ends."""
    due = (select(alarms.c.alarm_id).where(alarms.c.sent_time.is_(None), alarms.c.due_time <= now_ms())
           .order_by(alarms.c.alarm_id).limit(limit).with_for_update(skip_locked=True))
    bump = update(alarms).values(due_time=now_ms() + lease_ms)
    if connection.dialect.update_returning:
        # As a table of its own, or PostgreSQL may look for rows, and lock them, more than once.
        chosen = due.cte("due")
        rows = connection.execute(
            bump.where(alarms.c.alarm_id.in_(select(chosen.c.alarm_id))).returning(*_TOLD)).all()
    else:
        ids = connection.execute(due).scalars().all()
        connection.execute(bump.where(alarms.c.alarm_id.in_(ids)))
        rows = connection.execute(select(*_TOLD).where(alarms.c.alarm_id.in_(ids))).all()
    return sorted(Alarm(*row) for row in rows)


def put_back(connection: Connection, alarm_ids: Sequence[int], wait_ms: int) -> None:
    """To be sent again, not before that time."""
    connection.execute(update(alarms).where(alarms.c.alarm_id.in_(alarm_ids)).values(due_time=now_ms() + wait_ms))


def mark_sent(connection: Connection, alarm_ids: Sequence[int]) -> None:
    connection.execute(update(alarms).where(alarms.c.alarm_id.in_(alarm_ids)).values(sent_time=now_ms()))


def _close() -> Update:
    values: dict[str, Any] = {"open_key": None, "closed_time": now_ms()}
    return update(alarms).values(values)


def _open_key(kind: AlarmKind, subject: str) -> str:
    return storable(f"{kind.value} {subject}", ALARM_OPEN_KEY_SIZE_MAX)
