"""Pytest fixtures: a Regulus in this process, one in a child process, and one whose time jumps.

Installed as a pytest plugin with the package. Nothing of Regulus is imported before a test requests a fixture.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from regulus.testing.running_server import ServerProcess, ServerThread
    from regulus.testing.simulated_regulus import SimulatedRegulus


@pytest.fixture
def regulus_server(tmp_path: Path) -> "Iterator[ServerThread]":
    """A broker and a name server on free ports, on an event loop in a separate thread; the store is in `tmp_path`."""
    from regulus.testing.running_server import ServerThread

    with ServerThread(tmp_path / "store") as server:
        yield server


@pytest.fixture
def make_guarded_server(tmp_path: Path) -> "Iterator[Callable[[str], ServerThread]]":
    """Starts servers like `regulus_server` that check access by accounts: the argument is the text of a
    `plain_acl.yml`."""
    from regulus.broker.config import BrokerConfig
    from regulus.testing.running_server import ServerThread

    started: list[ServerThread] = []

    def start(accounts: str) -> ServerThread:
        home = tmp_path / f"guarded-{len(started)}"
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "plain_acl.yml").write_text(accounts)
        server = ServerThread(home / "store", BrokerConfig(listen_port=0, acl_enable=True, rocketmq_home=str(home)))
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def broker_process(tmp_path: Path) -> "Iterator[ServerProcess]":
    """A broker and a name server in a child process, which a test may kill and start again on the same store and
    ports."""
    from regulus.testing.running_server import ServerProcess

    with ServerProcess(tmp_path / "store") as server:
        yield server


@pytest.fixture
def make_broker_process(tmp_path: Path) -> "Iterator[Callable[..., ServerProcess]]":
    """Starts child processes with options of `regulus up`; all end with the test."""
    from regulus.testing.running_server import ServerProcess

    started: list[ServerProcess] = []

    def start(*options: str, store: Path | None = None) -> ServerProcess:
        server = ServerProcess(store or tmp_path / f"store-{len(started)}", *options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def simulated_regulus() -> "Iterator[SimulatedRegulus]":
    """A broker and a name server in memory, with a time that jumps over all waiting; `run(coroutine)` runs a test's
    part."""
    from regulus.testing.simulated_regulus import SimulatedRegulus

    with SimulatedRegulus() as server:
        yield server
