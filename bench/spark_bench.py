"""Shared by the Spark benchmarks: their arguments, the headline about the machine, a store to read, and clocks."""

import argparse
import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyspark

from regulus.cli.spark_session import command_java
from regulus.model.message import MessageExt
from regulus.record import message_columns
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
TOPIC = "orders"

T = TypeVar("T")


def parser_of(description: str | None, **numbers: int) -> argparse.ArgumentParser:
    """A parser for the command line of a benchmark, with an option for each number and its default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


def chosen(cases: Mapping[str, T], only: str) -> dict[str, T]:
    """The cases with this text in their names. Ends the program if there is none."""
    kept = {name: case for name, case in cases.items() if only in name}
    if not kept:
        raise SystemExit(f"--only {only!r} is in no name: {', '.join(cases)}")
    return kept


def headline() -> str:
    """One line about the machine and the versions that the figures are for."""
    build = "interpreted" if str(message_columns.__file__).endswith(".py") else "compiled"
    return (f"Python {platform.python_version()}, {build}; pyspark {pyspark.__version__}, pyarrow {pa.__version__}, "
            f"Java {command_java().version}; {os.cpu_count()} x {processor()}, load {os.getloadavg()[0]:.1f}")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def messages(arguments: argparse.Namespace) -> Iterator[MessageExt]:
    """Messages with bodies like JSON. About half of each is random, so that they compress about 2:1."""
    chance = random.Random(1)
    filler = "x" * (arguments.size // 2 - 60)
    for number in range(arguments.messages):
        noise = chance.randbytes(arguments.size // 4).hex()
        body = f'{{"order":{number:010},"price":{number % 9973:05},"note":"{filler}","noise":"{noise}"}}'.encode()
        properties = {"UNIQ_KEY": f"7F0000010A6B4E0E2F2A{number:012X}", "CLUSTER": "DefaultCluster", "WAIT": "true",
                      "TAGS": f"Tag{number % 5}", "KEYS": f"order-{number}", "MSG_REGION": "DefaultRegion"}
        yield MessageExt(TOPIC, body.ljust(arguments.size)[:arguments.size], properties, number % arguments.queues,
                         0, 0, 1_700_000_000_000 + number, HOST, HOST)


def fill(root: Path, arguments: argparse.Namespace) -> int:
    """Write a store with the messages; returns the bytes of its commit log."""
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), message_index_enable=False))
    store.open(time.monotonic)
    for number, message in enumerate(messages(arguments)):
        if store.wants_allocation:
            store.allocate_ahead()
        store.append(message, 1_700_000_000_000 + number)
        if number % 512 == 511:
            store.dispatch(1024, ())
    while store.dispatch_behind_bytes():
        store.dispatch(1024, ())
    size = store.commit_log_max_offset()
    store.close()
    return size


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Run an action; returns its seconds by the clock, and its CPU seconds."""
    cpu, began = family_cpu_seconds(), time.perf_counter()
    action()
    return time.perf_counter() - began, family_cpu_seconds() - cpu


def family_cpu_seconds() -> float:
    """CPU seconds of this process and its descendants, including those that have ended."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


def report(name: str, seconds: float, cpu: float, log_bytes: int, rows: int) -> None:
    print(f"  {name:44} {seconds:6.2f} s {rows / seconds / 1e6:6.2f} M rows/s {log_bytes / seconds / 1e9:6.2f} GB/s"
          f" {cpu:6.2f} s CPU, {cpu / rows * 1e6:5.2f} us a row")
