from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from regulus.reliability import tables
from tests.unit.reliability.shop import shop


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.sqlite'}")
    with engine.begin() as connection:
        tables.create(connection)
        shop.create_all(connection)
    yield engine
    engine.dispose()
