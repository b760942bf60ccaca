"""`regulus up`: broker and name server in one process."""

from pathlib import Path

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.options import PORT
from regulus.cli.serve import (
    config_option,
    cut_option,
    flush_option,
    flush_values,
    guarded,
    is_loopback,
    listen_option,
    load_configs,
    log_format_option,
    log_level_option,
    run_server,
    store_option,
)
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig

LOOPBACK = "127.0.0.1"


@click.command()
@config_option
@click.option("--port", type=PORT, help="Port of the broker; 0 takes a free one [10911].")
@click.option("--namesrv-port", type=PORT, default=9876, show_default=True, help="Port of the name server.")
@store_option
@flush_option
@cut_option
@listen_option
@log_level_option
@log_format_option
def up(config_path: Path | None, port: int | None, namesrv_port: int, store_path: str | None, flush: str | None,
       cut_damaged_log: str | None, bind_address: str | None, log_level: str, log_format: str) -> None:
    """Run a broker and a name server in one process, until SIGTERM or Ctrl-C.

    Only this machine reaches them, unless --listen says otherwise.
    """
    loaded = load_configs(config_path, {
        "listenPort": None if port is None else str(port), "storePathRootDir": store_path,
        "flushDiskType": flush_values(flush), "cutDamagedLog": cut_damaged_log, "bindAddress": bind_address,
    }, BrokerConfig(), MessageStoreConfig(), TransportConfig(bind_address=LOOPBACK))
    broker_config, store_config, transport_config = loaded.configs
    namesrv_config = NamesrvConfig(listen_port=namesrv_port, bind_address=transport_config.bind_address,
                                   kv_config_path=str(store_config.root / "config" / "kvConfig.json"),
                                   acl_enable=broker_config.acl_enable, rocketmq_home=broker_config.rocketmq_home,
                                   inner_client_authentication_credentials=
                                   broker_config.inner_client_authentication_credentials)
    run_server(lambda: Regulus(broker_config, store_config, namesrv_config, transport_config=transport_config),
               lambda server: _ready_line(server, transport_config.bind_address, store_config,
                                          broker_config.guard), log_level, log_format, loaded.warning)


def _ready_line(server: Regulus, host: str, store_config: MessageStoreConfig, guard: str) -> str:
    reach = guarded(host, guard) or (
        "only this machine reaches it; --listen 0.0.0.0 opens it to the network, where nothing guards it"
        if is_loopback(host) else f"whoever reaches {host} may read, send and delete: nothing guards it")
    return (f"regulus is ready: broker {host}:{server.broker_server.port}, "
            f"name server {host}:{server.name_server.port}, store {store_config.root.resolve()}\n{reach}")
