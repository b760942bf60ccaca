"""`regulus up`: runs a broker and a name server in one process."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.options import PORT
from regulus.cli.serve import (
    config_option,
    guarded,
    is_loopback,
    listen_option,
    load_configs,
    log_options,
    run_server,
    store_options,
    store_values,
)
from regulus.errors import ConfigError
from regulus.model.metrics_config import MetricsConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.server.assembly import Regulus
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig

if TYPE_CHECKING:
    from regulus.proxy.embedded import RegulusWithFront

LOOPBACK = "127.0.0.1"
DEFAULT_GRPC_PORT = 8081
GRPC_PORT = click.IntRange(-1, 65535)
_UNSAID = -2
IDLE = {"access_key": "regulus proxy", "secret_key": "regulus proxy", "namesrv_addr": "regulus broker or regulus proxy"}
"""Settings that have no effect on servers in one process, and the commands on which they have."""
_MEND = "gRPC is not installed: pip install 'regulus-mq[grpc]'"


@click.command()
@config_option
@click.option("--port", type=PORT, help="Port of the broker; 0 takes a free one [10911].")
@click.option("--namesrv-port", type=PORT, default=9876, show_default=True, help="Port of the name server.")
@click.option("--grpc-port", type=GRPC_PORT, help="Port for RocketMQ 5 clients; 0 takes a free one, -1 opens none "
              "[8081].")
@store_options
@listen_option(LOOPBACK)
@log_options
def up(config_path: Path | None, port: int | None, namesrv_port: int, grpc_port: int | None,
       bind_address: str | None, log_level: str, log_format: str, **store: Any) -> None:
    """Run a broker and a name server in one process, until SIGTERM or Ctrl-C.

    Only this machine reaches them, unless --listen says otherwise.
    """
    loaded = load_configs(config_path, {
        "listenPort": None if port is None else str(port), "bindAddress": bind_address,
        "grpcServerPort": None if grpc_port is None else str(grpc_port), **store_values(**store),
    }, BrokerConfig(), MessageStoreConfig(), TransportConfig(bind_address=LOOPBACK),
        ProxyConfig(bind_address=LOOPBACK, grpc_server_port=_UNSAID),
        TransportConfig(bind_address=LOOPBACK, tls_test_mode_enable=_can_make_up_a_certificate()), MetricsConfig(),
        idle=IDLE)
    broker_config, store_config, transport_config, proxy_config, made_up, metrics_config = loaded.configs
    namesrv_config = NamesrvConfig(listen_port=namesrv_port, bind_address=transport_config.bind_address,
                                   kv_config_path=str(store_config.root / "config" / "kvConfig.json"),
                                   acl_enable=broker_config.acl_enable, rocketmq_home=broker_config.rocketmq_home,
                                   inner_client_authentication_credentials=
                                   broker_config.inner_client_authentication_credentials)
    regulus = Regulus(broker_config, store_config, namesrv_config, transport_config=transport_config,
                      metrics_config=metrics_config)
    # Several clients of the gRPC port use TLS unless they are configured otherwise, and accept any certificate.
    of_front = made_up if is_loopback(transport_config.bind_address) else transport_config
    front, lack = _with_front(regulus, proxy_config, of_front)
    run_server(lambda: front or regulus,
               lambda server: "\n".join(filter(None, (
                   _ready_line(regulus, transport_config.bind_address, store_config, broker_config.guard),
                   _front_line(front, transport_config.bind_address, lack)))),
               log_level, log_format, loaded.warning)


def _can_make_up_a_certificate() -> bool:
    """Whether `cryptography` is installed, which comes with the extra `grpc`."""
    return find_spec("cryptography") is not None


def _with_front(regulus: Regulus, config: ProxyConfig,
                transport_config: TransportConfig) -> "tuple[RegulusWithFront | None, str]":
    """The servers with the proxy for RocketMQ 5 clients. Or None, with the reason unless it was switched off. Raises
    ConfigError when the proxy was requested and cannot run."""
    if config.grpc_server_port == -1:
        return None, ""
    is_wanted = config.grpc_server_port != _UNSAID
    try:
        from regulus.proxy.embedded import RegulusWithFront
    except ImportError as error:
        if error.name not in ("hpack", "google", "google.protobuf"):
            raise
        if is_wanted:
            raise ConfigError(f"grpcServerPort is set, and {_MEND}") from error
        return None, _MEND
    config = replace(config, grpc_server_port=config.grpc_server_port if is_wanted else DEFAULT_GRPC_PORT)
    return RegulusWithFront(regulus, config, transport_config, may_lack_front=not is_wanted), ""


def _front_line(front: "RegulusWithFront | None", host: str, lack: str) -> str:
    if front is None:
        return f"RocketMQ 5 clients have no port: {lack}" if lack else ""
    if front.missing:
        return f"RocketMQ 5 clients have no port: {front.missing}; choose another by --grpc-port"
    return f"RocketMQ 5 clients (gRPC): {_in_address(host)}:{front.front.port}"


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _ready_line(server: Regulus, host: str, store_config: MessageStoreConfig, guard: str) -> str:
    reach = guarded(host, guard) or (
        "only this machine reaches it; --listen 0.0.0.0 opens it to the network, where nothing guards it"
        if is_loopback(host) else f"anyone who can connect to {host} may read, send and delete: nothing guards it")
    place = _in_address(host)
    return (f"regulus is ready: broker {place}:{server.broker_server.port}, "
            f"name server {place}:{server.name_server.port}, store {store_config.root.resolve()}\n{reach}")
