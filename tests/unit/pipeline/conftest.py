"""Stores to archive, and a shop to look into."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores import fill, open_store

from .shop import shop

__all__ = ["shop"]

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store: 60 messages of TopicA in two queues, 20 of TopicB; about 24 kB of log in files of 4 kB."""
    root = tmp_path / "store"
    opened = open_store(root)
    fill(opened, 60, queues=2)
    fill(opened, 20, topic="TopicB", first=100)
    opened.close()
    return root


@pytest.fixture
def change_log(store: Path) -> Callable[[int, bytes], None]:
    """Overwrites bytes of the store's log."""

    def change(physical_offset: int, data: bytes) -> None:
        start = physical_offset - physical_offset % 4096
        path = store / "commitlog" / f"{start:020d}"
        with path.open("r+b") as file:
            file.seek(physical_offset - start)
            file.write(data)

    return change
