"""A server whose delay levels are short."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regulus.broker.config import BrokerConfig
from regulus.testing.running_server import ServerThread, small_store


def server_with_ladder(store_path: Path, ladder: str, **settings: Any) -> ServerThread:
    """Broker and store both have to know the ladder, as from one configuration file."""
    return ServerThread(store_path, BrokerConfig(listen_port=0, message_delay_level=ladder, **settings),
                        replace(small_store(store_path), message_delay_level=ladder))
