"""Connections behave the same on both event loops."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from regulus.transport.event_loop import loop_factory


def pytest_asyncio_loop_factories(
        config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Plain asyncio, and what the servers run on where it is another."""
    ours = loop_factory()
    return {"asyncio": asyncio.new_event_loop} | ({} if ours is asyncio.new_event_loop else {"uvloop": ours})
