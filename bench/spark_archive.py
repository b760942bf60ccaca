"""Measures how fast Spark archives a log, and rebuilds its consume queues and index.

    python bench/spark_archive.py [--messages N] [--size BYTES] [--queues N] [--cores N] [--rounds N] [--only TEXT]
                                   [--directory DIR]

The row "rows at hand" is a bound: the tasks write one row group of the table as Parquet again and again, into files
that are not hashed or synced, so that only the cost of the Parquet library is left.

Run with PYTHONPATH=build/compiled for the compiled form. A store is made in the directory and removed afterwards. It is
read once before the measurement, so the page cache is warm, as far as a log of 1.25 KB for each message of 1 KB fits
into memory. The archive job syncs its files to disk, as always, and the files of a round are removed before the next
one. Each figure is the best of its rounds. Bytes are those of the commit log. CPU is the CPU time of this process and
all its children, JVM and workers included; on a busy machine it says more than the clock.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

import pyarrow as pa
from spark_bench import TOPIC, chosen, fill, headline, parser_of, report, timed

from regulus.cli.spark_session import command_session
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.parquet import ROW_GROUP_ROWS, write_row_groups
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.index.rebuild import RebuildConfig, rebuild_index
from regulus.pipeline.range_tasks import SparkTasks
from regulus.spark.options import parse_options
from regulus.spark.store.plan import plan
from regulus.spark.store.scan import scan
from regulus.spark.table_schema import COLUMNS


def nothing(step: str) -> None:
    """Ignore the progress of a job."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A task that writes the first rows of the store again and again, until there are `rows`."""

    root: str
    path: str
    rows: int


def rewrite(task: Rewrite, attempt: str) -> int:
    options = parse_options({"storePath": task.root, "topic": TOPIC})
    batches = scan(options, tuple(COLUMNS), plan(options, 1)[0])
    group = pa.Table.from_batches(islice(batches, ROW_GROUP_ROWS // options.batch_rows)).slice(0, task.rows)
    groups = max(1, task.rows // group.num_rows)
    Path(task.path).parent.mkdir(exist_ok=True)
    with pa.OSFile(task.path, "wb") as sink:
        write_row_groups(PlainFile(sink), group.schema, repeat(group, groups))
    return groups * group.num_rows


@dataclass(frozen=True, slots=True)
class PlainFile:
    """Takes the place of a StagedFile, but neither hashes nor syncs."""

    sink: pa.NativeFile

    def follow(self) -> None:
        """Nothing: a StagedFile would hash what was written."""


def cases(tasks: SparkTasks, root: Path, output: Path, arguments: argparse.Namespace) -> dict[
        str, Callable[[], object]]:
    def archived() -> None:
        config = ArchiveConfig(store_path=str(root), archive_path=str(output))
        done = run_archive(tasks, config, "bench", None, None, nothing)
        assert done.rows == arguments.messages, done

    def rebuilt(*, with_index: bool) -> None:
        done = rebuild_index(tasks, RebuildConfig(store_path=str(root), output=str(output),
                                                  message_index_enable=with_index))
        assert done.units == arguments.messages, done

    def rows_at_hand() -> None:
        share = arguments.messages // arguments.cores
        tasks.run(rewrite, [Rewrite(str(root), str(output / f"{number}.parquet"), share)
                            for number in range(arguments.cores)])

    return {"archive: log to Parquet (zstd), synced": archived,
            "Parquet (zstd) of rows at hand": rows_at_hand,
            "consume queues from the log": lambda: rebuilt(with_index=False),
            "consume queues and index from the log": lambda: rebuilt(with_index=True)}


def main() -> None:
    parser = parser_of(__doc__, messages=1_000_000, size=1024, queues=8, cores=2, rounds=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only cases with this in their names")
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        root, output = directory / "store", directory / "output"
        log_bytes = fill(root, arguments)
        print(headline())
        print(f"{arguments.messages} messages of {arguments.size} bytes in {arguments.queues} queues, "
              f"{log_bytes / 1e9:.2f} GB of log; local[{arguments.cores}], best of {arguments.rounds}")
        with command_session(f"local[{arguments.cores}]", {"spark.driver.memory": "1g"}) as spark:
            wanted = chosen(cases(SparkTasks(spark), root, output, arguments), arguments.only)
            for name, action in wanted.items():
                times = []
                for _ in range(1 + arguments.rounds):
                    shutil.rmtree(output, ignore_errors=True)
                    times.append(timed(action))
                del times[0]
                report(name, min(seconds for seconds, _ in times), min(cpu for _, cpu in times), log_bytes,
                       arguments.messages)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
