"""`regulus store`: repairs the store of a stopped broker."""

from pathlib import Path

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.connection import Address
from regulus.cli.options import PORT, LocalPath
from regulus.cli.serve import config_option, load_configs
from regulus.errors import StoreNotWritable
from regulus.server.ha_client import HA_PORT_OFFSET
from regulus.server.master_log import MasterLog, find_parting_from
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.store.log_parting import RestingLog
from regulus.store.recovery import RecoveryReport
from regulus.store.wanted_cut import WantedCut, WantedCutFile
from regulus.transport import event_loop
from regulus.transport.config import TransportConfig
from regulus.transport.connector import split_address


@click.group()
def store() -> None:
    """Repair the store of a broker that is stopped."""


@store.command()
@click.argument("store_path", metavar="STORE", type=LocalPath(exists=True, file_okay=False))
@click.option("--master", required=True, type=Address(), metavar="HOST:PORT",
              help="The living master, at its address for clients.")
@click.option("--ha-port", type=PORT, help="The master's haListenPort [the one after its port].")
@config_option
@click.option("--dry-run", is_flag=True, help="Only say where the logs part and what would be cut.")
@click.option("-y", "--yes", is_flag=True, help="Cut without asking.")
def resync(store_path: Path, master: str, ha_port: int | None, config_path: Path | None, dry_run: bool,
           yes: bool) -> None:
    """Cut the log in STORE where it parts from the master's, so that its broker can be a slave.

    For an old master that comes back, whose log has messages that the new master never got. What is cut is kept in the
    folder `cut` of the store. Give the configuration of STORE's broker, because its file sizes count.
    """
    loaded = load_configs(config_path, {"storePathRootDir": str(store_path)}, BrokerConfig(), MessageStoreConfig(),
                          TransportConfig())
    broker_config, store_config, transport_config = loaded.configs
    if not _want_cut(store_config, transport_config, master, _ha_address(master, ha_port), is_dry_run=dry_run,
                     is_sure=yes):
        return
    message_store = FileMessageStore(store_config, broker_config)
    report = message_store.open()
    message_store.close()
    _tell(report)


def _ha_address(master: str, ha_port: int | None) -> str:
    host, port = split_address(master)
    number = ha_port or port + HA_PORT_OFFSET
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def _want_cut(config: MessageStoreConfig, transport_config: TransportConfig, master: str, ha_address: str, *,
              is_dry_run: bool, is_sure: bool) -> bool:
    """Find out what to cut, ask, and record the cut, which the next start of the store carries out; whether there is
    one. The store is locked meanwhile."""
    lock = disk.FileLock(config.root / "lock")
    try:
        log = RestingLog(config.commit_log_directory)
        begin = event_loop.run(_parting(MasterLog(master, ha_address, transport_config), log))
        if begin is None:
            click.echo("nothing is cut: the master has everything that is here, and its slave continues after it")
            return False
        tail = log.behind(begin)
        what = f"{tail.records} messages, {tail.end - begin} bytes from {begin} to {tail.end}"
        click.echo(f"the log here parts from the master's at {begin}: the master does not have {what}")
        if is_dry_run:
            click.echo("this was a dry run: nothing is cut")
            return False
        if not is_sure:
            click.confirm("Cut them, and keep them aside?", abort=True)
        WantedCutFile(config.root, config.commit_log_directory).save(WantedCut(
            begin=begin, end=tail.end, records=tail.records, reason=f"the master at {master} has another log"))
        return True
    finally:
        lock.release()


async def _parting(master_log: MasterLog, log: RestingLog) -> int | None:
    async with master_log:
        return await find_parting_from(master_log, log)


def _tell(report: RecoveryReport) -> None:
    if report.unfinished:
        raise StoreNotWritable(f"the log is cut, and this is not done yet: {report.unfinished}. The next start does it")
    kept = f"; they are kept in {report.kept_aside}" if report.kept_aside else ""
    click.echo(f"cut: the log ends at {report.kept_to} now{kept}. Start this broker as a slave")
