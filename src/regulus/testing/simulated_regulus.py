"""A Regulus with simulated time: hours of delays and retries pass in seconds.

Broker, name server and the clients of a test are the real ones. They run in one event loop, which jumps to the next
timer when nothing is ready, and reach each other through a network in memory (`regulus.testing.simulation`).
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from socket import socket
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from regulus.broker.config import BrokerConfig
from regulus.errors import RegulusError
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.testing.running_server import small_store
from regulus.testing.simulation.loop import START_S, Node, SimulatedLoop, SimulatedWorkers
from regulus.testing.simulation.network import SimulatedNetwork
from regulus.testing.simulation.playing import memory_disk
from regulus.testing.simulation.pretence import pretended
from regulus.testing.simulation.scene import standing

T = TypeVar("T")

WITHIN_S = 86_400.0
"""A day, which is longer than all retries and delays of a test."""
_SEED = 0
_BROKER_PORT = 10911
_NAME_SERVER_PORT = 9876
# Documentation addresses (RFC 5737): a packet that leaves the simulation reaches no host.
_HOST, _TEST_HOST = "203.0.113.1", "203.0.113.2"


# Nothing is killed here, so offsets need not be saved every few seconds.
_DEFAULT_CONFIG = BrokerConfig(flush_consumer_offset_interval=600_000, flush_delay_offset_interval=600_000)


class SimulatedRegulus:
    """While it is entered, `time` and the loop's time are the simulated time, also between two runs."""

    name_server_address = f"{_HOST}:{_NAME_SERVER_PORT}"
    address = f"{_HOST}:{_BROKER_PORT}"
    """The address of the broker."""

    def __init__(self, broker_config: BrokerConfig = _DEFAULT_CONFIG) -> None:
        self._broker_config = replace(broker_config, listen_port=_BROKER_PORT)
        self._loop = SimulatedLoop(Random(f"{_SEED} work"))
        self._network = SimulatedNetwork(self._loop, Random(f"{_SEED} network"), lambda sender, receiver, data: None)
        self._server = Node("regulus", _HOST)
        self._test = Node("test", _TEST_HOST)
        self._at_end = ExitStack()

    def run(self, coroutine: Coroutine[Any, Any, T], within_s: float = WITHIN_S) -> T:
        """Run a coroutine; returns or raises what it does. It may use any asyncio client, and wait as long as it likes.
        Raises RegulusError when it has not ended within `within_s` seconds of simulated time."""
        if asyncio._get_running_loop() is not None:
            coroutine.close()
            raise RegulusError("a simulated Regulus brings an event loop of its own: write the test as a plain "
                               "function, and hand what it awaits to run(...)")
        return self._run(self._test, coroutine, within_s)

    def __enter__(self) -> Self:
        with ExitStack() as at_end:
            at_end.enter_context(pretended(_SEED, self._loop.time, START_S))
            at_end.callback(self._loop.close)
            home = at_end.enter_context(tempfile.TemporaryDirectory(prefix="regulus-", dir=memory_disk()))
            server = Regulus(self._broker_config, small_store(Path(home) / "store"),
                             NamesrvConfig(listen_port=_NAME_SERVER_PORT), workers=SimulatedWorkers(self._loop),
                             name_server_workers=SimulatedWorkers(self._loop),
                             bind=lambda _, port: cast(socket, self._network.bind(self._server, port)))
            self._run(self._server, server.start())
            at_end.callback(self._end, server)
            self._at_end = at_end.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._at_end.close()

    def _run(self, node: Node, coroutine: Coroutine[Any, Any, T], within_s: float = WITHIN_S) -> T:
        task = self._loop.create_task(coroutine, context=node.context)
        self._loop.run_until_complete(asyncio.wait([task], timeout=within_s))
        if not task.done():
            waits_in = standing(task)   # type: ignore[arg-type]
            self._cancel(task)
            raise RegulusError(f"after {within_s:g} s of the simulated time it still waits in {waits_in}")
        return task.result()

    def _end(self, server: Regulus) -> None:
        """Stop the server, after tasks of its clients that the test left behind."""
        self._cancel(*(task for task in self._loop.tasks if task.node is self._test and not task.done()))
        self._run(self._server, server.stop())
        self._cancel(*asyncio.all_tasks(self._loop))

    def _cancel(self, *tasks: "asyncio.Task[Any]") -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
