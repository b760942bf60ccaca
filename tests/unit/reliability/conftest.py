"""Each test with SQLite, and with a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from regulus.reliability import tables
from tests.unit.pipeline import postgresql

from .shop import shop


@pytest.fixture(scope="module")
def postgresql_address() -> Iterator[str]:
    with postgresql.running() as address:
        yield address.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Of a database with empty tables."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'shop.sqlite'}"
    else:
        address = request.getfixturevalue("postgresql_address")
    engine = create_engine(address)
    with engine.begin() as connection:
        shop.drop_all(connection)
        tables.metadata.drop_all(connection)
        tables.create(connection)
        shop.create_all(connection)
    yield engine
    engine.dispose()
