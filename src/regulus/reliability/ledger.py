"""The account of committed messages: everything that happened to one business id, and sums over a period.

    committed = applied + voided + parked + under way

A confirmed stub needs a proof for each of its groups: a delivery with the outcome APPLIED, which is written in the
effect's transaction, a row of the inbox, or an operator's CONFIRM. A stub without one is *lost*; a group with more than
one such delivery is *doubled*; an inbox row without a stub is *unmade*. If the consumer has its own database, effects
are read from there.

A stub has the time of its statement, and becomes visible when its transaction is committed. An audit therefore ends
before the oldest open transaction, so that consecutive audits miss no stub (`settled`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, select, tuple_

from regulus.reliability.retry_policy import BROKER_KEEPS_MS, KEEP_MS, RETRIES_MS
from regulus.reliability.settled import settled
from regulus.reliability.tables import (
    APPLIED,
    CONFIRMED,
    DELIVERY,
    VOIDED,
    actions,
    attempts,
    confirmations,
    inbox,
    message_log,
    now_ms,
    stubs,
)

NAMES_MAX = 100
"""Ids of each kind that an audit lists; the others are counted."""
OVERDUE_MS = 3_600_000
"""A stub that has been due for this long has no relay."""

_PAGE = 1_000
_NO_GROUP = ""


class Entry(NamedTuple):
    """One event."""

    time_ms: int
    what: str           # COMMIT, SEND, DELIVERY, EFFECT, RETRY, VOID, CONFIRM
    outcome: str = ""
    consumer_group: str = ""
    number: int | None = None
    place: str = ""     # broker/queue/offset
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Everything known of one business id, in the order of time."""

    message_id: str
    topic: str
    status: str
    is_manual: bool
    send_count: int
    resend_time_ms: int
    groups: dict[str, str]          # status by consuming group, where several consume it
    received_by: tuple[str, ...]    # groups that have received it and are not done
    entries: tuple[Entry, ...]


def account(business: Connection, message_id: str, effects: Connection | None = None) -> Account | None:
    """None when there is no such stub."""
    stub = business.execute(select(stubs).where(stubs.c.message_id == message_id)).one_or_none()
    if stub is None:
        return None
    databases = _databases(business, effects)
    entries = [Entry(stub.create_time, "COMMIT")]
    entries += [Entry(row.action_time, row.action, "by hand", detail=f"{row.operator}: {row.reason}")
                for row in business.execute(select(actions).where(actions.c.message_id == message_id))]
    for database in databases:
        entries += [_attempt(row) for row in database.execute(
            select(attempts).where(attempts.c.message_id == message_id).order_by(attempts.c.attempt_id))]
        entries += [Entry(row.apply_time, "EFFECT", "in the inbox", row.consumer_group, place=_place(row))
                    for row in database.execute(select(inbox).where(inbox.c.message_id == message_id))]
    return Account(
        message_id=message_id, topic=stub.topic, status=stub.status, is_manual=stub.is_manual,
        send_count=stub.send_count, resend_time_ms=stub.resend_time,
        groups=_groups(business, [message_id]).get(message_id, {}),
        received_by=tuple(group for database in databases for group in database.execute(
            select(message_log.c.consumer_group).where(message_log.c.message_id == message_id)).scalars()),
        entries=tuple(sorted(entries, key=lambda entry: entry.time_ms)))


def _attempt(row: Row[Any]) -> Entry:
    return Entry(row.begin_time, row.kind, row.outcome, row.consumer_group or "", row.number, _place(row),
                 row.detail or "")


def _place(row: Row[Any]) -> str:
    return "" if row.queue_offset is None else f"{row.broker_name}/{row.queue_id}/{row.queue_offset}"


# --- the sums ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Exceptions:
    """The number of ids of one kind, and the first of them."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, message_id: str) -> None:
        self.count += 1
        if len(self.names) < NAMES_MAX:
            self.names.append(message_id)


@dataclass(slots=True, kw_only=True)
class Audit:
    """The state of the stubs of a period. `overdue` ones are part of those under way.

    `until_ms`: the end of the period, exclusive. `is_held_back`: an open transaction made it end earlier. `unseen`: a
    text on what could not be read.
    """

    until_ms: int = 0
    is_held_back: bool = False
    unseen: list[str] = field(default_factory=list)
    committed: int = 0
    applied: int = 0
    voided: int = 0
    parked: Exceptions = field(default_factory=Exceptions)
    under_way: int = 0
    overdue: Exceptions = field(default_factory=Exceptions)
    lost: Exceptions = field(default_factory=Exceptions)
    doubled: Exceptions = field(default_factory=Exceptions)
    unmade: Exceptions = field(default_factory=Exceptions)

    @property
    def next_since_ms(self) -> int | None:
        """Where the next audit begins; if something unread may be before the end, where this one did, None if that is
        unknown."""
        return None if self.unseen else self.until_ms

    @property
    def is_kept(self) -> bool:
        """Whether each committed message has had one effect, or its exception is known."""
        return not (self.lost.count or self.doubled.count or self.unmade.count or self.overdue.count)

    def verdict(self) -> str:
        parts = [f"{self.applied} applied"]
        parts += [f"{count} {name}" for name, count in (
            ("voided", self.voided), ("parked", self.parked.count), ("under way", self.under_way)) if count]
        found = [f"{self.lost.count} lost", f"{self.doubled.count} doubled"]
        found += [f"{each.count} {name}" for name, each in (("unmade", self.unmade), ("overdue", self.overdue))
                  if each.count]
        return f"{self.committed} committed = {' + '.join(parts)}, {', '.join(found)}"


def audit(business: Connection, since_ms: int, until_ms: int, effects: Connection | None = None, *,
          keep_ms: int = KEEP_MS) -> Audit:
    """Audit the stubs written from `since_ms` to `until_ms` (exclusive), or until now, page by page.

    The connections must not have read anything in their transactions. `keep_ms`: that of the removal of stubs; an
    effect whose stub may have been removed does not count as unmade.
    """
    found = _begun(until_ms, business, effects)
    until_ms = found.until_ms
    now = business.execute(select(now_ms())).scalar_one()
    for page in _pages(business, since_ms, until_ms):
        ids = [stub.message_id for stub in page]
        proofs = _proofs(_databases(business, effects), ids)
        by_hand = set(business.execute(select(actions.c.message_id).where(
            actions.c.message_id.in_(ids), actions.c.action == "CONFIRM")).scalars())
        groups = _groups(business, ids)
        left = _known(business, ids)
        for stub in page:
            if stub.message_id not in left:
                continue    # it was removed meanwhile, and its proofs with it
            _judge(found, stub, now, groups.get(stub.message_id, {}), proofs.get(stub.message_id, Counter()),
                   is_by_hand=stub.message_id in by_hand)
    if effects is not None:
        known_since = now - keep_ms + BROKER_KEEPS_MS + RETRIES_MS      # the latest an effect can follow the last send
        for message_id in _unmade(business, effects, max(since_ms, known_since), until_ms):
            found.unmade.add(message_id)
    return found


def _begun(until_ms: int, business: Connection, effects: Connection | None) -> Audit:
    """An audit without any sums."""
    ends = [settled(business, stubs)] + ([] if effects is None else [settled(effects, inbox)])
    first = min(ends)
    return Audit(until_ms=min(until_ms, first.time_ms), is_held_back=first.is_held_back and first.time_ms < until_ms,
                 unseen=[each.unseen for each in ends if each.unseen])


def _judge(found: Audit, stub: Row[Any], now: int, groups: dict[str, str], proofs: Counter[str], *,
           is_by_hand: bool) -> None:
    found.committed += 1
    if any(count > 1 for count in proofs.values()):
        found.doubled.add(stub.message_id)
    if stub.status == VOIDED:
        found.voided += 1
    elif stub.status == CONFIRMED:
        wanted = [group for group, status in groups.items() if status == CONFIRMED]
        is_proven = all(proofs[group] for group in wanted) if groups else bool(proofs)
        if is_proven or is_by_hand:
            found.applied += 1
        else:
            found.lost.add(stub.message_id)
    elif stub.is_manual:
        found.parked.add(stub.message_id)
    else:
        found.under_way += 1
        if stub.resend_time < now - OVERDUE_MS:
            found.overdue.add(stub.message_id)


def _pages(connection: Connection, since_ms: int, until_ms: int) -> Iterator[Sequence[Row[*tuple[Any, ...]]]]:
    place = tuple_(stubs.c.create_time, stubs.c.message_id)
    last = (since_ms, "")
    while page := connection.execute(
            select(stubs.c.message_id, stubs.c.status, stubs.c.is_manual, stubs.c.resend_time, stubs.c.create_time)
            .where(stubs.c.create_time >= last[0], stubs.c.create_time < until_ms, place > last)
            .order_by(stubs.c.create_time, stubs.c.message_id).limit(_PAGE)).all():
        yield page
        last = (page[-1].create_time, page[-1].message_id)


def _proofs(databases: Iterable[Connection], ids: Sequence[str]) -> dict[str, Counter[str]]:
    """Effects by message and group. A row of the inbox and the delivery that wrote it are counted once."""
    found: dict[str, Counter[str]] = {}
    for database in databases:
        for message_id, group, count in database.execute(
                select(attempts.c.message_id, attempts.c.consumer_group, func.count())
                .where(attempts.c.message_id.in_(ids), attempts.c.kind == DELIVERY, attempts.c.outcome == APPLIED)
                .group_by(attempts.c.message_id, attempts.c.consumer_group)):
            found.setdefault(message_id, Counter())[group or _NO_GROUP] += count
        for message_id, group in database.execute(select(inbox.c.message_id, inbox.c.consumer_group)
                                                  .where(inbox.c.message_id.in_(ids))):
            of_message = found.setdefault(message_id, Counter())
            of_message[group] = max(of_message[group], 1)
    return found


def _groups(connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in connection.execute(select(confirmations.c.message_id, confirmations.c.consumer_group,
                                         confirmations.c.status)
                                  .where(confirmations.c.message_id.in_(ids)).order_by(confirmations.c.consumer_group)):
        found.setdefault(row.message_id, {})[row.consumer_group] = row.status
    return found


def _unmade(business: Connection, effects: Connection, since_ms: int, until_ms: int) -> Iterator[str]:
    place = tuple_(inbox.c.apply_time, inbox.c.message_id, inbox.c.consumer_group)
    last = (since_ms, "", "")
    while page := effects.execute(
            select(inbox.c.apply_time, inbox.c.message_id, inbox.c.consumer_group)
            .where(inbox.c.apply_time >= last[0], inbox.c.apply_time < until_ms, place > last)
            .order_by(inbox.c.apply_time, inbox.c.message_id, inbox.c.consumer_group).limit(_PAGE)).all():
        ids = [row.message_id for row in page]
        known = _known(business, ids)
        yield from (message_id for message_id in ids if message_id not in known)
        last = tuple(page[-1])


def _known(business: Connection, ids: Sequence[str]) -> set[str]:
    return set(business.execute(select(stubs.c.message_id).where(stubs.c.message_id.in_(ids))).scalars())


def _databases(business: Connection, effects: Connection | None) -> tuple[Connection, ...]:
    return (business,) if effects is None else (business, effects)
