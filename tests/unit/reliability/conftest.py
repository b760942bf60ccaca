"""Each test with SQLite, and with a real PostgreSQL, which all tests of a run share."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from regulus.broker.config import BrokerConfig
from regulus.reliability import tables
from regulus.testing.running_server import ServerThread
from regulus.testing.simulation.playing import memory_disk
from tests.unit.pipeline import postgresql

from .shop import shop
from .worker import Setting


@pytest.fixture(scope="session")
def postgresql_address() -> Iterator[str]:
    with postgresql.running() as address:
        yield address.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Of a database with empty tables."""
    if request.param == "postgresql":
        yield from with_empty_tables(create_engine(request.getfixturevalue("postgresql_address")))
        return
    # A process that is killed loses nothing that it wrote, so no test needs a disk.
    with tempfile.TemporaryDirectory(prefix="regulus-", dir=memory_disk()) as home:
        yield from with_empty_tables(create_engine(f"sqlite:///{home}/shop.sqlite"))


def with_empty_tables(engine: Engine) -> Iterator[Engine]:
    """The same with empty tables."""
    with engine.begin() as connection:
        shop.drop_all(connection)
        tables.metadata.drop_all(connection)
        tables.create(connection)
        shop.create_all(connection)
    yield engine
    engine.dispose()


@pytest.fixture
def setting(engine: Engine) -> Iterator[Setting]:
    """Of a process with that database, and with a broker of its own: one queue a topic, and retries at once."""
    with tempfile.TemporaryDirectory(prefix="regulus-", dir=memory_disk()) as home, ServerThread(
            Path(home, "store"), BrokerConfig(listen_port=0, default_topic_queue_nums=1,
                                              message_delay_level="100ms 100ms 100ms 100ms")) as server:
        yield Setting(database=engine.url.render_as_string(hide_password=False), name_server=server.name_server_address)


@pytest.fixture(params=["a file", "redis"])
def claims_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of claims that outlive a process."""
    if request.param == "a file":
        yield str(tmp_path / "claims")
        return
    pytest.importorskip("redis", reason="the package redis is not installed: pip install 'regulus-mq[redis]'")
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine; make interop brings one")
    from . import redis_server

    with redis_server.running() as server:
        yield f"redis://:{redis_server.PASSWORD}@127.0.0.1:{server.port}"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Engine]:
    """A database of the consumer's own, beside `engine`."""
    yield from with_empty_tables(create_engine(f"sqlite:///{tmp_path / 'own.sqlite'}"))
