"""Plays one run: a story, as its seed determines."""

import gc
import logging
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regulus.testing.forgetful_disk import ForgetfulDisk
from regulus.testing.simulation import checks
from regulus.testing.simulation.cluster import Machines
from regulus.testing.simulation.faults import FAULTS
from regulus.testing.simulation.history import History
from regulus.testing.simulation.loop import START_S, NoProgress, SimulatedLoop, current_name
from regulus.testing.simulation.network import SimulatedNetwork
from regulus.testing.simulation.pretence import pretended
from regulus.testing.simulation.run import Run
from regulus.testing.simulation.stories import STORIES
from regulus.testing.simulation.trace import LogListener, Trace, WarningListener

_COPYING = ("regulus.server.ha_client", "regulus.server.ha_server")
_MEMORY_DISK = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a run."""

    story: str
    seed: int
    findings: list[str]
    digest: int
    virtual_s: float
    messages: int
    calls: int
    lines: list[str]


def memory_disk() -> Path | None:
    """A folder for files in memory; None when there is no such folder."""
    return _MEMORY_DISK if _MEMORY_DISK.is_dir() else None


def play(name: str, seed: int, *, traced: bool = False) -> Played:
    """Play one run, in a directory of its own that is removed afterwards."""
    collects = gc.isenabled()
    gc.disable()    # It would take as long as the run.
    try:
        with tempfile.TemporaryDirectory(prefix="regulus-simulation-", dir=memory_disk()) as home:
            return _play(name, seed, Path(home), traced)
    finally:
        if collects:
            gc.enable()


def _play(name: str, seed: int, home: Path, traced: bool) -> Played:
    story = STORIES[name]
    loop = SimulatedLoop(Random(f"{seed} work"))
    trace = Trace(lambda: loop.now - START_S, traced, home)
    history = History(lambda: loop.now - START_S)
    with ExitStack() as stack:
        stack.enter_context(pretended(seed, loop.time, START_S))
        stack.enter_context(Listening(trace, history))
        disk = stack.enter_context(ForgetfulDisk(home)) if story.loses_power else None
        network = SimulatedNetwork(loop, Random(f"{seed} network"),
                                   lambda one, other, data: trace.carried(one.name, other.name, data))
        run = Run(story, seed, Machines(loop, network, home, trace, history, disk), FAULTS)
        try:
            loop.run_until_complete(run.main())
        except NoProgress as error:
            history.broke_off = str(error)
        run.take_leave()
        loop.close()
    return Played(name, seed, checks.findings(history), trace.digest, loop.now - START_S, len(history.sent),
                  len(history.calls), trace.lines)


class Listening:
    """Writes the code's log into the trace, and notes its errors as faults."""

    def __init__(self, trace: Trace, history: History) -> None:
        self._listener = LogListener(trace, current_name, history.fault)
        self._logger = logging.getLogger("regulus")
        self._warnings = WarningListener(lambda text: history.told.append((current_name(), text)))
        self._of_copies = [logging.getLogger(name) for name in _COPYING]

    def __enter__(self) -> None:
        for logger in self._of_copies:
            logger.addHandler(self._warnings)
            logger.setLevel(logging.INFO)
        self._kept = self._logger.level, self._logger.propagate
        self._logger.addHandler(self._listener)
        self._logger.propagate = False
        self._logger.setLevel(logging.INFO if self._listener.level < logging.ERROR else logging.ERROR)

    def __exit__(self, *_: object) -> None:
        for logger in self._of_copies:
            logger.removeHandler(self._warnings)
            logger.setLevel(logging.NOTSET)
        self._logger.removeHandler(self._listener)
        self._logger.level, self._logger.propagate = self._kept
        self._logger.setLevel(self._logger.level)
