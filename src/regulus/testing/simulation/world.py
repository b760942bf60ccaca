"""Applications in the simulated world: their producers and listeners, and what a test does to the servers.

The entry point is `regulus.testing.simulate`. The seed determines what happens by itself; the application checks the
results, except for unhandled errors and for calls that never end.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from regulus.errors import RegulusError
from regulus.testing.forgetful_disk import ForgetfulDisk
from regulus.testing.simulation import faults
from regulus.testing.simulation.actors import forget_client
from regulus.testing.simulation.cluster import Machines, SimulatedBroker, start_all
from regulus.testing.simulation.history import History
from regulus.testing.simulation.loop import START_S, Node, SimulatedLoop, SimulatedTask
from regulus.testing.simulation.network import SimulatedNetwork
from regulus.testing.simulation.playing import Listening, memory_disk
from regulus.testing.simulation.pretence import pretended
from regulus.testing.simulation.scene import Scene, standing
from regulus.testing.simulation.trace import Trace

T = TypeVar("T")

WITHIN_S = 3_600.0
BROKERS_MAX = 26
_HEAD_START_S = 1.0
"""How long the servers run before the application starts: name servers know the brokers then."""
_FAULTS_SHOWN = 5
_TROUBLES: dict[str, Callable[[Scene, Random], Awaitable[None]]] = {each.__name__: each for each in (
    faults.kill_broker, faults.restart_broker, faults.cut_power, faults.move_broker, faults.kill_name_server,
    faults.cut_connections, faults.slow_down)}
TROUBLES: tuple[str, ...] = tuple(_TROUBLES)


class SimulationFailed(AssertionError):
    """The failure of a seed, and how to reproduce it. The application's own error is its cause."""

    def __init__(self, seed: int, findings: Sequence[str]) -> None:
        self.seed = seed
        self.findings = list(findings)
        shown = "\n    ".join(self.findings[:_FAULTS_SHOWN])
        super().__init__(f"seed {seed}: {shown}\nagain: simulate(..., seed={seed}, say=print){_hashes()}")


class Placed(Protocol):
    """Something with a host: a broker, a name server, a process, the world for the application itself."""

    @property
    def host(self) -> str: ...


class Process(Generic[T]):
    """A part of the application on a separate machine."""

    def __init__(self, machines: Machines, name: str, host: str, coroutine: Coroutine[Any, Any, T]) -> None:
        self.name = name
        self.node = Node(name, host)
        self._machines = machines
        self.task: SimulatedTask[T] = machines.loop.make_task(machines.loop, coroutine, context=self.node.context)

    @property
    def host(self) -> str:
        return self.node.host

    async def ended(self) -> T:
        """Wait for its end; returns or raises what it did. Raises RegulusError for a process that was killed."""
        if not self.node.is_alive:
            raise RegulusError(f"{self.name} was killed")
        await asyncio.wait([self.task])
        return self.task.result()

    def kill(self) -> None:
        """End it in the middle of what it does; nothing of it is cleaned up."""
        if self.node.is_alive and not self.task.done():
            self._machines.trace.say(self.name, "is killed")
            self._machines.kill(self.node, is_silent=False)
            forget_client(self._machines, self.node)


class World(Scene):
    """The world that an application gets. `seed` determines everything in it; `chance` is the application's own
    share."""

    def __init__(self, seed: int, machines: Machines, *, brokers: int, name_servers: int, sync_flush: bool,
                 broker_settings: dict[str, Any]) -> None:
        super().__init__(machines)
        self.seed = seed
        self.chance = Random(f"{seed} application")
        self.name_server_address = self.make_name_servers(name_servers)
        self.brokers = [SimulatedBroker(machines, f"broker-{chr(ord('a') + number)}", number, self.name_server_address,
                                        syncs=sync_flush, **broker_settings) for number in range(brokers)]
        self._node = Node("app", "10.3.0.1")
        self._processes: list[Process[Any]] = []

    @property
    def host(self) -> str:
        return self._node.host

    @property
    def broker(self) -> SimulatedBroker:
        """The first broker: `kill()`, `cut_power()`, `await stop()`, `await start()`."""
        return self.brokers[0]

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return self.loop.now - START_S

    def say(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.say("app", text)

    def start(self, name: str, coroutine: Coroutine[Any, Any, T]) -> Process[T]:
        """Run a part of the application on a separate machine, which can be killed and partitioned from others."""
        process = Process(self.machines, name, f"10.3.1.{len(self._processes) + 1}", coroutine)
        self._processes.append(process)
        return process

    def part(self, one: Placed, other: Placed, *, one_way: bool = False) -> None:
        """Partition two of them: no bytes move between them, without notice; if `one_way`, bytes from `other` still
        arrive."""
        self.trace.say("network", f"parts {one.host} and {other.host}")
        self.network.part(one.host, other.host, is_one_way=one_way)

    def join(self) -> None:
        """End all partitions."""
        self.trace.say("network", "joins all")
        self.network.join()

    async def trouble(self, during_s: float, count: int = 3, kinds: Sequence[str] = TROUBLES) -> None:
        """Cause `count` faults of these kinds, chosen by the seed, which begin within `during_s`; all have ended when
        this returns."""
        unknown = set(kinds) - set(TROUBLES)
        if unknown:
            raise RegulusError(f"there is no trouble {', '.join(sorted(unknown))}: take some of {', '.join(TROUBLES)}")
        times = [self.chance.uniform(0, during_s) for _ in range(count)]
        await asyncio.gather(*(self._happen(self.chance.choice(kinds), at) for at in times))
        await self.heal()

    async def heal(self) -> None:
        """End all faults: every server is up, and every host is reached in the usual time."""
        self.network.slowness = 1.0
        self.join()
        await start_all(*self.name_servers)
        await start_all(*self.brokers)

    def stored(self, topic: str) -> list[bytes]:
        """The bodies in the logs of all running brokers, each queue in order."""
        return [each.key.encode(errors="surrogateescape") for broker in self.brokers if broker.is_up
                for each in broker.stored() if each.queue.topic == topic]

    async def _happen(self, kind: str, at: float) -> None:
        await asyncio.sleep(at)
        self.trace.say("-", kind)
        await _TROUBLES[kind](self, Random(f"{self.seed} {kind} {at}"))

    # --- the course of things ----------------------------------------------------------------------------------------

    async def play(self, app: "Callable[[World], Coroutine[Any, Any, T]]", within_s: float) -> T:
        """Run `app`; returns or raises what it does. Raises RegulusError when it does not end."""
        await start_all(*self.name_servers)
        await start_all(*self.brokers)
        await asyncio.sleep(_HEAD_START_S)
        task = self.loop.make_task(self.loop, app(self), context=self._node.context)
        await asyncio.wait([task], timeout=within_s)
        if not task.done():
            where = standing(task)
            await self._end(task)
            raise RegulusError(f"after {within_s:g} s of the simulated time it still waits in {where}")
        await self._end()
        return task.result()

    async def _end(self, *tasks: SimulatedTask[Any]) -> None:
        """End the application and the tasks that it left behind; then its servers."""
        nodes = [self._node, *(process.node for process in self._processes)]
        for node in nodes:
            node.is_closing = True
        left = [*tasks, *(task for task in self.loop.tasks
                          if task.node in nodes and task.node.is_alive and not task.done() and task not in tasks)]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        await self.stop_servers()


def run_app(app: Callable[[World], Coroutine[Any, Any, T]], seed: int, *, brokers: int, name_servers: int,
            sync_flush: bool, broker_settings: dict[str, Any], within_s: float,
            say: Callable[[str], None] | None) -> T:
    """See `regulus.testing.simulate`."""
    if asyncio._get_running_loop() is not None:
        raise RegulusError("simulate(...) brings an event loop of its own: call it from a plain function")
    if not 1 <= brokers <= BROKERS_MAX:
        raise RegulusError(f"brokers is {brokers}: write 1 to {BROKERS_MAX}")
    loop = SimulatedLoop(Random(f"{seed} work"))
    history = History(lambda: loop.now - START_S)
    error: Exception | None = None
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regulus-", dir=memory_disk())))
        trace = Trace(lambda: loop.now - START_S, say is not None, home)
        stack.enter_context(pretended(seed, loop.time, START_S))
        stack.enter_context(Listening(trace, history))
        disk = stack.enter_context(ForgetfulDisk(home))
        network = SimulatedNetwork(loop, Random(f"{seed} network"),
                                   lambda one, other, data: trace.carried(one.name, other.name, data))
        world = World(seed, Machines(loop, network, home, trace, history, disk), brokers=brokers,
                      name_servers=name_servers, sync_flush=sync_flush, broker_settings=broker_settings)
        stack.callback(loop.close)
        stack.callback(world.take_leave)
        try:
            result = loop.run_until_complete(world.play(app, within_s))
        except Exception as caught:     # of the application, of any kind
            error = caught
    if say is not None:
        for line in trace.lines:
            say(line)
    if error is not None or history.faults:
        own = [f"{type(error).__name__}: {error}"] if error is not None else []
        raise SimulationFailed(seed, [*own, *history.faults]) from error
    return result


def _hashes() -> str:
    """The part of a run besides its seed: the order in which sets of strings are iterated."""
    if not sys.flags.hash_randomization or os.environ.get("PYTHONHASHSEED", "random") != "random":
        return f", with PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', '0')} in the environment"
    return ("\nonly this process plays it just so: begin Python with PYTHONHASHSEED=0 in the environment, and a seed "
            "is the same run each time")
