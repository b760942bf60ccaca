"""Spark's daemon of Python workers, which imports what they work with before they are forked.

    python -m regulus.spark.runtime.worker_daemon MODULE      for `python -m pyspark.daemon MODULE`

Each worker of Spark is a fork of a daemon, and imports what it works with by itself: most of what a short task takes.
Spark imports behind the fork because numpy and pyarrow start threads, which a fork does not take along. They start none
when they are told not to; where one runs all the same, or cannot be seen, Spark's own daemon takes this one's place.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

SPARKS_DAEMON = "pyspark.daemon"
_TASKS = "pyspark.worker"
_SINK = ("regulus.spark.sink.writer",)
_ALWAYS = ("regulus.spark.source",)
_BY_MODULE = {
    _TASKS: ("regulus.spark.store.scan",), "pyspark.sql.worker.write_into_data_source": _SINK,
    "pyspark.sql.worker.commit_data_source_write": _SINK, "pyspark.sql.worker.python_streaming_sink_runner": _SINK}
"""What a worker of Spark's module imports at its first task. Spark has a daemon for each of the modules."""
_BY_SOME_TASKS = ("pandas", "pyarrow.compute", "regulus.spark.live.scan")
FEW = 2
"""Forks that wait for no more than each needs: one read of a session has few, and most sessions of many reads more."""
_THREADS = Path("/proc/self/task")


def main(arguments: Sequence[str]) -> None:
    before = dict(os.environ)
    worker = arguments[0]
    if not (_THREADS.is_dir() and _import(worker, *_ALWAYS, *_BY_MODULE.get(worker, ()))):
        os.execve(sys.executable, [sys.executable, "-m", SPARKS_DAEMON, *arguments], before)
    forks = count()

    def prepare_fork() -> None:
        if worker == _TASKS and next(forks) >= FEW:
            _import(*_BY_SOME_TASKS)
        # A worker collects garbage after each task: none of it is in here.
        gc.freeze()

    os.register_at_fork(before=prepare_fork)
    here = os.getpid()
    os.register_at_fork(after_in_child=lambda: _seed_numpy() if os.getppid() == here else None)
    daemon = import_module(SPARKS_DAEMON)
    daemon.worker = _quiet(daemon.worker)  # type: ignore[attr-defined]  # Spark's function of this name
    daemon.manager()


def _quiet(work: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Where a query ends early, as behind LIMIT, the JVM closes the pipe while a worker still writes. Spark prints that
    as an error; the worker ends all the same, once the JVM is done with it."""
    def quietly(sock: Any, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return 1
    return quietly


def _import(*names: str) -> bool:
    """Whether all is there, and a fork may take it along."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    # Where Spark or the user says how many threads numpy has, numpy goes by that.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    try:
        for name in names:
            import_module(name)
    except ImportError:
        return False    # the worker that needs it tells Spark
    return len(list(_THREADS.iterdir())) == 1


def _seed_numpy() -> None:
    """Otherwise all workers would draw the same numbers. Python's own generator sees to this by itself."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


if __name__ == "__main__":
    main(sys.argv[1:])
