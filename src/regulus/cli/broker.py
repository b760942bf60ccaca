"""`regulus broker`: runs a broker that registers with separate name servers."""

import os
from pathlib import Path
from typing import Any

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.options import PORT
from regulus.cli.serve import (
    config_option,
    listen_option,
    load_configs,
    log_options,
    open_warning,
    run_server,
    store_options,
    store_values,
)
from regulus.model.metrics_config import MetricsConfig
from regulus.server.assembly import BrokerServer
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig


@click.command()
@config_option
@click.option("-n", "--namesrv", "namesrv_addr", metavar="HOST:PORT;...",
              help="Name servers; else namesrvAddr of the file, else the environment's NAMESRV_ADDR.")
@click.option("--port", type=PORT, help="Port to listen at; 0 takes a free one [10911].")
@store_options
@listen_option("0.0.0.0")
@log_options
def broker(config_path: Path | None, namesrv_addr: str | None, port: int | None,
           bind_address: str | None, log_level: str, log_format: str, **store: Any) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    loaded = load_configs(config_path, {
        "listenPort": None if port is None else str(port), "bindAddress": bind_address, "namesrvAddr": namesrv_addr,
        **store_values(**store),
    }, BrokerConfig(namesrv_addr=os.environ.get("NAMESRV_ADDR", "")), MessageStoreConfig(), TransportConfig(),
        MetricsConfig())
    broker_config, store_config, transport_config, metrics_config = loaded.configs
    run_server(lambda: BrokerServer(broker_config, store_config, transport_config=transport_config,
                                    metrics_config=metrics_config),
               lambda server: f"regulus broker is ready: {transport_config.bind_address}:{server.port}, "
                              f"store {store_config.root.resolve()}", log_level, log_format, loaded.warning,
               open_warning(transport_config.bind_address, broker_config.guard))
