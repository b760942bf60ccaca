"""`regulus proxy`: runs the proxy for RocketMQ 5 clients as a process of its own, in front of brokers elsewhere."""

import os
from dataclasses import replace
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
from regulus.errors import ConfigError
from regulus.model.metrics_config import MetricsConfig
from regulus.proxy.config import ProxyConfig
from regulus.transport.config import TransportConfig

IDLE = dict.fromkeys(("idle_time_max_ms", "write_buffer_high", "write_buffer_low", "write_buffer_max",
                      "large_frames_size_max", "unfinished_size_max", "frame_time_max_ms", "close_wait_max_ms",
                      "tls_ha_enable"), "regulus broker")
"""Settings of remoting ports, which have no effect here, with the command that uses them. ProxyConfig has those of a
gRPC port."""


@click.command()
@config_option
@click.option("-n", "--namesrv", "namesrv_addr", metavar="HOST:PORT;...",
              help="Name servers; else namesrvAddr of the file, else the environment's NAMESRV_ADDR.")
@click.option("--port", type=PORT, help="Port to listen at; 0 takes a free one [8081].")
@listen_option("0.0.0.0")
@log_options
def proxy(config_path: Path | None, namesrv_addr: str | None, port: int | None, bind_address: str | None,
          log_level: str, log_format: str) -> None:
    """Speak gRPC with RocketMQ 5 clients, and remoting with brokers, until SIGTERM or Ctrl-C."""
    loaded = load_configs(config_path, {
        "grpcServerPort": None if port is None else str(port), "bindAddress": bind_address,
        "namesrvAddr": namesrv_addr,
    }, ProxyConfig(namesrv_addr=os.environ.get("NAMESRV_ADDR", "")), TransportConfig(), MetricsConfig(), idle=IDLE)
    config, transport_config, metrics_config = loaded.configs
    if not config.namesrv_addr:
        raise ConfigError("no name server is named: give --namesrv host:port, or namesrvAddr in the file, or "
                          "NAMESRV_ADDR in the environment")
    config = replace(config, broker_tls=transport_config)
    try:
        from regulus.proxy.standalone import standalone
    except ImportError as error:
        raise ConfigError("gRPC is not installed: pip install 'regulus-mq[grpc]'") from error
    run_server(lambda: standalone(config, transport_config, metrics_config),
               lambda server: f"regulus proxy is ready: {config.bind_address}:{server.port}, "
                              f"name servers {config.namesrv_addr}", log_level, log_format, loaded.warning,
               open_warning(config.bind_address, config.guard))
