"""What people do by hand: once, written down, and never over a delivery that came in between."""

import pytest
from sqlalchemy import insert, select

from regulus.errors import ReliabilityRefused, StubMissing
from regulus.reliability import operator, outbox_table, tables
from regulus.reliability.retry_policy import ResendPolicy

from .shop import place_orders, set_stub, stub

ANN = {"operator": "ann", "reason": "seen in the bank"}


@pytest.fixture
def parked(engine):
    """Its stub `1` waits for a human, and is confirmed by one of its groups."""
    place_orders(engine, "1")
    set_stub(engine, "1", is_manual=True, send_count=16, resend_time=1 << 50)
    with engine.begin() as connection:
        connection.execute(insert(tables.confirmations), [
            {"message_id": "1", "consumer_group": group, "status": status}
            for group, status in (("billing", tables.CONFIRMED), ("stock", tables.UNCONFIRMED))])
    return engine


def rows(engine, columns):
    with engine.connect() as connection:
        return sorted(map(tuple, connection.execute(select(*columns))))


GROUPS = (tables.confirmations.c.consumer_group, tables.confirmations.c.status)
ACTIONS = (tables.actions.c.message_id, tables.actions.c.action, tables.actions.c.operator, tables.actions.c.reason)


def test_a_retry_is_due_at_once_and_counts_anew(parked):
    with parked.begin() as connection:
        operator.retry(connection, "1", **ANN)
    with parked.begin() as connection:
        claimed = outbox_table.claim(connection, ResendPolicy(), 10)
    assert [(row.message_id, row.send_count) for row in claimed] == [("1", 1)]
    assert rows(parked, ACTIONS) == [("1", "RETRY", "ann", "seen in the bank")]
    assert rows(parked, GROUPS) == [("billing", "CONFIRMED"), ("stock", "UNCONFIRMED")]


@pytest.mark.parametrize(("act", "status"), [(operator.void, "VOIDED"), (operator.confirm, "CONFIRMED")])
def test_a_verdict_counts_for_the_groups_that_are_open(parked, act, status):
    with parked.begin() as connection:
        act(connection, "1", **ANN)
    assert (stub(parked, "1").status, stub(parked, "1").is_manual) == (status, False)
    assert rows(parked, GROUPS) == [("billing", "CONFIRMED"), ("stock", status)]
    assert [row[1] for row in rows(parked, ACTIONS)] == ["VOID" if status == "VOIDED" else "CONFIRM"]


@pytest.mark.parametrize("act", [operator.retry, operator.void, operator.confirm])
@pytest.mark.parametrize("status", ["CONFIRMED", "VOIDED"])
def test_what_is_done_is_not_changed(engine, act, status):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)
    with engine.begin() as connection:
        connection.execute(insert(tables.confirmations).values(message_id="1", consumer_group="stock",
                                                               status=tables.UNCONFIRMED))
        with pytest.raises(ReliabilityRefused, match=f"stub 1 is {status}"):
            act(connection, "1", **ANN)
    assert (stub(engine, "1").status, rows(engine, ACTIONS)) == (status, [])
    assert rows(engine, GROUPS) == [("stock", tables.UNCONFIRMED)]


def test_an_unknown_stub_is_told(engine):
    with engine.begin() as connection, pytest.raises(StubMissing, match="no stub nosuch"):
        operator.retry(connection, "nosuch", **ANN)
    assert rows(engine, ACTIONS) == []


@pytest.mark.parametrize("missing", ["operator", "reason"])
def test_nothing_is_done_without_a_name_and_a_reason(parked, missing):
    with parked.begin() as connection, pytest.raises(ReliabilityRefused, match="give both"):
        operator.void(connection, "1", **ANN | {missing: " "})
    assert stub(parked, "1").status == tables.UNCONFIRMED


def test_long_words_are_cut_to_what_the_table_holds(parked):
    with parked.begin() as connection:
        operator.retry(connection, "1", operator="a" * 1_000, reason="b" * 1_000)
    assert rows(parked, ACTIONS) == [("1", "RETRY", "a" * 128, "b" * 500)]
