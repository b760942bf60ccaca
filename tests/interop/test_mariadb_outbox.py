"""Outbox, relay and apply once in a real MariaDB, which locks rows first because it has no `UPDATE ... RETURNING`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import mariadb
import pytest
from sqlalchemy import Engine, create_engine
from tests.unit.reliability.conftest import claims_address, own, setting, with_empty_tables
from tests.unit.reliability.deliveries import context, message, rows
from tests.unit.reliability.shop import book, booked, make_due, place_orders, stub

# What is shown of the other databases, of this one too: by its `engine`.
from tests.unit.reliability.test_alarm_loop import *  # noqa: F403
from tests.unit.reliability.test_alarms import *  # noqa: F403
from tests.unit.reliability.test_decision_table import *  # noqa: F403
from tests.unit.reliability.test_delivery_log import *  # noqa: F403
from tests.unit.reliability.test_effect_transaction import *  # noqa: F403
from tests.unit.reliability.test_effect_transaction import Unheard
from tests.unit.reliability.test_groups import *  # noqa: F403
from tests.unit.reliability.test_inbox import SUCCESS, deliver
from tests.unit.reliability.test_inbox_purge import *  # noqa: F403
from tests.unit.reliability.test_kills import *  # noqa: F403
from tests.unit.reliability.test_ledger import *  # noqa: F403
from tests.unit.reliability.test_migrations import *  # noqa: F403
from tests.unit.reliability.test_operator import *  # noqa: F403
from tests.unit.reliability.test_review import *  # noqa: F403
from tests.unit.reliability.test_settled import *  # noqa: F403
from tests.unit.reliability.test_shared_commits import *  # noqa: F403
from tests.unit.reliability.test_stub_purge import *  # noqa: F403
from tests.unit.reliability.test_windows import *  # noqa: F403

from regulus.errors import ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability import tables
from regulus.reliability.alarms import AlarmKind, close_alarm, open_alarms, raise_alarm
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_table import Position
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.reliability.settled import settled

__all__ = ["claims_address", "own", "setting"]

NEVER_USED = "tell-nobody"


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    with mariadb.running(NEVER_USED) as started:
        yield started


@pytest.fixture
def engine(server: mariadb.Server) -> Iterator[Engine]:
    yield from with_empty_tables(mariadb.engine_of(server))


def test_many_relays_claim_each_stub_once(engine: Engine) -> None:
    ids = [f"order-{number}" for number in range(200)]
    place_orders(engine, *ids)
    claimed: list[str] = []

    def relay() -> None:
        mine = DueStubs(engine, RelayConfig(batch_max=7))
        while found := mine.claim():
            claimed.extend(each.message_id for each in found)

    with ThreadPoolExecutor() as threads:
        for ended in [threads.submit(relay) for _ in range(3)]:
            ended.result()
    assert sorted(claimed) == sorted(ids)


def test_a_claim_counts_and_the_latest_place_is_kept(engine: Engine) -> None:
    place_orders(engine, "1")
    due = DueStubs(engine, RelayConfig())
    assert len(due.claim()) == 1
    make_due(engine)
    assert len(due.review().claimed) == 1
    due.store([Position("1", 2, "broker-a", 3, 70), Position("1", 1, "broker-b", 9, 10)])
    row = stub(engine, "1")
    assert (row.send_count, row.broker_name, row.queue_id, row.queue_offset) == (2, "broker-a", 3, 70)
    assert 119_000 <= row.resend_time - row.create_time <= 150_000


def test_a_table_that_is_gone_is_named(engine: Engine) -> None:
    outbox = Outbox(groups=["billing"])
    for table in (tables.confirmations, tables.stubs):
        with engine.begin() as connection:
            tables.create(connection)
            outbox.add(connection, Message("orders", b"x"), message_id=table.name)
        table.drop(engine)
        with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=f"no table {table.name}; make it"):
            outbox.add(connection, Message("orders", b"x"))


def test_an_effect_is_applied_once(engine: Engine) -> None:
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    listener.check()
    assert [deliver(listener, "1")[0] for _ in range(2)] == [SUCCESS, SUCCESS]
    assert booked(engine) == ["1"]


def test_large_and_small_letters_are_two_ids(engine: Engine) -> None:
    with engine.begin() as connection:
        for message_id in ("a", "A"):
            Outbox().add(connection, Message("orders", b"x" * 100_000), message_id=message_id)
    assert len(stub(engine, "a").body) == 100_000


def test_names_that_differ_in_their_letters_are_two(engine: Engine) -> None:
    listener = ApplyOnce(engine, book, confirms=Unheard())
    for group in ("billing", "Billing"):
        assert listener([message("1")], context(group)) is SUCCESS
    assert booked(engine) == ["1", "1"]
    assert rows(engine, tables.watermarks, "consumer_group") == [("Billing",), ("billing",)]
    with engine.begin() as connection:
        for message_id in ("a", "A"):
            raise_alarm(connection, AlarmKind.MANUAL, message_id, "why")
        close_alarm(connection, AlarmKind.MANUAL, "a")
        assert [alarm.subject for alarm in open_alarms(connection, 9)] == ["A"]


def test_a_connection_that_commits_each_statement_is_refused(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, \
            pytest.raises(ReliabilityRefused, match="commits each statement by itself"):
        Outbox().add(connection, Message("orders", b"x"))


def test_what_a_user_without_process_may_not_see_is_said(server: mariadb.Server, engine: Engine) -> None:
    auditing = create_engine(f"mysql+pymysql://{mariadb.USER}:{NEVER_USED}@127.0.0.1:{server.port}/shop")
    with auditing.connect() as connection:
        assert settled(connection, tables.stubs).unseen == (
            "the transactions of others: GRANT PROCESS ON *.* TO this user shows them")
    auditing.dispose()
