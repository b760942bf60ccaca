"""A server whose delay levels are short."""

from pathlib import Path
from typing import Any

from regulus.broker.config import BrokerConfig
from regulus.testing.running_server import ServerThread


def server_with_ladder(store_path: Path, ladder: str, **settings: Any) -> ServerThread:
    """`settings` are others of the broker."""
    return ServerThread(store_path, BrokerConfig(listen_port=0, message_delay_level=ladder, **settings))
