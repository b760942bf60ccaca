"""Checks that each committed message has its effect once, whatever was killed on the way."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

from sqlalchemy import Connection, Engine, exists, select
from sqlalchemy.exc import DBAPIError

from regulus.errors import ReliabilityRefused
from regulus.reliability.ledger import Account, account
from regulus.reliability.tables import CONFIRMED, UNCONFIRMED, alarms, stubs

_LOOK_INTERVAL_S = 0.01


def await_settled(engine: Engine, message_ids: Sequence[str], timeout_s: float = 30.0) -> None:
    """Wait until each of these stubs is confirmed, voided or left to a human; an unreachable database is asked again.

    Raises AssertionError with their accounts; ReliabilityRefused on an event loop, which this would block.
    """
    if _is_on_event_loop():
        raise ReliabilityRefused("await_settled blocks the event loop that it is called on, and with it any relay and "
                                 "consumer there: await asyncio.to_thread(await_settled, engine, message_ids)")
    until = time.monotonic() + timeout_s
    while waiting := _unsettled(engine, message_ids):
        if time.monotonic() >= until:
            with engine.connect() as connection:
                told = "\n".join(_told(account(connection, message_id)) for message_id in waiting)
            raise AssertionError(f"after {timeout_s:g} s these are neither confirmed, voided nor given up:\n{told}")
        time.sleep(_LOOK_INTERVAL_S)


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _unsettled(engine: Engine, message_ids: Sequence[str]) -> Sequence[str]:
    """The unsettled ones; all of them when the database has ended the connection."""
    seen_to = sys.exception()       # handled by our caller
    try:
        with engine.connect() as connection:
            return connection.execute(select(stubs.c.message_id).where(
                stubs.c.message_id.in_(message_ids), stubs.c.status == UNCONFIRMED, ~stubs.c.is_manual)).scalars().all()
    except DBAPIError as error:
        if not _is_of_lost_connection(error, seen_to):
            raise
        return message_ids


def _is_of_lost_connection(error: DBAPIError, seen_to: BaseException | None) -> bool:
    """Whether the connection was lost, also if SQLAlchemy cannot see that from the failed statement, but its rollback
    failed, too."""
    before = error.__context__
    while before is not None and before is not seen_to and not isinstance(before, DBAPIError):
        before = before.__context__
    return error.connection_invalidated or before not in (None, seen_to)


def check_once(engine: Engine, message_ids: Iterable[str], count_effects: Callable[[str], int], *,
               effects_engine: Engine | None = None) -> None:
    """Raises AssertionError that names each business id in a wrong state, with its account.

    `engine` is for the stubs' database, `effects_engine` for the consumer's if that is another; `count_effects` counts
    the effects of an id in the tables of the business.

        the stub is            effects
        confirmed              one; with several groups one for each
        voided, missing      none
        left to a human        none, and there is an alarm; with several groups one for each that is done
        anything else          it is stuck
    """
    faults: list[str] = []
    with ExitStack() as connections:
        business = connections.enter_context(engine.connect())
        effects = None if effects_engine is None else connections.enter_context(effects_engine.connect())
        for message_id in message_ids:
            found, count = account(business, message_id, effects), count_effects(message_id)
            fault = _fault(business, found, count)
            if fault:
                faults.append(f"{message_id} {fault}: {count} effects; {_told(found)}")
    if faults:
        raise AssertionError("\n".join(faults))


def _fault(connection: Connection, found: Account | None, count: int) -> str:
    if found is None:
        return "has an effect that nobody committed" if count else ""
    if found.groups:
        wanted = sum(status == CONFIRMED for status in found.groups.values())
    else:
        wanted = int(found.status == CONFIRMED)
    if count < wanted:
        return "lost its effect"
    if count > wanted:
        return "has its effect more than once" if wanted else "has an effect that is not confirmed"
    if found.status != UNCONFIRMED:
        return ""
    if not found.is_manual:
        return "is stuck"
    return "" if _is_told(connection, found.message_id) else "is left to a human whom nobody told"


def _is_told(connection: Connection, message_id: str) -> bool:
    return bool(connection.execute(select(exists().where(alarms.c.subject == message_id,
                                                         alarms.c.closed_time.is_(None)))).scalar_one())


def _told(found: Account | None) -> str:
    if found is None:
        return "no stub"
    lines = [f"stub {found.status}{', left to a human' if found.is_manual else ''}, {found.send_count} sends"]
    lines += [f"group {group} {status}" for group, status in found.groups.items()]
    lines += [f"received by {group} and not done" for group in found.received_by]
    lines += [" ".join(filter(None, (entry.what, entry.outcome, entry.consumer_group, entry.place, entry.detail)))
              for entry in found.entries]
    return "; ".join(lines)
