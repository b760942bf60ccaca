"""The rules of resends: the answers of SQLite, PostgreSQL and Spark are those of the table in their docstring."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    case,
    create_engine,
    insert,
    select,
)
from tests.unit.pipeline import postgresql

from regulus.model.resend_rules import FACTS, ResendAction, ResendLimits, resend_rules

NOW, FRESH, MOVES, SENT, MAX = 1_000, 900, 800, 700, 3
LIMITS = ResendLimits(now_ms=NOW, attempts_max=MAX, fresh_since_ms=FRESH, moves_since_ms=MOVES,
                      sent_since_ms=SENT)
TIMES = st.sampled_from([0, 1, SENT - 1, SENT, MOVES - 1, MOVES, FRESH - 1, FRESH, NOW - 1, NOW, NOW + 1])
ROWS = st.lists(st.tuples(
    st.sampled_from(["UNCONFIRMED", "CONFIRMED", "VOIDED"]), st.booleans(), st.integers(0, MAX + 1), TIMES,
    st.booleans(), st.none() | TIMES, TIMES, st.none() | TIMES), min_size=1, max_size=40)
EDGES = list(product(["UNCONFIRMED"], [False], [MAX - 1, MAX], [NOW, NOW + 1], [False, True],
                     [None, 0, FRESH - 1, FRESH], [MOVES - 1, MOVES], [None, SENT - 1, SENT, MOVES - 1, MOVES]))
"""Both sides of each limit, with all that stands beside it."""

metadata = MetaData()
facts = Table("facts", metadata, Column("number", Integer, primary_key=True), Column("status", String(11)),
              Column("is_manual", Boolean), Column("send_count", Integer), Column("resend_time", BigInteger),
              Column("is_behind", Boolean), Column("log_time", BigInteger), Column("move_time", BigInteger),
              Column("first_send_time", BigInteger))


def wanted(row) -> str:
    """The table, line by line."""
    status, is_manual, send_count, resend_time, is_behind, log_time, move_time, first_send_time = row
    if status != "UNCONFIRMED" or is_manual:
        return "NOTHING"
    if resend_time > NOW:
        return "WAIT"
    is_left = send_count < MAX and not (first_send_time is not None and first_send_time < SENT)
    match (is_left, is_behind, "none" if log_time is None else "fresh" if log_time >= FRESH else "stale"):
        case (_, _, "fresh"):
            return "WAIT"
        case (False, _, _):
            return "MANUAL"
        case (True, True, _):
            is_long = first_send_time is not None and first_send_time < MOVES
            return "CONSUMER_DOWN" if is_long and move_time < MOVES else "POSTPONE"
        case (True, False, "stale"):
            return "RESEND_AND_TELL"
    return "RESEND"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request):
    if request.param == "sqlite":
        engine = create_engine("sqlite://")
        metadata.create_all(engine)
        yield engine
        return
    with postgresql.running() as address:
        engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
        metadata.create_all(engine)
        yield engine
        engine.dispose()


@settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
@example(rows=EDGES)
def test_a_database_answers_as_the_table_says(engine, rows):
    rules = resend_rules({name: facts.c[name] for name in FACTS}, LIMITS)
    action = case(*[(condition, then.value) for condition, then in rules], else_=ResendAction.RESEND.value)
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(insert(facts), [dict(zip(FACTS, row, strict=True), number=number)
                                           for number, row in enumerate(rows)])
        found = connection.execute(select(action).order_by(facts.c.number)).scalars().all()
        transaction.rollback()
    assert found == [wanted(row) for row in rows]
