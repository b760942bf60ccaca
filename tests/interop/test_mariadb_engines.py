"""Tables in an engine of MariaDB that has no transactions: none are made so, and those that are there are told."""

from collections.abc import Callable, Iterator

import mariadb
import pytest
from sqlalchemy import Connection, Engine, Table, create_engine
from tests.unit.reliability.shop import book, place_orders, shop

from regulus.errors import ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability import migrations, tables
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay import DueStubs, RelayConfig


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mariadb.running("never-used") as server:
        yield f"mysql+pymysql://root@127.0.0.1:{server.port}/shop?charset=utf8mb4"


@pytest.fixture
def engine(address: str) -> Iterator[Engine]:
    engine = create_engine(address)
    with engine.begin() as connection:
        for metadata in (shop, tables.metadata):
            metadata.drop_all(connection)
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {migrations.VERSION_TABLE}")
        shop.create_all(connection)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("make", [tables.create, migrations.upgrade], ids=["create", "migrate"])
def test_tables_are_made_with_transactions_whatever_the_servers_default(engine: Engine,
                                                                        make: Callable[[Connection], object]) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("SET default_storage_engine = MyISAM")
        make(connection)
        connection.exec_driver_sql("SET default_storage_engine = InnoDB")
        engines = connection.exec_driver_sql(
            "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'shop' AND table_name LIKE "
            "'regulus%%' AND table_name <> 'regulus_version'").scalars().all()
    assert engines == ["InnoDB"]


@pytest.mark.parametrize(("table", "kept_by"), [(tables.stubs, "MyISAM"), (tables.stubs, "Aria"),
                                                (tables.message_log, "Aria")], ids=str)
def test_a_table_whose_engine_keeps_what_is_rolled_back_is_told(engine: Engine, table: Table, kept_by: str) -> None:
    with engine.begin() as connection:
        tables.create(connection)
    place_orders(engine, "1")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ENGINE={kept_by}")
    refusal = f"the table {table.name} is kept by the engine {kept_by}, which has no transactions"
    for make in (tables.create, migrations.upgrade):
        with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=refusal):
            make(connection)
    with pytest.raises(ReliabilityRefused, match=refusal):
        ApplyOnce(engine, book).check()
    with pytest.raises(ReliabilityRefused, match=refusal):
        DueStubs(engine, RelayConfig()).check()
    if table is tables.stubs:
        with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=refusal):
            Outbox().add(connection, Message("orders", b"x"), message_id="2")
