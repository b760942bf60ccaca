"""How fast a log is archived, and how fast its consume queues and index are rebuilt, with Spark.

    python bench/spark_archive.py [--messages N] [--size BYTES] [--queues N] [--cores N] [--rounds N] [--directory DIR]

Run with PYTHONPATH=build/compiled for the compiled form. A store of our own is made in the directory and removed
afterwards; it is read once before it is timed, so the page cache is warm, while what is written goes to disk and is
synced, as the jobs do. Each figure is the best of the rounds. Bytes are bytes of the commit log. CPU is what this
process and all its children took, JVM and workers included: on a machine with other work it says more than the clock.
"""

import argparse
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyspark
from spark_scan import fill, report, timed

from regulus.pipeline.archive import run_archive
from regulus.pipeline.archive_config import ArchiveConfig
from regulus.pipeline.index_rebuild import RebuildConfig, rebuild_index
from regulus.pipeline.range_tasks import SparkTasks
from regulus.record import log_units
from regulus.spark.java import JavaPlaces, find_java
from regulus.spark.session import local_session


def nothing(step: str) -> None:
    """A step of a job that nobody looks at."""


def cases(tasks: SparkTasks, root: Path, directory: Path, arguments: argparse.Namespace) -> dict[
        str, Callable[[], object]]:
    archive = directory / "archive"

    def archived() -> None:
        shutil.rmtree(archive, ignore_errors=True)
        config = ArchiveConfig(store_path=str(root), archive_path=str(archive))
        done = run_archive(tasks, config, "bench", None, None, nothing)
        assert done.rows == arguments.messages, done

    def rebuilt(*, with_index: bool) -> None:
        shutil.rmtree(directory / "rebuilt", ignore_errors=True)
        done = rebuild_index(tasks, RebuildConfig(store_path=str(root), output=str(directory / "rebuilt"),
                                                  message_index_enable=with_index))
        assert done.units == arguments.messages, done

    return {"archive: log to Parquet (zstd), synced": archived,
            "consume queues from the log": lambda: rebuilt(with_index=False),
            "consume queues and index from the log": lambda: rebuilt(with_index=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        root = directory / "store"
        log_bytes = fill(root, arguments)
        form = "interpreted" if str(log_units.__file__).endswith(".py") else "compiled"
        print(f"{arguments.messages} messages of {arguments.size} bytes in {arguments.queues} queues, "
              f"{log_bytes / 1e9:.2f} GB of log, {arguments.cores} of {os.cpu_count()} cores, {form}; "
              f"Python {platform.python_version()}, pyspark {pyspark.__version__}, pyarrow {pa.__version__}")
        places = JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                            cache=directory / "java")
        spark = local_session(find_java(places), os.environ, arguments.cores, {
            "spark.driver.memory": "1g", "spark.log.level": "ERROR"})
        tasks = SparkTasks(spark)
        for name, action in cases(tasks, root, directory, arguments).items():
            action()
            times = [timed(action) for _ in range(arguments.rounds)]
            report(name, min(seconds for seconds, _ in times), min(cpu for _, cpu in times), log_bytes,
                   arguments.messages)
        spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
