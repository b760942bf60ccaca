"""Which stubs a relay claims, and what it writes down of them; without a broker."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.exc import DBAPIError

from regulus.errors import ConfigError
from regulus.model.message import Message
from regulus.reliability import judges, operator, outbox_table
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_table import Failure, Position
from regulus.reliability.relay import BATCH_SIZE_MAX, PLACE_TRIES_MAX, Claimed, DueStubs, RelayConfig, batches
from regulus.reliability.retry_policy import ResendPolicy
from regulus.reliability.tables import attempts, stubs

from .deliveries import rows
from .shop import make_due, orders, place_orders, set_stub, stub


@pytest.fixture(params=["by one statement", "by two statements"])
def due(request, engine, monkeypatch):
    """As databases with `UPDATE ... RETURNING` do it, and as the others. SQLite has no locks for the second way."""
    if request.param == "by two statements":
        if engine.dialect.name == "sqlite":
            pytest.skip("SQLite has no row locks, and RETURNING")
        monkeypatch.setattr(engine.dialect, "update_returning", False)
    return DueStubs(engine, RelayConfig())


def test_a_claim_gives_the_message_and_counts_its_send_before_it(engine, due):
    place_orders(engine, "1")
    [(message_id, send_count, message, first_send_time)] = due.claim()
    assert first_send_time == stub(engine, "1").first_send_time
    assert (message_id, send_count) == ("1", 1)
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"1", "new", "1 vip")
    row = stub(engine, "1")
    assert (row.send_count, row.status) == (1, "UNCONFIRMED")
    assert 59_000 <= row.resend_time - row.create_time <= 70_000


def test_what_waits_at_the_broker_is_sent_first_when_consumers_see_it(engine):
    """Else a delay of a week would be the end of its stub."""
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox().add(connection, Message("orders", b"1", properties={"TIMER_DELAY_SEC": "3600"}), message_id="1")
    assert len(DueStubs(engine, RelayConfig()).claim()) == 1
    row = stub(engine, "1")
    assert row.first_send_time - row.create_time >= 3_600_000
    assert row.resend_time - row.first_send_time >= 60_000


def test_w5_each_claim_moves_the_next_further_and_the_last_is_the_sixteenth(engine, due):
    """Whoever dies after a claim has counted it: the bound holds."""
    place_orders(engine, "1")
    waits = []
    for number in range(16):
        make_due(engine)
        assert len(due.review().claimed if number else due.claim()) == 1
        row = stub(engine, "1")
        waits.append(round((row.resend_time - row.create_time) / 60_000))
    assert waits == [1, 2, 4, 8, 16] + [30] * 11
    make_due(engine)
    assert (due.claim(), due.review().claimed) == ([], [])
    assert stub(engine, "1").send_count == 16


@pytest.mark.parametrize("values", [{"status": "CONFIRMED"}, {"status": "VOIDED"}, {"is_manual": True},
                                    {"send_count": 16}])
def test_what_is_done_or_was_sent_is_not_claimed(engine, due, values):
    place_orders(engine, "1", "2")
    set_stub(engine, "1", **values)
    assert [claimed.message_id for claimed in due.claim()] == ["2"]


def test_a_first_send_depends_on_no_time(engine, due):
    """The clock of the database was set back by an hour since the commit."""
    place_orders(engine, "1", "2")
    ahead = stub(engine, "1").create_time + 3_600_000
    set_stub(engine, "1", resend_time=ahead, create_time=ahead)
    assert sorted(each.message_id for each in due.claim()) == ["1", "2"]
    assert stub(engine, "1").resend_time < ahead


def test_a_claim_has_a_largest_size_and_the_oldest_go_first(engine):
    place_orders(engine, *"abcde")
    for place, each in enumerate("ecadb"):
        set_stub(engine, each, resend_time=place, create_time=place)
    for index in stubs.indexes:     # in whatever order the database finds them
        index.drop(engine)
    due = DueStubs(engine, RelayConfig(batch_max=2))
    assert [[claimed.message_id for claimed in due.claim()] for _ in range(4)] == [["e", "c"], ["a", "d"], ["b"], []]


def test_w6_many_relays_claim_each_stub_once(engine, due):
    ids = [f"order-{number}" for number in range(300)]
    place_orders(engine, *ids)
    claimed: list[str] = []
    start = threading.Barrier(4)

    def relay() -> None:
        mine = DueStubs(engine, RelayConfig(batch_max=7))
        start.wait()
        while found := mine.claim():
            claimed.extend(each.message_id for each in found)

    with ThreadPoolExecutor() as threads:
        for ended in [threads.submit(relay) for _ in range(4)]:
            ended.result()
    assert sorted(claimed) == sorted(ids)


def test_a_claim_waits_for_no_row_that_another_holds(engine, due):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole file")
    place_orders(engine, "1", "2")
    with engine.begin() as other:
        other.execute(text("UPDATE regulus_stub SET version = 2 WHERE message_id = '1'"))
        assert [claimed.message_id for claimed in due.claim()] == ["2"]


def test_positions_are_those_of_the_latest_send(engine, due):
    place_orders(engine, "1")
    set_stub(engine, "1", send_count=2, last_error="before")
    due.store([Position("1", 2, "broker-a", 3, 70)])
    due.store([Position("1", 1, "broker-b", 9, 10)])    # of a send that took longer than its interval
    row = stub(engine, "1")
    assert (row.broker_name, row.queue_id, row.queue_offset, row.last_error) == ("broker-a", 3, 70, None)


@pytest.mark.parametrize("answer", [Position("1", 1, "broker-b", 9, 10), Failure("1", 1, "no broker")])
def test_a_send_under_way_when_a_human_has_it_sent_again_says_nothing_of_the_other(engine, due, answer):
    """Its answer comes behind that of the other, which has the same count."""
    place_orders(engine, "1")
    first = due.claim()[0].first_send_time
    set_stub(engine, "1", first_send_time=first - 5)        # some milliseconds ago
    with engine.begin() as connection:
        operator.retry(connection, "1", operator="ann", reason="again")
    [claimed] = due.claim()
    due.store([Position("1", 1, "broker-a", 3, 70, claimed.first_send_time)])
    due.store([answer._replace(first_send_time=first - 5)])
    row = stub(engine, "1")
    assert (row.send_count, row.broker_name, row.queue_id, row.queue_offset) == (1, "broker-a", 3, 70)
    assert row.last_error is None
    due.give_back([claimed._replace(first_send_time=first - 5)])
    assert stub(engine, "1").send_count == 1


def test_the_place_of_a_stub_whose_first_send_is_not_known_is_written_down(engine, due):
    place_orders(engine, "1")
    set_stub(engine, "1", send_count=2, first_send_time=None)
    due.store([Position("1", 2, "broker-a", 3, 70, 5)])
    assert stub(engine, "1").queue_offset == 70


def test_the_place_of_what_is_delayed_is_that_of_its_claim(engine, due):
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox().add(connection, Message("orders", b"1", properties={"TIMER_DELAY_SEC": "3600"}), message_id="1")
    [claimed] = due.claim()
    assert claimed.first_send_time == stub(engine, "1").first_send_time
    due.store([Position("1", 1, "broker-a", 3, None, claimed.first_send_time)])
    assert stub(engine, "1").broker_name == "broker-a"


def test_a_failure_is_told_and_leaves_count_and_position(engine, due):
    place_orders(engine, "1")
    set_stub(engine, "1", send_count=2, broker_name="broker-a", queue_id=3, queue_offset=70, resend_time=5)
    due.store([Failure("1", 2, "no broker" * 100)])
    row = stub(engine, "1")
    assert (row.broker_name, row.queue_id, row.queue_offset, row.resend_time) == ("broker-a", 3, 70, 5)
    assert row.last_error == ("no broker" * 100)[:500]


def test_a_failure_of_an_earlier_send_says_nothing_of_the_latest(engine, due):
    place_orders(engine, "1")
    set_stub(engine, "1", send_count=2)
    due.store([Failure("1", 1, "no broker")])
    assert stub(engine, "1").last_error is None


def test_positions_wait_for_no_effect_that_is_being_applied(engine, due):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole file")
    place_orders(engine, "1", "2")
    due.claim()
    with engine.begin() as effect:
        assert judges.confirm(effect, "1", "billing")
        due.store([Position("1", 1, "a", 0, 7), Position("2", 1, "a", 0, 8)])
    assert (stub(engine, "1").queue_offset, stub(engine, "2").queue_offset) == (None, 8)


def test_failures_wait_for_no_effect_that_is_being_applied(engine, due):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole file")
    place_orders(engine, "1", "2")
    due.claim()
    with engine.begin() as effect:
        assert judges.confirm(effect, "1", "billing")
        due.store([Failure("1", 1, "no broker"), Failure("2", 1, "no broker")])
    assert (stub(engine, "1").last_error, stub(engine, "2").last_error) == (None, "no broker")
    assert rows(engine, attempts, "message_id", "outcome") == [("1", "FAILED"), ("2", "FAILED")]


@pytest.fixture
def locked(engine, due):
    """The stub `1` is claimed, another transaction has its row, and its place could not be written down."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole file")
    place_orders(engine, "1")
    due.claim()
    with engine.connect() as other, other.begin() as transaction:
        other.execute(text("SELECT 1 FROM regulus_stub WHERE message_id = '1' FOR UPDATE"))
        due.store([Position("1", 1, "broker-a", 3, 7)])
        yield transaction


def test_a_place_that_had_to_wait_is_written_down_later(engine, due, locked):
    """Another relay locks the newest version of a row, before it sees that it is none of its own."""
    due.review()
    assert stub(engine, "1").queue_offset is None
    locked.rollback()
    due.review()
    assert (stub(engine, "1").queue_offset, due._unplaced) == (7, deque())
    assert rows(engine, attempts, "message_id", "queue_offset") == [("1", 7)]


def test_a_place_that_waits_for_long_is_given_up(due, locked):
    for _ in range(PLACE_TRIES_MAX):
        due.review()
    assert due._unplaced == deque()


def test_places_that_cannot_be_written_keep_no_stub_from_being_claimed_and_are_tried_again(engine, due, locked,
                                                                                          monkeypatch):
    def broken(connection, positions):
        raise OSError("the statement was ended")

    place = outbox_table.place
    monkeypatch.setattr(outbox_table, "place", broken)
    place_orders(engine, "2")
    assert [each.message_id for each in due.claim()] == ["2"]
    with pytest.raises(OSError, match="was ended"):
        due.review()
    monkeypatch.setattr(outbox_table, "place", place)
    locked.rollback()
    due.review()
    assert stub(engine, "1").queue_offset == 7


@pytest.mark.parametrize("count", [1, 3])
def test_a_claim_that_is_given_back_counts_nothing_and_is_due_at_once(engine, due, count):
    place_orders(engine, "1", "2")
    for message_id in "12":
        set_stub(engine, message_id, send_count=count - 1, resend_time=0,
                 first_send_time=stub(engine, message_id).create_time if count > 1 else None)
    before = stub(engine, "1")
    claimed = due.claim() if count == 1 else due.review().claimed
    set_stub(engine, "2", send_count=count + 1)     # somebody claimed it anew
    due.give_back(claimed)
    row = stub(engine, "1")
    assert (row.send_count, row.first_send_time) == (count - 1, before.first_send_time)
    assert stub(engine, "2").send_count == count + 1
    again = due.claim() if count == 1 else due.review().claimed
    assert [(each.message_id, each.send_count) for each in again] == [("1", count)]


def test_a_transaction_that_the_database_ends_for_another_s_sake_is_made_again(engine, due, monkeypatch):
    claim, tried = outbox_table.claim, []

    def conflicting(*arguments):
        tried.append(arguments)
        if len(tried) < 3:
            raise DBAPIError("UPDATE", {}, psycopg.errors.SerializationFailure())
        return claim(*arguments)

    monkeypatch.setattr(outbox_table, "claim", conflicting)
    place_orders(engine, "1")
    assert [each.send_count for each in due.claim()] == [1]
    assert len(tried) == 3


def test_relays_choose_their_isolation_whatever_the_default_is(engine):
    """Under another, PostgreSQL ends transactions of relays for one another's sake; MariaDB those of the business."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one level")
    strict = create_engine(engine.url, isolation_level="SERIALIZABLE")
    with DueStubs(strict, RelayConfig())._engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
    with strict.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
    strict.dispose()


@pytest.mark.parametrize("level", ["read committed", "serializable"])
def test_no_effect_is_later_under_serializable(engine, monkeypatch, level):
    """Counted in transactions: three relays make as many for the same stubs, none is ended for another's sake, and the
    business's are at the level that it chose."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one level")
    ended = []
    monkeypatch.setattr("regulus.reliability.background.is_conflict", ended.append)
    default = level.replace(" ", "\\ ")
    strict = create_engine(engine.url, connect_args={"options": f"-c default_transaction_isolation={default}"})
    ids = [f"order-{number}" for number in range(300)]
    place_orders(strict, *ids)
    start, claimed = threading.Barrier(3), []

    def relay(first: int) -> None:
        mine = DueStubs(strict, RelayConfig(batch_max=10))
        start.wait()
        for number in range(first, 300, 30):
            place_orders(strict, f"later-{number}")
            found = mine.claim() + mine.review().claimed
            mine.store([Position(each.message_id, 1, "broker-a", 0, 7, each.first_send_time) for each in found])
            claimed.extend(each.message_id for each in found)
        while found := mine.claim():
            claimed.extend(each.message_id for each in found)

    with ThreadPoolExecutor() as threads:
        for each in [threads.submit(relay, first) for first in (0, 10, 20)]:
            each.result()
    with strict.connect() as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == level
    strict.dispose()
    assert ended == []
    assert sorted(claimed) == sorted([*ids, *(f"later-{number}" for number in range(0, 300, 10))])


def test_what_was_sent_as_often_as_may_be_is_left_to_a_human_once(engine):
    place_orders(engine, "1", "2", "3")
    due = DueStubs(engine, RelayConfig(policy=ResendPolicy(attempts_max=1)))
    due.claim()
    assert due.review().stubs == 0      # the last send has its interval, too
    set_stub(engine, "1", resend_time=0)
    set_stub(engine, "2", resend_time=0, status="CONFIRMED")
    assert due.review().left_to_human == ["1"]
    assert due.review().left_to_human == []
    row = stub(engine, "1")
    assert (row.is_manual, row.status, row.send_count) == (True, "UNCONFIRMED", 1)


@pytest.mark.parametrize("values", [{"batch_max": 0}, {"batch_max": 10_001}, {"poll_interval_ms": 0}])
def test_what_makes_no_sense_is_refused_by_name(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        RelayConfig(**values)


def claimed(message_id: str, topic: str = "orders", size: int = 1, **properties: str) -> Claimed:
    return Claimed(message_id, 1, Message(topic, b"x" * size, properties=properties), 7)


def test_one_topic_travels_together_and_what_is_delayed_alone():
    stubs = [claimed("1"), claimed("2", "bills"), claimed("3", DELAY="3"), claimed("4"), claimed("5", WAIT="false")]
    assert sorted([stub.message_id for stub in batch] for batch in batches(stubs)) == [["1", "4"], ["2"], ["3"], ["5"]]


def test_a_request_has_a_largest_size():
    half = BATCH_SIZE_MAX // 2 - 100
    stubs = [claimed(str(number), size=size) for number, size in enumerate([half, half, half, 3 * half, 1])]
    assert [[stub.message_id for stub in batch] for batch in batches(stubs)] == [["0", "1"], ["2"], ["3"], ["4"]]


@pytest.mark.parametrize(("count", "index"), [(stubs.c.send_count == outbox_table._NEVER, "regulus_stub_new"),
                                              (stubs.c.send_count > outbox_table._NEVER, "regulus_stub_due")])
def test_what_is_new_and_what_was_sent_do_not_lie_before_each_other(engine, count, index):
    """Each has an index that holds none of the others."""
    due = outbox_table._free(count).limit(10).compile(engine, compile_kwargs={"literal_binds": True})
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan TO off"))
            connection.execute(text("SET LOCAL enable_bitmapscan TO off"))
        explain = "EXPLAIN" if engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
        plan = "\n".join(str(row) for row in connection.execute(text(f"{explain} {due}")))
    assert index in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_what_a_broker_answers_costs_no_other_message_its_place(engine, odd):
    """No database stores any text."""
    place_orders(engine, "1", "2")
    due = DueStubs(engine, RelayConfig())
    due.claim()
    due.store([Position("1", 1, "broker-a", 3, 70), Failure("2", 1, f"no {odd} room")])
    assert stub(engine, "1").queue_offset == 70
    assert stub(engine, "2").last_error in ("no \ufffd room", "no ? room")
