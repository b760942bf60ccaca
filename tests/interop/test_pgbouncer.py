"""Outbox, relay, inbox and audit through a real PgBouncer in transaction mode."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pooler
import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import URL, Engine, create_engine
from tests.unit.reliability.conftest import claims_address, own, postgresql_address, setting, with_empty_tables
from tests.unit.reliability.consumed import FROM_FIRST
from tests.unit.reliability.shop import book, booked, count_stubs, place_orders

# What is shown of a database that is reached directly, of this one too: by its `engine`.
from tests.unit.reliability.test_delivery_log import *  # noqa: F403
from tests.unit.reliability.test_effect_transaction import *  # noqa: F403
from tests.unit.reliability.test_groups import *  # noqa: F403
from tests.unit.reliability.test_ledger import *  # noqa: F403
from tests.unit.reliability.test_ledger import audited
from tests.unit.reliability.test_operator import *  # noqa: F403
from tests.unit.reliability.test_review import *  # noqa: F403
from tests.unit.reliability.test_stub_purge import *  # noqa: F403
from tests.waiting import until

from regulus.cli.database import connected
from regulus.cli.exit_codes import ExitCode
from regulus.cli.main import regulus
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.relay import RelayConfig
from regulus.reliability.relay_loop import Relay

__all__ = ["claims_address", "own", "postgresql_address", "setting"]

ORDERS = 300


@pytest.fixture(scope="module")
def pooled(postgresql_address: str) -> Iterator[URL]:
    with pooler.running(postgresql_address) as address:
        yield address


@pytest.fixture
def engine(pooled: URL) -> Iterator[Engine]:
    yield from with_empty_tables(unprepared(pooled))


def unprepared(address: URL) -> Engine:
    return create_engine(address, connect_args={"prepare_threshold": None})


async def test_each_order_has_its_one_effect(engine: Engine, pooled: URL, regulus_server: object) -> None:
    """More threads than connections to the server, so that each sees several."""
    ids = [f"order-{number}" for number in range(ORDERS)]
    business, effects = unprepared(pooled), unprepared(pooled)
    address = regulus_server.name_server_address        # type: ignore[attr-defined]
    consumer = PushConsumer(address, "billing", ApplyOnce(effects, book), FROM_FIRST)
    consumer.subscribe("orders")
    relays = [Relay(engine, address, config=RelayConfig(batch_max=20, poll_interval_ms=50)) for _ in range(2)]
    with ThreadPoolExecutor(6) as threads:
        placing = [asyncio.wrap_future(threads.submit(place_orders, business, each)) for each in ids]
        async with relays[0], relays[1], consumer:
            await asyncio.gather(*placing)
            await until(lambda: count_stubs(engine, status="CONFIRMED") == ORDERS)
    assert booked(engine) == sorted(ids)
    found = audited(engine)
    assert (found.committed, found.applied, found.is_kept, found.unseen) == (ORDERS, ORDERS, True, [])
    for each in (business, effects):
        each.dispose()


def test_an_audit_is_held_back_by_a_transaction_that_is_open_behind_the_pooler(engine: Engine) -> None:
    from tests.unit.reliability.test_settled import held_back, place

    with engine.connect() as late:
        with late.begin():
            place(late, "late")
            first = held_back(engine)
        second = audited(engine, since=first.until_ms)
    assert (first.committed, second.committed, second.unseen) == (0, 1, [])


def test_with_prepared_statements_a_command_says_what_to_do(engine: Engine, pooled: URL) -> None:
    """Each of psycopg's connections counts its statements from nought, and others have used those names."""
    plain = pooled.set(drivername="postgresql").render_as_string(hide_password=False)
    database = pooled.render_as_string(hide_password=False)
    with ExitStack() as stack:
        # At once, so that each has another connection to the server.
        others = [stack.enter_context(psycopg.connect(plain, prepare_threshold=0))
                  for _ in range(pooler.SERVER_CONNECTIONS)]
        for each in (*others, *others):
            each.execute("SELECT 1")
        for each in others:
            each.commit()
        refused, taken = (CliRunner().invoke(regulus, ["outbox", "list", "--database",
                                                       f"{database}?prepare_threshold={threshold}"])
                          for threshold in ("0", "None"))
        for each in others:
            each.execute("DEALLOCATE ALL")
    assert refused.exit_code == ExitCode.REFUSED
    assert 'prepared statement "_pg3_0" already exists' in refused.output
    assert "as behind a pooler in transaction mode: add ?prepare_threshold=None to the address" in refused.output
    assert "password" not in refused.output
    assert taken.exit_code == 0, taken.output


def test_the_text_none_of_an_address_is_none(pooled: URL) -> None:
    with connected(f"{pooled.render_as_string(hide_password=False)}?prepare_threshold=None", has_tables=False) as found:
        assert found.connection.driver_connection.prepare_threshold is None      # type: ignore[union-attr]
