"""The archive beside a running broker: up to where it flushed, and the gate told."""

import pytest

from regulus.client import shared_loop, sync
from regulus.client.admin import Admin
from regulus.errors import OptionError
from regulus.model.message import Message
from regulus.pipeline.archive import run_archive
from regulus.pipeline.archive_config import ArchiveConfig
from regulus.pipeline.archive_gate import BrokerGate
from regulus.pipeline.range_tasks import LocalTasks
from tests.archives import archived_rows, nothing


def state_of(server):
    async def ask():
        async with Admin(server.name_server_address) as admin:
            return await admin.log_state(server.address)

    return shared_loop.run(ask())


def flushed(server):
    """The broker's state once all that it has is on disk."""
    while True:
        state = state_of(server)
        if state.flushed_physical_offset == state.max_physical_offset:
            return state


def send(server, count: int) -> None:
    with sync.Producer(server.name_server_address, "archive-test") as producer:
        for number in range(count):
            producer.send(Message("orders", b"body %d" % number))


def config_for(server, archive, **changes) -> ArchiveConfig:
    return ArchiveConfig(store_path=str(server.store_path), archive_path=str(archive),
                         name_server=server.name_server_address, **changes)


def test_a_running_broker_is_archived_to_where_it_flushed_and_told(regulus_server, tmp_path):
    send(regulus_server, 30)
    state = flushed(regulus_server)
    config = config_for(regulus_server, tmp_path / "archive", broker_name=state.broker_name)
    gate = BrokerGate(config)
    assert gate.flushed_offset == state.max_physical_offset
    report = run_archive(LocalTasks(), config, "run", gate, None, nothing)
    assert report.end == state.max_physical_offset
    assert len(archived_rows(tmp_path / "archive", topic="orders")) == 30
    assert state_of(regulus_server).archived_physical_offset == report.end
    send(regulus_server, 5)
    flushed(regulus_server)
    run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    assert len(archived_rows(tmp_path / "archive", topic="orders")) == 35
    state = state_of(regulus_server)
    assert state.archived_physical_offset == state.max_physical_offset


def test_a_gate_that_was_not_told_is_told_at_the_next_start(regulus_server, tmp_path):
    class Killed(BaseException):
        pass

    def step(name: str) -> None:
        if name == "gate":
            raise Killed

    send(regulus_server, 3)
    state = flushed(regulus_server)
    config = config_for(regulus_server, tmp_path / "archive", broker_name=state.broker_name)
    with pytest.raises(Killed):
        run_archive(LocalTasks(), config, "run", BrokerGate(config), None, step)
    assert state_of(regulus_server).archived_physical_offset == -1
    assert len(archived_rows(tmp_path / "archive", topic="orders")) == 3
    report = run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    assert report.rows == 0
    assert state_of(regulus_server).archived_physical_offset == state.max_physical_offset


def test_a_broker_that_is_not_there_is_named(regulus_server, tmp_path):
    with pytest.raises(OptionError, match="no master 'broker-x' is registered"):
        BrokerGate(config_for(regulus_server, tmp_path / "archive", broker_name="broker-x"))
