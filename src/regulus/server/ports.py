"""The ports of a server: how one is taken, and who listens at it."""

import asyncio
from collections.abc import Callable
from socket import socket

from regulus.server.request_server import RequestServer
from regulus.server.watchdog import Watchdog
from regulus.transport.config import TransportConfig
from regulus.transport.listener import Listener
from regulus.transport.unfinished_frames import UnfinishedFrames

Bind = Callable[[str, int], socket]
"""Takes an address and a port; raises OSError."""


def make_listener(bound: socket, requests: RequestServer, config: TransportConfig, watchdog: Watchdog,
                  unfinished: UnfinishedFrames | None = None) -> Listener:
    return Listener(bound, watchdog.watched_requests(requests.on_requests), requests.on_opened, requests.on_closed,
                    config, asyncio.get_running_loop(), unfinished)
