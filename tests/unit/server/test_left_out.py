"""On a store that RocketMQ 5.5.1 kept partly in RocksDB: 3 halves of which one was committed, 6 timers of 20 hours and
one that came, and 4 queues consumed to their ends."""

import logging
import shutil
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.errors import StoreNewer
from regulus.model.topics import ROCKSDB_HALF_TOPIC, TIMER_TOPIC
from regulus.server import left_out as room
from regulus.server.assembly import BrokerServer
from regulus.transport.config import TransportConfig
from tests.stores import fill, open_store, small_config
from tests.unit.store.rocksdb_store import ONE_RUN, SIZES, STORE

BEFORE_THEY_ARE_DUE = 1_795_990_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(STORE, tmp_path / "store")
    return tmp_path / "store"


def a_broker(root: Path, **settings: object) -> BrokerServer:
    return BrokerServer(BrokerConfig(listen_port=0, ha_listen_port=0), small_config(root, **SIZES, **settings),
                        transport_config=TransportConfig(bind_address="127.0.0.1"),
                        clock=lambda: BEFORE_THEY_ARE_DUE)


async def told_at_start(root: Path, caplog: pytest.LogCaptureFixture) -> str:
    server = a_broker(root, take_what_is_readable=True)
    await server.start()
    await server.stop()
    [record] = [record for record in caplog.records if "takeWhatIsReadable" in record.getMessage()]
    assert record.levelno == logging.WARNING
    return record.getMessage()


async def test_without_the_switch_no_broker_starts(root: Path) -> None:
    with pytest.raises(StoreNewer, match=r"RocketMQ 5\.5 has kept parts of this store"):
        await a_broker(root).start()


async def test_the_log_counts_what_is_left_out(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = await told_at_start(root, caplog)
    assert "2 open half messages that are never asked for" in told
    assert "6 timers that never come" in told
    assert "0 timers that are due and come now" in told
    assert "4 queues in which a group is set back" in told


async def test_after_one_run_the_timer_that_came_is_due_again(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copy(ONE_RUN, root / "config/timercheck")
    told = await told_at_start(root, caplog)
    assert "0 timers that never come" in told
    assert "1 timers that are due and come now, whether they have come before or not" in told


async def test_not_more_than_a_limit_is_looked_at(root: Path, caplog: pytest.LogCaptureFixture,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOOKED_AT_MAX", 3)
    told = await told_at_start(root, caplog)
    assert "2 timers that never come" in told
    assert "(of the first 3 messages of each topic)" in told


@pytest.mark.parametrize("topic", [TIMER_TOPIC, ROCKSDB_HALF_TOPIC])
@pytest.mark.parametrize(("place", "damage"), [(0, bytes(4)), (100, b"\xff" * 100)], ids=["no record", "a broken one"])
async def test_what_is_damaged_is_not_counted_and_the_start_goes_on(root: Path, topic: str, place: int, damage: bytes,
                                                                   caplog: pytest.LogCaptureFixture) -> None:
    """In a file of the log that is older than those that a start after a clean stop reads."""
    store = open_store(root, take_what_is_readable=True, **SIZES)
    fill(store, 300)
    [unit] = store.queue_units(topic, 0, 0, 1)
    store.close()
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(unit.physical_offset + place)
        file.write(damage)
    told = await told_at_start(root, caplog)
    assert "4 queues in which a group is set back" in told
    assert ("cannot be counted" in told) == (place > 0)


async def test_where_nothing_is_left_out_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = a_broker(tmp_path, take_what_is_readable=True)
    await server.start()
    await server.stop()
    assert "takeWhatIsReadable" not in caplog.text
