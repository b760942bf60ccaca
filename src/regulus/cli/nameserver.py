"""`regulus nameserver`: runs a name server."""

from pathlib import Path

import click

from regulus.cli.options import PORT
from regulus.cli.serve import (
    config_option,
    listen_option,
    load_configs,
    log_options,
    open_warning,
    run_server,
)
from regulus.model.metrics_config import MetricsConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server.name_server import NameServer
from regulus.transport.config import TransportConfig


@click.command()
@config_option
@click.option("--port", type=PORT, help="Port to listen at; 0 takes a free one [9876].")
@click.option("--kv-config", "kv_config_path", metavar="FILE", help="Where the key-value configuration is kept "
              "[~/namesrv/kvConfig.json].")
@listen_option("0.0.0.0")
@log_options
def nameserver(config_path: Path | None, port: int | None, kv_config_path: str | None, bind_address: str | None,
               log_level: str, log_format: str) -> None:
    """Run a name server until SIGTERM or Ctrl-C."""
    loaded = load_configs(config_path, {
        "listenPort": None if port is None else str(port), "kvConfigPath": kv_config_path, "bindAddress": bind_address,
    }, NamesrvConfig(kv_config_path="~/namesrv/kvConfig.json"), TransportConfig(), MetricsConfig())
    config, transport_config, metrics_config = loaded.configs
    run_server(lambda: NameServer(config, transport_config, metrics_config=metrics_config),
               lambda server: f"regulus name server is ready: "
               f"{config.bind_address}:{server.port}", log_level, log_format, loaded.warning,
               open_warning(config.bind_address, "aclEnable" if config.acl_enable else ""))
