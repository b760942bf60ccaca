"""Faults of outbox, relay and inbox: messages without their business, sends without end, effects that come twice."""

from tests.mutants import Mutant

_TABLE = "regulus/reliability/outbox_table.py"
_TABLES = "regulus/reliability/tables.py"
_OUTBOX = "regulus/reliability/outbox.py"
_RELAY_LOOP = "regulus/reliability/relay_loop.py"
_INBOX = "regulus/reliability/inbox.py"

_OUTBOX_TESTS = ("tests/unit/reliability/test_outbox.py",)
_RELAY_TESTS = ("tests/unit/reliability/test_relay.py",)
_LOOP_TESTS = ("tests/unit/reliability/test_relay_loop.py",)
_INBOX_TESTS = ("tests/unit/reliability/test_inbox.py",)

MUTANTS = [
    # --- outbox -----------------------------------------------------------------------------------------------------
    Mutant(name="a connection that commits each statement takes stubs", path=_OUTBOX,
           old="    if tables.commits_each_statement(dialect, driver_connection):", new="    if False:",
           tests=_OUTBOX_TESTS),
    Mutant(name="a transaction begun by hand is not seen", path=_TABLES,
           old="    return not _has_begun(driver_connection)", new="    return True", tests=_OUTBOX_TESTS),
    Mutant(name="properties leave no room for the broker's own", path=_OUTBOX,
           old="    if size > names.PROPERTIES_SIZE_MAX - PROPERTIES_RESERVE:", new="    if False:",
           tests=_OUTBOX_TESTS),
    # --- relay ------------------------------------------------------------------------------------------------------
    Mutant(name="a claim does not count its send", path=_TABLE,
           old=", (stubs.c.send_count, count),", new=",", tests=_RELAY_TESTS),
    Mutant(name="a claim is no lease", path=_TABLE,
           old="(stubs.c.resend_time, now_ms() + interval)", new="(stubs.c.resend_time, now_ms())", tests=_RELAY_TESTS),
    Mutant(name="a stub has no last send", path=_TABLE,
           old="_due(stubs.c.send_count < policy.attempts_max)", new="_due(stubs.c.send_count >= 0)",
           tests=_RELAY_TESTS),
    Mutant(name="what is done is sent again", path=_TABLE,
           old="    return (stubs.c.status == literal(UNCONFIRMED, literal_execute=True), ~stubs.c.is_manual)",
           new="    return (~stubs.c.is_manual,)", tests=_RELAY_TESTS),
    Mutant(name="relays wait for one another's rows", path=_TABLE,
           old=".order_by(stubs.c.resend_time).with_for_update(skip_locked=True))",
           new=".order_by(stubs.c.resend_time))", tests=_RELAY_TESTS),
    Mutant(name="a late answer overwrites the place of the latest send", path=_TABLE,
           old="stubs.c.send_count == bindparam(\"its_count\"))", new="bindparam(\"its_count\") > 0)",
           tests=_RELAY_TESTS),
    Mutant(name="one bad message holds up its batch", path=_RELAY_LOOP,
           old="            if len(batch) > 1:\n", new="            if False:\n", tests=_LOOP_TESTS),
    # --- inbox ------------------------------------------------------------------------------------------------------
    Mutant(name="a confirmation takes what is confirmed", path=_TABLE,
           old="stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED)",
           new="stubs.c.message_id == message_id)", tests=_INBOX_TESTS),
    Mutant(name="an unconfirmed stub that another claimed is a success", path=_INBOX,
           old="return Outcome.BUSY if status == tables.UNCONFIRMED else Outcome.DONE", new="return Outcome.DONE",
           tests=_INBOX_TESTS),
    Mutant(name="a failed effect keeps its claim", path=_INBOX,
           old="claims.release if outcome in (Outcome.MISSING, Outcome.BUSY) else claims.finish",
           new="claims.finish", tests=_INBOX_TESTS),
    Mutant(name="an effect may end its transaction", path=_INBOX,
           old="                if not transaction.is_active:", new="                if False:", tests=_INBOX_TESTS),
    Mutant(name="without Redis nothing is applied", path=_INBOX,
           old="            return self._decide(message_id, message)\n        if token",
           new="            return Outcome.BUSY\n        if token", tests=_INBOX_TESTS),
]
