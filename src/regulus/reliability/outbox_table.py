"""The statements of the stub table: what is due, which relay may send it, where it was stored, and whether its effect
is confirmed.

A claim counts the send and increases `resend_time` in one transaction, before anything is sent: a relay that dies
afterwards has sent too few messages, never too many. Databases without `UPDATE ... RETURNING` lock the rows first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Insert,
    Integer,
    Row,
    Select,
    String,
    Update,
    and_,
    bindparam,
    case,
    cast,
    exists,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql

from regulus.model.message_queue import MessageQueue
from regulus.model.resend_rules import ResendAction, resend_rules
from regulus.reliability.retry_policy import ResendPolicy
from regulus.reliability.tables import (
    ALARM_SUBJECT_SIZE_MAX,
    LAST_ERROR_SIZE_MAX,
    MYSQL,
    SEND,
    UNCONFIRMED,
    attempts,
    confirmations,
    message_log,
    now_ms,
    storable,
    stubs,
    watermarks,
)

_SENT = (stubs.c.message_id, stubs.c.send_count, stubs.c.first_send_time, stubs.c.topic, stubs.c.tags, stubs.c.body,
         stubs.c.properties, stubs.c.flag, stubs.c.create_time)
"""The columns of a stub that a relay needs."""


_PLACE = ("broker_name", "queue_id", "queue_offset")

Sent = Row[*tuple[Any, ...]]
"""The columns `_SENT` of a stub."""


class Reviewed(NamedTuple):
    """A stub that was sent before, and what the rules say of it."""

    message_id: str
    send_count: int
    action: ResendAction
    topic: str
    queue: str | None               # how far the slowest of its groups has come in that queue
    queue_offset: int | None
    received_up_to: int | None      # how far the slowest of its groups is in that queue


class Position(NamedTuple):
    """Where the send with this count is stored; without an offset while it is delayed in another topic.

    `first_send_time`: as in the claim. A human's retry counts from one again, and has another time; None: not known.
    """

    message_id: str
    send_count: int
    broker_name: str
    queue_id: int
    queue_offset: int | None
    first_send_time: int | None = None


class Failure(NamedTuple):
    """Why the send with this count failed. `first_send_time`: as in a `Position`."""

    message_id: str
    send_count: int
    error: str
    first_send_time: int | None = None


class Claim(NamedTuple):
    """What a claim changed in a stub; it distinguishes the claim from earlier and later ones."""

    message_id: str
    send_count: int
    first_send_time: int


class Gone(NamedTuple):
    """A stub, as it was read, whose message is not at its position."""

    message_id: str
    version: int
    why: str


def add() -> Insert:
    """Insert a stub that is due as soon as it is committed. The values of the message are parameters."""
    return insert(stubs).values(status=UNCONFIRMED, send_count=0, resend_time=now_ms(), create_time=now_ms(),
                                is_manual=False, version=1)


def add_group() -> Insert:
    """Insert a consuming group of a stub. Its id and the group are parameters."""
    return insert(confirmations).values(status=UNCONFIRMED)


# --- the relay's ---------------------------------------------------------------------------------------------------


def claim(connection: Connection, policy: ResendPolicy, limit: int) -> Sequence[Sent]:
    """Count the first send of at most `limit` stubs, oldest first, that no other relay is claiming. It depends on no
    time, so a clock that is set back delays nothing."""
    due = _free(stubs.c.send_count == _NEVER).limit(limit)
    if connection.dialect.update_returning:
        # As a separate table, because otherwise PostgreSQL may look for rows, and lock them, more than once.
        chosen = due.cte("due")
        rows = connection.execute(_bump(policy, select(chosen.c.message_id)).returning(*_SENT)).all()
        return sorted(rows, key=lambda row: row.create_time)
    ids = connection.execute(due).scalars().all()
    return _claim_these(connection, policy, ids)


def review(connection: Connection, policy: ResendPolicy, limit: int) -> list[Reviewed]:
    """The actions for at most `limit` stubs that were sent and are due again; they are locked until the transaction
    ends. Stubs that another relay is reviewing are left out."""
    if connection.dialect.name == "sqlite":
        # Become a writer here: two relays that read the same rows would both send.
        connection.execute(update(stubs).where(false()).values(version=stubs.c.version))
    now = connection.execute(select(now_ms())).scalar_one()
    ids = _due_again(connection, now, limit)
    if not ids:
        return []
    if connection.dialect.name == "postgresql":
        # It would compile the facts again each time, which takes longer than reviewing a batch.
        connection.exec_driver_sql("SET LOCAL jit = off")
    action = case(*[(condition, then.value) for condition, then in resend_rules(_facts(), policy.limits(now))],
                  else_=ResendAction.RESEND.value)
    found = select(stubs.c.message_id, stubs.c.send_count, stubs.c.topic, stubs.c.broker_name, stubs.c.queue_id,
                   stubs.c.queue_offset, action.label("action"), _received_up_to().label("received_up_to")
                   ).where(stubs.c.message_id.in_(ids)).order_by(stubs.c.resend_time)
    return [Reviewed(row.message_id, row.send_count, ResendAction(row.action), row.topic,
                     None if row.queue_offset is None else f"{row.topic}/{row.broker_name}/{row.queue_id}",
                     row.queue_offset, row.received_up_to)
            for row in connection.execute(found)]


def _due_again(connection: Connection, now: int, limit: int) -> Sequence[str]:
    """At most `limit` ids of stubs that were sent, which are locked from here on. Without partial indexes, due stubs
    are adjacent in one index only for each count."""
    due = _free(stubs.c.resend_time <= now)
    if connection.dialect.name not in MYSQL:
        return connection.execute(due.where(stubs.c.send_count > _NEVER).limit(limit)).scalars().all()
    ids: list[str] = []
    for count in _counts_due(connection, now):
        ids += connection.execute(due.where(stubs.c.send_count == count).limit(limit - len(ids))).scalars()
        if len(ids) == limit:
            break
    return ids


def _counts_due(connection: Connection, now: int) -> Sequence[int]:
    """The send counts of due stubs, first that of the stub that has waited longest. The query steps from count to count
    in the index, because it groups by all columns up to it."""
    first = func.min(stubs.c.resend_time)
    return connection.execute(
        select(stubs.c.send_count).where(*_waits(), stubs.c.send_count > _NEVER)
        .group_by(stubs.c.status, stubs.c.is_manual, stubs.c.send_count)
        .having(first <= now).order_by(first)).scalars().all()


def claim_again(connection: Connection, policy: ResendPolicy, ids: Sequence[str]) -> Sequence[Sent]:
    """Count another send of stubs that `review` locked."""
    return _claim_these(connection, policy, ids)


def postpone(connection: Connection, waits_ms: Mapping[str, int]) -> None:
    """Postpone stubs that `review` locked, by their ids. Their counts do not change, because they were not sent."""
    if waits_ms:
        connection.execute(
            update(stubs).where(stubs.c.message_id == bindparam("its_id"))
            .values(resend_time=now_ms() + bindparam("wait_ms"), version=stubs.c.version + 1),
            [{"its_id": message_id, "wait_ms": wait_ms} for message_id, wait_ms in waits_ms.items()])


def put_off(connection: Connection, waits_ms: Mapping[str, int]) -> None:
    """Postpone stubs that `claim` counted, by their ids: consumers see them that much later."""
    if waits_ms:
        connection.execute(
            update(stubs).where(stubs.c.message_id == bindparam("its_id"))
            .values(resend_time=stubs.c.resend_time + bindparam("wait_ms"),
                    first_send_time=stubs.c.first_send_time + bindparam("wait_ms")),
            [{"its_id": message_id, "wait_ms": wait_ms} for message_id, wait_ms in waits_ms.items()])


def give_back(connection: Connection, claims: Sequence[Claim]) -> None:
    """Undo the claims of sends that were not made: these stubs are due at once, and one with a first send is new again.
    A stub that was claimed again meanwhile is not changed."""
    if claims:
        # In this order: MySQL and MariaDB would see the new count in later assignments.
        connection.execute(
            update(stubs).where(stubs.c.message_id == bindparam("its_id"), *_of_its_claim())
            .ordered_values((stubs.c.resend_time, now_ms()),
                            (stubs.c.first_send_time, case((stubs.c.send_count > 1, stubs.c.first_send_time))),
                            (stubs.c.send_count, stubs.c.send_count - 1),
                            (stubs.c.version, stubs.c.version + 1)),
            [{"its_id": each.message_id, "its_count": each.send_count, "its_first": each.first_send_time}
             for each in sorted(claims)])


def give_up(connection: Connection, ids: Sequence[str]) -> None:
    """Leave stubs that `review` locked to a human."""
    if ids:
        connection.execute(update(stubs).where(stubs.c.message_id.in_(ids))
                           .values(is_manual=True, version=stubs.c.version + 1))


def _claim_these(connection: Connection, policy: ResendPolicy, ids: Sequence[str]) -> Sequence[Sent]:
    if not ids:
        return []
    connection.execute(_bump(policy, ids))
    return connection.execute(select(*_SENT).where(stubs.c.message_id.in_(ids)).order_by(stubs.c.create_time)).all()


def place(connection: Connection, positions: Sequence[Position]) -> list[Position]:
    """Write down where messages are stored: only for the latest send, because a later one has a higher count.

    Locked rows are skipped: an effect may be in progress, and waiting for it would hold up all others. Returns the
    positions that were not written.
    """
    if not positions:
        return []
    if connection.dialect.name == "postgresql":
        placed = _place_by_arrays(connection, positions)
    else:
        placed = _not_locked(connection, [position.message_id for position in positions])
        rows = [{"its_id": position.message_id, "its_count": position.send_count, "broker": position.broker_name,
                 "its_first": position.first_send_time, "queue": position.queue_id, "at": position.queue_offset}
                for position in positions if position.message_id in placed]
        if rows:
            connection.execute(_of_send().values(broker_name=bindparam("broker"), queue_id=bindparam("queue"),
                                                 queue_offset=bindparam("at"), last_error=None), rows)
    return [position for position in positions if position.message_id not in placed]


def note_stored(connection: Connection, positions: Sequence[Position]) -> None:
    """Note the sends in the ledger."""
    if connection.dialect.name == "postgresql" and positions:
        its_id, its_count, *where, _ = _as_rows(positions)
        connection.execute(insert(attempts).from_select(
            ("message_id", "kind", "number", *_PLACE, "begin_time", "end_time", "outcome"),
            select(its_id, literal(SEND), its_count, *where, now_ms(), now_ms(), literal("STORED"))))
        return
    _note_sends(connection, [
        {"message_id": each.message_id, "number": each.send_count, "outcome": "STORED", "detail": None,
         "broker_name": each.broker_name, "queue_id": each.queue_id, "queue_offset": each.queue_offset}
        for each in positions])


def _place_by_arrays(connection: Connection, positions: Sequence[Position]) -> frozenset[str]:
    """Write all positions in one statement, not one for each row: with a server on the network round trips take most of
    the time."""
    its_id, its_count, *where, its_first = _as_rows(positions)
    free = (select(stubs.c.message_id)
            .join(its_id.table, and_(stubs.c.message_id == its_id, *_is_of_claim(its_count, its_first)))
            .with_for_update(of=stubs, skip_locked=True).cte("free"))
    return frozenset(connection.execute(
        update(stubs).where(stubs.c.message_id == its_id, its_id.in_(select(free.c.message_id)))
        .values(**dict(zip(_PLACE, where, strict=True)), last_error=None, version=stubs.c.version + 1)
        .returning(stubs.c.message_id)).scalars())


def _as_rows(positions: Sequence[Position]) -> Sequence[Any]:
    """A PostgreSQL table that is given by six parameters."""
    columns = (stubs.c.message_id, stubs.c.send_count, stubs.c.broker_name, stubs.c.queue_id, stubs.c.queue_offset,
               stubs.c.first_send_time)
    arrays = [literal(list(values), postgresql.ARRAY(column.type))
              for values, column in zip(zip(*positions, strict=True), columns, strict=True)]
    return tuple(func.unnest(*arrays).table_valued(*[Column(f"sent_{each.name}", each.type) for each in columns])
                 .render_derived(name="sent").c)


def store_failures(connection: Connection, failures: Sequence[Failure]) -> None:
    """Note failed sends. The count and the position of an earlier send stay."""
    free = _not_locked(connection, [failure.message_id for failure in failures])
    rows = [{"its_id": failure.message_id, "its_count": failure.send_count, "its_first": failure.first_send_time,
             "why": storable(failure.error, LAST_ERROR_SIZE_MAX)} for failure in failures if failure.message_id in free]
    if rows:
        connection.execute(_of_send().values(last_error=bindparam("why")), rows)
    _note_sends(connection, [
        {"message_id": each.message_id, "number": each.send_count, "outcome": "FAILED",
         "detail": storable(each.error, LAST_ERROR_SIZE_MAX), "broker_name": None, "queue_id": None,
         "queue_offset": None}
        for each in failures])


def _note_sends(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Note sends in the ledger."""
    if rows:
        connection.execute(insert(attempts).values(kind=SEND, begin_time=now_ms(), end_time=now_ms()), rows)


def forget_places(connection: Connection, queue: MessageQueue, end: int) -> None:
    """Forget the positions of stubs whose messages a queue no longer has."""
    connection.execute(update(stubs).where(
        *_waits(), stubs.c.topic == queue.topic, stubs.c.broker_name == queue.broker_name,
        stubs.c.queue_id == queue.queue_id, stubs.c.queue_offset >= end
    ).values(queue_offset=None, version=stubs.c.version + 1))


def make_due(connection: Connection, stubs_gone: Sequence[Gone]) -> int:
    """Have a relay send stubs again, from now on; returns their number. Their positions are forgotten, because the
    rules would wait for them.

    Only stubs that are unchanged since they were read, and whose position is that of their latest send: another send
    may be in progress, which is counted and has no position yet.
    """
    if not stubs_gone:
        return 0
    is_of_latest = exists().where(
        attempts.c.message_id == stubs.c.message_id, attempts.c.kind == SEND, attempts.c.number == stubs.c.send_count,
        *[attempts.c[name] == stubs.c[name] for name in _PLACE])
    return connection.execute(
        update(stubs).where(stubs.c.message_id == bindparam("its_id"), stubs.c.version == bindparam("its_version"),
                            stubs.c.status == UNCONFIRMED, ~stubs.c.is_manual, is_of_latest)
        .values(resend_time=now_ms(), queue_offset=None, last_error=bindparam("its_why"), version=stubs.c.version + 1),
        [{"its_id": each.message_id, "its_version": each.version, "its_why": storable(each.why, LAST_ERROR_SIZE_MAX)}
         for each in stubs_gone]).rowcount


# --- for people ----------------------------------------------------------------------------------------------------


def status(connection: Connection, message_id: str) -> str | None:
    """None when there is no such stub."""
    return connection.execute(select(stubs.c.status).where(stubs.c.message_id == message_id)).scalar_one_or_none()


def waiting(connection: Connection, *, is_manual: bool, limit: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """Unconfirmed stubs, oldest first; with `is_manual` only those left to a human."""
    columns = (stubs.c.message_id, stubs.c.topic, stubs.c.create_time, stubs.c.send_count, stubs.c.resend_time,
               stubs.c.is_manual, stubs.c.last_error)
    found = select(*columns).where(stubs.c.status == UNCONFIRMED).order_by(stubs.c.create_time, stubs.c.message_id)
    if is_manual:
        found = found.where(stubs.c.is_manual)
    return connection.execute(found.limit(limit)).all()


# --- the facts of the rules ------------------------------------------------------------------------------------------


def _facts() -> dict[str, ColumnElement[Any]]:
    """The facts as columns in addition to those of the stub, each computed from its groups that are not done."""
    passed = _of_its_queue(exists()).where(watermarks.c.queue_offset_max > stubs.c.queue_offset)
    lagging = _has_open_group_without(watermarks.c.queue_offset_max > stubs.c.queue_offset)
    done = exists().where(confirmations.c.message_id == message_log.c.message_id,
                          confirmations.c.consumer_group == message_log.c.consumer_group,
                          confirmations.c.status != UNCONFIRMED)
    received = select(func.max(message_log.c.receive_time)).where(
        message_log.c.message_id == stubs.c.message_id, ~done).scalar_subquery()
    moved = case((_has_open_group_without(true()), stubs.c.create_time),
                 else_=func.coalesce(_over_open_groups(func.min(watermarks.c.move_time)),
                                     _of_its_queue(select(func.max(watermarks.c.move_time))).scalar_subquery(),
                                     stubs.c.create_time))
    return {"status": stubs.c.status, "is_manual": stubs.c.is_manual, "send_count": stubs.c.send_count,
            "resend_time": stubs.c.resend_time, "first_send_time": stubs.c.first_send_time,
            "is_behind": stubs.c.queue_offset.is_not(None) & (~passed | lagging),
            "log_time": received, "move_time": moved}


def stands_still(queue: ColumnElement[str], since: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether stubs have waited in the queue of that name for so long, and it has not moved since then for the groups
    concerned."""
    facts = _facts()
    its_name = func.substr(stubs.c.topic + "/" + stubs.c.broker_name + "/" + cast(stubs.c.queue_id, String(11)), 1,
                           ALARM_SUBJECT_SIZE_MAX)
    return exists().where(*_waits(), stubs.c.send_count > _NEVER, its_name == queue, facts["is_behind"],
                          facts["first_send_time"] < since, facts["move_time"] < since)


def _received_up_to() -> ColumnElement[int | None]:
    return func.coalesce(_over_open_groups(func.min(watermarks.c.queue_offset_max)),
                         _of_its_queue(select(func.max(watermarks.c.queue_offset_max))).scalar_subquery())


def _of_its_queue(statement: Any) -> Any:
    return statement.where(watermarks.c.topic == stubs.c.topic, watermarks.c.broker_name == stubs.c.broker_name,
                           watermarks.c.queue_id == stubs.c.queue_id)


def _is_open_group() -> ColumnElement[bool]:
    return (confirmations.c.message_id == stubs.c.message_id) & (confirmations.c.status == UNCONFIRMED)


def _has_open_group_without(is_so: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether one of a stub's groups has no watermark in its queue for which `is_so` is true."""
    return exists().where(_is_open_group(), ~_of_its_queue(exists()).where(
        watermarks.c.consumer_group == confirmations.c.consumer_group, is_so).correlate(stubs, confirmations))


def _over_open_groups(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """The value over the open groups; null for a stub without groups."""
    found: Select[Any] = _of_its_queue(select(value))
    return found.where(_is_open_group(),
                       watermarks.c.consumer_group == confirmations.c.consumer_group).scalar_subquery()


# --- parts of statements -------------------------------------------------------------------------------------------


# Written as literals, as in the indexes on these rows: PostgreSQL would not use these with a parameter.
_NEVER = literal(0, literal_execute=True)


def _waits() -> tuple[ColumnElement[bool], ...]:
    return (stubs.c.status == literal(UNCONFIRMED, literal_execute=True), ~stubs.c.is_manual)


def _free(condition: ColumnElement[bool]) -> Select[Any]:
    """The waiting stubs that are not locked."""
    return (select(stubs.c.message_id).where(*_waits(), condition)
            .order_by(stubs.c.resend_time).with_for_update(skip_locked=True))


def _bump(policy: ResendPolicy, ids: Iterable[str] | Select[Any]) -> Update:
    count = stubs.c.send_count + 1
    growing = policy.growing_intervals()
    interval = case(growing, value=count, else_=policy.interval_ms_max) if growing else literal(policy.interval_ms_max)
    # In this order: MySQL and MariaDB would see the new count in later assignments.
    return update(stubs).where(stubs.c.message_id.in_(ids)).ordered_values(
        (stubs.c.resend_time, now_ms() + interval),
        (stubs.c.first_send_time, case((stubs.c.send_count == 0, now_ms()), else_=stubs.c.first_send_time)),
        (stubs.c.send_count, count),
        (stubs.c.version, stubs.c.version + 1))


def _of_send() -> Update:
    return update(stubs).where(stubs.c.message_id == bindparam("its_id"), *_of_its_claim()).values(
        version=stubs.c.version + 1)


def _of_its_claim() -> Sequence[ColumnElement[bool]]:
    return _is_of_claim(bindparam("its_count", type_=Integer), bindparam("its_first", type_=BigInteger))


def _is_of_claim(count: ColumnElement[int], first_send_time: ColumnElement[Any]) -> Sequence[ColumnElement[bool]]:
    """Whether a stub has neither been claimed again since that claim, nor been sent again by hand."""
    return (stubs.c.send_count == count,
            or_(first_send_time.is_(None), stubs.c.first_send_time.is_(None),
                stubs.c.first_send_time == first_send_time))


def _not_locked(connection: Connection, ids: Sequence[str]) -> frozenset[str]:
    if not ids:
        return frozenset()
    found = select(stubs.c.message_id).where(stubs.c.message_id.in_(ids)).with_for_update(skip_locked=True)
    return frozenset(connection.execute(found).scalars())
