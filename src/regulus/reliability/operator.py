"""Actions of operators on a stub that no relay sends any more. Each action is recorded, in the same transaction, and
closes the stub's alarms.

    retry       send it again from now on, as often as a new stub
    void        its effect is not wanted: copies that arrive are answered as done
    confirm     its effect exists, or was made by other means

Only an unconfirmed stub is changed, so that a delivery in between wins.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, exists, insert, update

from regulus.errors import ReliabilityRefused, StubMissing
from regulus.reliability import alarms, outbox_table
from regulus.reliability.tables import (
    CONFIRMED,
    LAST_ERROR_SIZE_MAX,
    OPERATOR_SIZE_MAX,
    UNCONFIRMED,
    VOIDED,
    actions,
    confirmations,
    now_ms,
    storable,
    stubs,
)


def retry(connection: Connection, message_id: str, *, operator: str, reason: str) -> None:
    """Raises StubMissing, ReliabilityRefused."""
    _act(connection, message_id, "RETRY", {"is_manual": False, "send_count": 0, "resend_time": now_ms()},
         operator, reason)


def void(connection: Connection, message_id: str, *, operator: str, reason: str) -> None:
    """Raises StubMissing, ReliabilityRefused."""
    _settle_groups(connection, message_id, VOIDED)
    _act(connection, message_id, "VOID", {"status": VOIDED, "is_manual": False}, operator, reason)


def confirm(connection: Connection, message_id: str, *, operator: str, reason: str) -> None:
    """Confirm a stub for all consuming groups that are open. Raises StubMissing, ReliabilityRefused."""
    _settle_groups(connection, message_id, CONFIRMED)
    _act(connection, message_id, "CONFIRM", {"status": CONFIRMED, "is_manual": False}, operator, reason)


def _act(connection: Connection, message_id: str, action: str, values: Mapping[str, object], operator: str,
         reason: str) -> None:
    if not operator.strip() or not reason.strip():
        raise ReliabilityRefused("who does it and why are written down; give both operator and reason")
    changed = connection.execute(update(stubs).where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED)
                                 .values(**values, version=stubs.c.version + 1)).rowcount
    if not changed:
        status = outbox_table.status(connection, message_id)
        if status is None:
            raise StubMissing(f"the database has no stub {message_id}")
        raise ReliabilityRefused(f"stub {message_id} is {status}; nothing is left to do by hand")
    connection.execute(insert(actions).values(
        message_id=message_id, action=action, operator=storable(operator, OPERATOR_SIZE_MAX),
        reason=storable(reason, LAST_ERROR_SIZE_MAX), action_time=now_ms()))
    alarms.close_of_stub(connection, message_id)


def _settle_groups(connection: Connection, message_id: str, status: str) -> None:
    """Change the groups before the stub, in the order in which consumers lock them."""
    is_open = exists().where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED)
    connection.execute(update(confirmations).where(confirmations.c.message_id == message_id,
                                                   confirmations.c.status == UNCONFIRMED, is_open)
                       .values(status=status, confirm_time=now_ms()))
