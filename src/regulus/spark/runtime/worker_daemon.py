"""Replaces Spark's daemon of Python workers by one that imports their modules before it forks them.

    python -m regulus.spark.runtime.worker_daemon MODULE      for `python -m pyspark.daemon MODULE`

Each worker of Spark is a fork of a daemon and imports its modules by itself, which is most of the time of a short task.
Spark imports after the fork because numpy and pyarrow start threads, which a fork does not copy. Settings keep them
from starting threads. If one runs all the same, or threads cannot be counted, Spark's own daemon is used instead.
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
"""The modules that a worker imports at its first task, by Spark's module. Spark has a daemon for each of these."""
_BY_SOME_TASKS = ("pandas", "pyarrow.compute", "regulus.spark.live.scan")
FEW = 2
"""First forks for which only the modules of their own task are imported. A session with a single read has few forks,
and should not wait for more imports; one with many reads has more."""
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
        # A worker collects garbage after each task; it need not search objects that are frozen.
        gc.freeze()

    os.register_at_fork(before=prepare_fork)
    here = os.getpid()
    os.register_at_fork(after_in_child=lambda: _seed_numpy() if os.getppid() == here else None)
    daemon = import_module(SPARKS_DAEMON)
    daemon.worker = _quiet(daemon.worker)  # type: ignore[attr-defined]  # Spark's function of this name
    daemon.manager()


def _quiet(work: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Make a worker that does not report a closed pipe. If a query ends early, as with LIMIT, the JVM closes the pipe
    while a worker is still writing. Spark prints that as an error, although the worker has done its work."""
    def quietly(sock: Any, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            return 1
    return quietly


def _import(*names: str) -> bool:
    """Import the modules. False if one is missing, or there is more than one thread, so that forking is not safe."""
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    # If Spark or the user sets numpy's number of threads, that number is used.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    try:
        for name in names:
            import_module(name)
    except ImportError:
        return False    # the worker that needs it reports the error to Spark
    return len(list(_THREADS.iterdir())) == 1


def _seed_numpy() -> None:
    """Seed numpy after the fork, because all workers would draw the same numbers. Python's own generator is seeded
    again by itself."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


if __name__ == "__main__":
    main(sys.argv[1:])
