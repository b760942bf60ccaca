"""Spark's own daemon of Python workers, without a traceback for each reader that has rows enough.

Where a query ends early, as behind LIMIT, the JVM closes the pipe while a worker still writes. Spark prints that
as an error among what a command shows; the worker ends all the same. Set as spark.python.daemon.module.
"""

from typing import Any

from pyspark import daemon

_worker = daemon.worker


def _quiet_worker(sock: Any, authenticated: bool) -> int:
    """Not 0 has the daemon end this worker once the JVM is done with it."""
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = _quiet_worker
    daemon.manager()
