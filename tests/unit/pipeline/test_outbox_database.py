"""The address of an outbox, as Spark takes it."""

import pytest
from sqlalchemy import create_engine

from regulus.errors import JobRefused
from regulus.reliability import tables


def table_of(address: str, table=tables.stubs):
    from regulus.pipeline.outbox_database import OutboxDatabase

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


def test_tables_are_cut_by_a_number_that_each_row_has():
    options = {table.name: table_of("postgresql+psycopg://db/shop", table).options for table in
               (tables.stubs, tables.attempts, tables.message_log, tables.watermarks, tables.confirmations)}
    assert options == {"regulus_stub": {"partitionColumn": "create_time"},
                       "regulus_attempt": {"partitionColumn": "attempt_id"},
                       "regulus_message_log": {"partitionColumn": "receive_time"}, "regulus_watermark": {},
                       "regulus_confirmation": {}}


@pytest.mark.parametrize(("address", "says"), [
    ("sqlite://", "Spark reads a SQLite file by its path"), ("oracle://db/shop", "outboxes are kept in sqlite, "),
    ("postgresql+psycopg:///shop?host=/tmp", "Spark's driver goes to a host by TCP"),
    ("mysql+pymysql://db/shop?ssl_key=/k.pem", "ssl_key cannot be given here")])
def test_what_spark_does_not_reach_is_refused(address, says):
    from sqlalchemy import make_url

    from regulus.pipeline.outbox_database import OutboxDatabase

    class Anything:
        url = make_url(address)

    with pytest.raises(JobRefused, match=says):
        OutboxDatabase(Anything()).check()
