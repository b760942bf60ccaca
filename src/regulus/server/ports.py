"""The ports of a server: taking them, and listening on them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from socket import socket

from regulus.broker.config import BrokerConfig
from regulus.server.request_server import RequestServer
from regulus.server.watchdog import Watchdog
from regulus.transport.config import TransportConfig
from regulus.transport.listener import Listener
from regulus.transport.unfinished_frames import UnfinishedFrames

VIP_PORT_OFFSET = -2

_log = logging.getLogger(__name__)

Bind = Callable[[str, int], socket]
"""Takes an address and a port; raises OSError."""


def make_listener(bound: Sequence[socket], requests: RequestServer, config: TransportConfig, watchdog: Watchdog,
                  unfinished: UnfinishedFrames | None = None) -> Listener:
    return Listener(bound, watchdog.watched_requests(requests.on_requests), requests.on_opened, requests.on_closed,
                    config, asyncio.get_running_loop(), unfinished)


def take_vip_port(bind: Bind, address: str, port: int, config: BrokerConfig) -> list[socket]:
    """RocketMQ's second port of a broker, two below the one for clients, for clients with `vipChannelEnabled`, its
    dashboard among them, and for slaves. A broker at any free port has none. Raises OSError when slaves need the port
    and it is taken."""
    vip_port = port + VIP_PORT_OFFSET
    if not config.listen_port or not config.vip_port_enable or vip_port < 1:
        return []
    try:
        return [bind(address, vip_port)]
    except OSError as error:
        if config.is_copied:
            raise
        _log.warning("no port for clients with vipChannelEnabled=true, which ask two below listenPort (%s): they would "
                     "reach another server there. Choose another listenPort, or say vipPortEnable=false", error)
        return []
