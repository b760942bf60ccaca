"""`regulus job outbox` over the tables of a real MariaDB: what is shown of the other databases, of this one too."""

from collections.abc import Iterator

import mariadb
import pytest
from sqlalchemy import Engine, create_engine
from tests.unit.pipeline.jobs.test_outbox_reconcile import *  # noqa: F403
from tests.unit.pipeline.jobs.test_outbox_reconcile import lost
from tests.unit.reliability.shop import shop

from regulus.reliability import tables

__all__ = ["lost"]

PASSWORD = "tell-nobody"


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    with mariadb.running(PASSWORD) as started:
        yield started


@pytest.fixture
def engine(server: mariadb.Server) -> Iterator[Engine]:
    """With a password, which Spark's driver needs as well."""
    engine = create_engine(f"mysql+pymysql://{mariadb.USER}:{PASSWORD}@127.0.0.1:{server.port}/shop?charset=utf8mb4")
    with engine.begin() as connection:
        for metadata in (shop, tables.metadata):
            metadata.drop_all(connection)
            metadata.create_all(connection)
    yield engine
    engine.dispose()
