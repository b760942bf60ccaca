"""`regulus broker`: runs a broker that registers with separate name servers."""

import os
from pathlib import Path

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.options import PORT, renamed
from regulus.cli.serve import (
    config_option,
    cut_option,
    flush_option,
    flush_values,
    listen_option,
    load_configs,
    log_format_option,
    log_level_option,
    open_warning,
    run_server,
    store_option,
    take_option,
)
from regulus.model.metrics_config import MetricsConfig
from regulus.server.assembly import BrokerServer
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig


@click.command()
@config_option
@renamed("-n", "--namesrv", "namesrv_addr", old="--namesrv-addr", metavar="HOST:PORT;...",
         help="Name servers; else namesrvAddr of the file, else the environment's NAMESRV_ADDR.")
@click.option("--port", type=PORT, help="Port to listen at; 0 takes a free one [10911].")
@store_option
@flush_option
@cut_option
@take_option
@listen_option("0.0.0.0")
@log_level_option
@log_format_option
def broker(config_path: Path | None, namesrv_addr: str | None, port: int | None, store_path: str | None,
           flush: str | None, cut_damaged_log: str | None, take_what_is_readable: bool, bind_address: str | None,
           log_level: str, log_format: str) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    loaded = load_configs(config_path, {
        "listenPort": None if port is None else str(port), "storePathRootDir": store_path,
        "flushDiskType": flush_values(flush), "cutDamagedLog": cut_damaged_log,
        "takeWhatIsReadable": "true" if take_what_is_readable else None,
        "bindAddress": bind_address, "namesrvAddr": namesrv_addr,
    }, BrokerConfig(namesrv_addr=os.environ.get("NAMESRV_ADDR", "")), MessageStoreConfig(), TransportConfig(),
        MetricsConfig())
    broker_config, store_config, transport_config, metrics_config = loaded.configs
    run_server(lambda: BrokerServer(broker_config, store_config, transport_config=transport_config,
                                    metrics_config=metrics_config),
               lambda server: f"regulus broker is ready: {transport_config.bind_address}:{server.port}, "
                              f"store {store_config.root.resolve()}", log_level, log_format, loaded.warning,
               open_warning(transport_config.bind_address, broker_config.guard))
