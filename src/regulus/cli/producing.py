"""A producer for one command, in a module of its own: commands that only look need not import it."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from regulus.cli.connection import Server
from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer

_HEARTBEATS = logging.getLogger("regulus.client.connecting.client_instance")


@asynccontextmanager
async def producing(server: Server, group: str, **settings: Any) -> AsyncIterator[Producer]:
    """A started producer. Failures of heartbeats are not logged: the command itself fails for the same reason, or does
    not need them. `settings`: those of ProducerConfig, besides credentials and TLS."""
    config = ProducerConfig(access_key=server.access_key, secret_key=server.secret_key, tls=server.tls, **settings)
    level = _HEARTBEATS.level
    _HEARTBEATS.setLevel(logging.ERROR)
    try:
        async with Producer(server.name_server, group, config) as producer:
            yield producer
    finally:
        _HEARTBEATS.setLevel(level)
