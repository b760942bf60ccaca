"""An old master comes back as a slave: its log is cut where it parts from the new one's."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from regulus.cli.store import store
from regulus.errors import StoreLocked
from regulus.model.broker_role import BrokerRole
from regulus.server import ha_client
from regulus.server.assembly import BrokerServer
from tests.unit.server.test_replication import Group, is_copy, log_of, send_some
from tests.waiting import until

CONF = ("mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=500\nmaxIndexNum=2000\n"
        "brokerRole=SLAVE\nbrokerId=1\nnamesrvAddr=127.0.0.1:9876\n")


@pytest.fixture
async def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Group]:
    monkeypatch.setattr(ha_client, "RETRY_S", 0.05)
    async with AsyncExitStack() as stack:
        group = Group(tmp_path, stack)
        await group.name_server.start()
        yield group
        for server in tuple(group.running):
            await group.stop(server)
        await group.name_server.stop()


async def resync(group: Group, master: BrokerServer, *words: str, stdin: str = "") -> Result:
    (group.path / "slave.conf").write_text(CONF)
    return await asyncio.to_thread(
        CliRunner().invoke, store,
        ["resync", str(group.path / "slave1"), "--master", f"127.0.0.1:{master.port}", "--ha-port",
         str(master._replication.port), "-c", str(group.path / "slave.conf"), *words], input=stdin)


async def parted(group: Group, common: int = 30, ours: int = 7, theirs: int = 200) -> BrokerServer:
    """The new master runs; `slave1` is the folder of the old one, which has what nobody else has."""
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    await send_some(group, common)
    await group.stop(master)
    shutil.copytree(group.path / "master", group.path / "slave1")
    old = await group.start("slave1", BrokerRole.ASYNC_MASTER)
    await send_some(group, ours, 1000)
    await group.stop(old)
    new = await group.start("master", BrokerRole.ASYNC_MASTER)
    await send_some(group, theirs, 2000)
    return new


async def test_what_the_master_does_not_have_is_cut_and_kept(group: Group) -> None:
    new = await parted(group)
    before = log_of(group.path / "slave1")
    dry = await resync(group, new, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "the master does not have 7 messages, " in dry.output
    assert "this was a dry run: nothing is cut" in dry.output
    refused = await resync(group, new, stdin="n\n")
    assert refused.exit_code == 1
    assert log_of(group.path / "slave1") == before
    done = await resync(group, new, "--yes")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "cut: the log ends at " in done.output
    kept = b"".join([path.read_bytes() for path in (group.path / "slave1" / "cut").rglob("*") if path.is_file()])
    assert all(f"{number}....".encode() in kept for number in range(1000, 1007))
    slave = await group.start("slave1", BrokerRole.SLAVE)
    await until(lambda: is_copy(slave, new), "the slave has the whole log")
    await until(lambda: slave.store.copy.asked is None, "the slave goes on behind it")
    end = slave.store.commit_log_max_offset()
    for server in (new, slave):
        await group.stop(server)
    ours, theirs = [b"".join([data for _, data in log_of(group.path / name)])[:end] for name in ("slave1", "master")]
    assert ours == theirs


async def test_a_copy_is_left_alone(group: Group) -> None:
    new = await parted(group, ours=0)
    before = log_of(group.path / "slave1")
    result = await resync(group, new, "--yes")
    assert result.output == "nothing is cut: the master has everything that is here, and its slave continues after it\n"
    assert log_of(group.path / "slave1") == before


async def test_a_broker_that_runs_is_told(group: Group) -> None:
    master = await group.start("master", BrokerRole.ASYNC_MASTER)
    await send_some(group, 3)
    (group.path / "slave1").symlink_to(group.path / "master")
    result = await resync(group, master, "--yes")
    assert isinstance(result.exception, StoreLocked)


@pytest.mark.parametrize("words", [("--master", "nonsense"), ("--ha-port", "0x")])
async def test_wrong_addresses_are_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    result: Any = CliRunner().invoke(store, ["resync", str(tmp_path), "--master", "h:1", *words])
    assert result.exit_code == 2
