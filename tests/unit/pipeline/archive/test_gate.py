"""The archive beside a running broker: up to where it flushed, and the gate told."""

import shutil
from dataclasses import replace

import pytest

from regulus.client import shared_loop, sync
from regulus.client.administration.admin import Admin
from regulus.errors import ArchiveFailed, BrokerRefused, OptionError
from regulus.model.message import Message
from regulus.pipeline.archive import files as archive_files
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.gate import BrokerGate
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive import manifest as archive_manifest
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


def identity(archive) -> str:
    return archive_files.identity_of(archive)


def test_a_gate_that_is_on_stays_shut_for_an_archive_that_nobody_named(make_broker_process, tmp_path):
    """It may be the wrong place: then the log would be deleted, and the archive be nowhere. Nothing is written."""
    settings = tmp_path / "broker.conf"
    settings.write_text("archiveGate=on\n")
    server = make_broker_process("-c", str(settings), store=tmp_path / "store")
    send(server, 3)
    state = flushed(server)
    config = config_for(server, tmp_path / "archive", broker_name=state.broker_name)
    with pytest.raises(OptionError) as refused:
        run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    name = identity(tmp_path / "archive")
    assert str(refused.value) == (
        f"the archiveGate of {state.broker_name} trusts no archive, and this one is {name}: nothing was archived. If "
        f"this is the right archive, set archiveIdentity={name} on the broker; if it is another one besides, use "
        "--beside-the-gate")
    assert archive_manifest.load(tmp_path / "archive") == []
    with pytest.raises(BrokerRefused, match="archiveIdentity"), sync.Admin(server.name_server_address) as admin:
        admin.update_archived_offset(server.address, 0, name)
    server.stop()
    settings.write_text(f"archiveGate=on\narchiveIdentity={name}\n")
    again = make_broker_process("-c", str(settings), store=tmp_path / "store")
    config = config_for(again, tmp_path / "archive", broker_name=state.broker_name)
    report = run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    assert state_of(again).archived_physical_offset == report.end == state.max_physical_offset
    other = config_for(again, tmp_path / "other", broker_name=state.broker_name)
    with pytest.raises(OptionError, match=f"waits for the archive {name}, and this one is"):
        run_archive(LocalTasks(), other, "run", BrokerGate(other), None, nothing)
    send(again, 3)
    flushed(again)
    besides = replace(other, beside_the_gate=True)
    beside = run_archive(LocalTasks(), besides, "run", BrokerGate(besides), None, nothing)
    assert (beside.rows, beside.swept) == (6, 0), "a run that was refused left something"
    assert state_of(again).archived_physical_offset == report.end


def test_an_archive_keeps_its_identity(regulus_server, tmp_path):
    send(regulus_server, 3)
    state = flushed(regulus_server)
    config = config_for(regulus_server, tmp_path / "archive", broker_name=state.broker_name)
    names = set()
    for _ in range(2):
        run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
        names.add(identity(tmp_path / "archive"))
    assert len(names) == 1
    (tmp_path / "archive" / "_identity").write_text("prod\n")
    with pytest.raises(ArchiveFailed, match="_identity has no identity"):
        run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)


def test_an_archive_brought_back_from_a_backup_goes_on(regulus_server, tmp_path):
    """The broker knows a later offset; what the log still has is archived again."""
    archive = tmp_path / "archive"
    send(regulus_server, 5)
    state = flushed(regulus_server)
    config = config_for(regulus_server, archive, broker_name=state.broker_name)
    run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    shutil.copytree(archive, tmp_path / "backup")
    send(regulus_server, 5)
    flushed(regulus_server)
    run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    shutil.rmtree(archive)
    shutil.copytree(tmp_path / "backup", archive)
    run_archive(LocalTasks(), config, "run", BrokerGate(config), None, nothing)
    assert len(archived_rows(archive, topic="orders")) == 10


def test_an_archive_brought_back_from_a_backup_keeps_more_of_the_log(regulus_server):
    """What it has lost since is in the log alone."""
    with sync.Admin(regulus_server.name_server_address) as admin:
        send(regulus_server, 5)
        end = flushed(regulus_server).max_physical_offset
        admin.update_archived_offset(regulus_server.address, end, "a" * 32)
        admin.update_archived_offset(regulus_server.address, 100, "a" * 32)
    assert state_of(regulus_server).archived_physical_offset == 100
