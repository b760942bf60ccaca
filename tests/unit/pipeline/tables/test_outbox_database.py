"""The address of an outbox, as Spark takes it."""

import pytest
from sqlalchemy import case, create_engine, func, update

from regulus.errors import JobRefused
from regulus.model.message import Message
from regulus.reliability import tables
from regulus.reliability.outbox import Outbox
from tests.unit.pipeline import postgresql


def table_of(address: str, table=tables.stubs):
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    return OutboxDatabase(create_engine(address))._table(table)


@pytest.mark.parametrize(("address", "kind", "place", "password"), [
    ("postgresql+psycopg://ann:s%40cret@db:5433/shop?sslmode=require", "postgresql",
     "postgresql://ann@db:5433/shop?sslmode=require", "s@cret"),
    ("postgresql+psycopg://a%20b@db/shop", "postgresql", "postgresql://a%20b@db/shop", None),
    ("mysql+pymysql://ann:secret@db/shop?charset=utf8mb4&ssl_ca=/ca.pem", "mysql",
     "mysql://ann@db/shop?ssl_ca=%2Fca.pem", "secret"),
    ("mariadb+pymysql://db/shop", "mariadb", "mariadb://db/shop", None),
    ("sqlite:////var/shop.sqlite", "sqlite", "/var/shop.sqlite", None)])
def test_an_address_without_its_password(address, kind, place, password):
    table = table_of(address)
    assert (table.kind, table.place, table.password) == (kind, place, password)
    assert "s@cret" not in repr(table)
    if kind != "sqlite":
        assert table.jdbc()._login().get("password") == password
        assert "s@cret" not in repr(table.jdbc())


@pytest.fixture(scope="module")
def database():
    """With stubs, receipts and rows of groups, few of them long ago, many at one moment; a part is of two rows."""
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    with postgresql.running() as address:
        engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            tables.create(connection)
            for number in range(40):
                Outbox(groups=["billing"]).add(connection, Message("orders", b"x"), message_id=f"{ODD}{number:02}")
            its_id = tables.stubs.c.message_id
            connection.execute(update(tables.stubs).values(create_time=case(
                (its_id == f"{ODD}00", 5), (its_id < f"{ODD}30", 1 << 50),
                else_=(1 << 51) + func.ascii(func.right(its_id, 1)))))
        yield OutboxDatabase(engine)
        engine.dispose()


ODD = "it's-100%%\\-"
"""What SQL takes for something else."""


def in_parts(database, table, monkeypatch):
    """How many rows each part has, and that each row is in one."""
    from regulus.pipeline.tables import outbox_database

    monkeypatch.setattr(outbox_database, "PART_ROWS", 2)
    with database.engine.connect() as connection:
        found = [connection.exec_driver_sql(f"SELECT message_id FROM {table.name} WHERE {part.replace('%', '%%')}", ())
                 .scalars().all() for part in database.parts(table)]
    ids = [each for part in found for each in part]
    assert (len(ids), len(set(ids))) == (40, 40)
    return [len(part) for part in found]


def test_a_table_is_cut_into_parts_of_as_many_rows(database, monkeypatch):
    assert in_parts(database, tables.confirmations, monkeypatch) == [5] * 8


def test_of_many_rows_of_one_moment_one_part_is_large_and_no_row_is_read_twice(database, monkeypatch):
    assert in_parts(database, tables.stubs, monkeypatch) == [1, 29, 5, 5]


def test_what_has_few_rows_is_read_in_one_piece(database):
    assert [database.parts(table) for table in (tables.stubs, tables.confirmations, tables.watermarks)] == [()] * 3


@pytest.mark.spark
@pytest.mark.jobs
def test_spark_reads_each_row_once_in_these_parts(spark, database, monkeypatch):
    from pyspark.sql import functions as F

    from regulus.pipeline.tables import outbox_database

    monkeypatch.setattr(outbox_database, "PART_ROWS", 2)
    frame = database.read(spark, tables.confirmations, ("message_id", "status"), "status = 'UNCONFIRMED'")
    counts = frame.groupBy(F.spark_partition_id().alias("part")).count().orderBy("part").collect()
    assert [row["count"] for row in counts] == [5] * 8
    assert frame.select("message_id").distinct().count() == 40


@pytest.mark.parametrize(("address", "says"), [
    ("sqlite://", "Spark reads a SQLite file by its path"), ("oracle://db/shop", "outboxes are kept in sqlite, "),
    ("postgresql+psycopg:///shop?host=/tmp", "Spark's driver goes to a host by TCP"),
    ("mysql+pymysql://db/shop?ssl_key=/k.pem", "ssl_key cannot be given here")])
def test_what_spark_does_not_reach_is_refused(address, says):
    from sqlalchemy import make_url

    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    class Anything:
        url = make_url(address)

    with pytest.raises(JobRefused, match=says):
        OutboxDatabase(Anything()).check()
