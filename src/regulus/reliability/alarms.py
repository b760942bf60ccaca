"""What people have to be told, once for each cause as long as it lasts.

Alarms are rows, so that whoever raises one needs its own transaction alone; `alarm_loop` sends them.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from regulus.reliability.tables import (
    ALARM_OPEN_KEY_SIZE_MAX,
    ALARM_SUBJECT_SIZE_MAX,
    LAST_ERROR_SIZE_MAX,
    alarms,
    now_ms,
)


class AlarmKind(StrEnum):
    """Each with what its subject is."""

    MANUAL = "MANUAL"                       # a stub that was sent as often as may be
    MISSING_STUB = "MISSING_STUB"           # a message that nobody committed
    DEAD_LETTER = "DEAD_LETTER"             # a stub whose message was given up by a group
    STALE_RECEIPT = "STALE_RECEIPT"         # a stub that a group received long ago, and did not finish
    CONSUMER_DOWN = "CONSUMER_DOWN"         # a queue of a group that does not move, with stubs waiting behind it


def raise_alarm(connection: Connection, kind: AlarmKind, subject: str, detail: str) -> None:
    """One that is open already stays as it is."""
    row = {"kind": kind.value, "subject": subject[:ALARM_SUBJECT_SIZE_MAX], "detail": detail[:LAST_ERROR_SIZE_MAX],
           "raise_time": now_ms(), "open_key": _open_key(kind, subject)}
    if connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(mysql.insert(alarms).prefix_with("IGNORE").values(row))
        return
    of_others = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(alarms)
    connection.execute(of_others.values(row).on_conflict_do_nothing(index_elements=["open_key"]))


def close_alarm(connection: Connection, kind: AlarmKind, subject: str) -> None:
    """Its cause is gone; when it comes back, it is another alarm."""
    connection.execute(update(alarms).where(alarms.c.open_key == _open_key(kind, subject))
                       .values(open_key=None, closed_time=now_ms()))


def unsent(connection: Connection, limit: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Oldest first, locked until the transaction ends; what another sender has is left out."""
    return connection.execute(
        select(alarms).where(alarms.c.sent_time.is_(None)).order_by(alarms.c.alarm_id).limit(limit)
        .with_for_update(skip_locked=True)).all()


def mark_sent(connection: Connection, alarm_ids: Sequence[int]) -> None:
    connection.execute(update(alarms).where(alarms.c.alarm_id.in_(alarm_ids)).values(sent_time=now_ms()))


def _open_key(kind: AlarmKind, subject: str) -> str:
    return f"{kind.value} {subject}"[:ALARM_OPEN_KEY_SIZE_MAX]
