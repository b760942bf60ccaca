"""Compares Regulus with releases of RocketMQ, on the same machine, with the same load and the same flush mode.

    make bench                              everything, printed as tables
    make bench BENCH="--part load --seconds 5"
    make bench BENCH=--write                also writes the new tables into docs/benchmarks.md

The brokers take turns, round by round, so that changes of the machine affect all of them. A broker that waits for its
turn is stopped with SIGSTOP, because its housekeeping would take processor time. Each figure is the median of its
rounds, and each ratio is that of two medians.

Parts: `load` sends neutral frames, and `pull` pulls with them (load_generator.py). `java` runs RocketMQ's own benchmark
producer, and `consume` its consumer. The others measure Spark: `spark` reads a log and compares it with Parquet, `live`
reads a running broker, `stream` reads in micro-batches, `archive` and `sink` write (spark_scan.py, spark_live.py and
others).
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import java_benchmark
from java_broker import VERSIONS, Broker, Brokers, make_brokers
from load_generator import cpu_seconds

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
LOAD_GENERATOR = (sys.executable, str(HERE / "load_generator.py"))
DOCUMENT = PROJECT / "docs" / "benchmarks.md"
# Each query takes Spark about 0.1 s, which would distort the figures with fewer messages.
SPARK_SCRIPTS = {"spark": ("spark_scan.py", "--messages", "4000000"),
                 "live": ("spark_live.py", "--spark", "--messages", "4000000"), "stream": ("spark_stream.py",),
                 "archive": ("spark_archive.py", "--messages", "4000000"), "sink": ("spark_sink.py",)}
PARTS = ("load", "pull", "java", "consume", *SPARK_SCRIPTS)
WARM_UP_SECONDS = 12                # time in which the JVMs compile the code of the load
BACKLOG = 4_000_000     # messages in the topic, which each round pulls from the beginning
SPARK_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class LoadCase:
    flush: str
    size: int
    connections: int
    in_flight: int


LOAD_CASES = [LoadCase(flush, size, connections, in_flight)
              for flush in ("async", "sync")
              for connections, in_flight in ((1, 64), (2, 512))
              for size in (128, 1024)]
PULL_CASES = [LoadCase("async", size, connections, in_flight)
              for size in (128, 1024)
              for connections, in_flight in ((1, 4), (1, 16), (2, 64))]
CONSUMER_THREADS = (1, 20, 64)
LOAD_HEAD = ["body", "in flight", "broker", "messages/s", "p50 ms", "p99 ms", "max ms", "broker CPU s per million",
             "ours / it"]
JAVA_CASES = [(threads, size) for threads in (1, 16, 64) for size in (128, 1024)]
_SCRATCH = bytearray(1 << 20)

Result = TypeVar("Result")
Row = list[str]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report in Markdown; `name` marks its place in the document."""

    name: str
    text: str


def table(name: str, title: str, head: Row, rows: list[Row]) -> Section:
    lines = [head, ["---"] * len(head), *rows]
    return Section(name, f"{title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))


# --- the brokers ---


@contextmanager
def all_brokers(directory: Path, flush: str) -> Iterator[Brokers]:
    """Start all brokers. At the end of the block they are killed and their stores removed."""
    brokers = make_brokers(directory, flush)
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


def in_turns(brokers: Brokers, rounds: int, measure: Callable[[Broker], Result]) -> list[list[Result]]:
    """The results of each broker. The order of the brokers alternates from round to round."""
    results: list[list[Result]] = [[] for _ in brokers]
    for number in range(rounds):
        order = list(enumerate(brokers))
        for which, broker in order if number % 2 == 0 else reversed(order):
            with ExitStack() as others:
                for other in brokers:
                    if other is not broker:
                        others.enter_context(stopped(other))
                results[which].append(measure(broker))
    return results


@contextmanager
def stopped(broker: Broker) -> Iterator[None]:
    os.kill(broker.broker_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.broker_pid, signal.SIGCONT)


def median(numbers: Sequence[float]) -> float:
    return statistics.median(numbers)


def thousands(number: float) -> str:
    return f"{number:,.0f}"


# --- part: neutral load ---


def run_load(broker: Broker, case: LoadCase, seconds: float, topic: str = "BenchLoad",
             backlog: int = 0) -> dict[str, float]:
    command = [*LOAD_GENERATOR, "--address", broker.broker_address, "--topic", topic, "--backlog", str(backlog),
               "--body-size", str(case.size), "--connections", str(case.connections),
               "--in-flight", str(case.in_flight),
               "--seconds", str(seconds), "--warm-up", "2", "--server-pid", str(broker.broker_pid)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
    if result.returncode != 0:
        raise SystemExit(f"{broker.name}: {' '.join(command)}\n{result.stderr}")
    figures: dict[str, float] = json.loads(result.stdout)
    if figures["refused"]:
        raise SystemExit(f"{broker.name} refused {figures['refused']} requests: {result.stderr}")
    return figures


def send_backlog(brokers: Brokers, topic: str, size: int) -> None:
    for broker in brokers:
        subprocess.run([*LOAD_GENERATOR, "--address", broker.broker_address, "--topic", topic, "--body-size", str(size),
                        "--count", str(BACKLOG), "--warm-up", "0"], check=True, capture_output=True, timeout=300)


def have_in_memory(broker: Broker) -> None:
    """Read all files of the store, so that pulls measure the broker and not the disk. The system may drop pages that
    were not read for a minute."""
    for directory in ("commitlog", "consumequeue"):
        for path in (broker.store / directory).rglob("*"):
            if path.is_file():
                with path.open("rb", buffering=0) as file:
                    while file.readinto(_SCRATCH):
                        pass


def warm(brokers: Brokers) -> None:
    """Run a load that does not count, until the JVMs have compiled the code that they will run."""
    for broker in brokers:
        run_load(broker, LoadCase("", 1024, 2, 512), WARM_UP_SECONDS)


def warm_pulls(brokers: Brokers, topic: str) -> None:
    for broker in brokers:
        run_load(broker, LoadCase("", 128, 2, 64), WARM_UP_SECONDS, topic, BACKLOG)


def load_rows(brokers: Brokers, case: LoadCase, rounds: int,
              measure: Callable[[Broker], dict[str, float]]) -> list[Row]:
    results = in_turns(brokers, rounds, measure)
    rates = [median([figures["messages_per_second"] for figures in each]) for each in results]
    rows = []
    for broker, each, rate in zip(brokers, results, rates, strict=True):
        rows.append([
            f"{case.size} B", f"{case.connections} x {case.in_flight}", title_of(broker), thousands(rate),
            *(f"{median([figures[name] for figures in each]):.2f}"
              for name in ("latency_p50_ms", "latency_p99_ms", "latency_max_ms", "server_cpu_seconds_per_million")),
            "" if broker is brokers[0] else f"{rates[0] / rate:.2f}"])
    return rows


def load_section(directory: Path, rounds: int, seconds: float) -> Section:
    rows: list[Row] = []
    for flush in ("async", "sync"):
        with all_brokers(directory / "load", flush) as brokers:
            warm(brokers)
            for case in (case for case in LOAD_CASES if case.flush == flush):
                rows += [[flush, *row] for row in load_rows(
                    brokers, case, rounds, lambda broker, case=case: run_load(broker, case, seconds))]
                report(rows[-len(brokers):])
    return table("load", f"Sends, neutral load generator, {rounds} rounds of {seconds:g} s each, medians.",
                 ["flush", *LOAD_HEAD], rows)


def pull_section(directory: Path, rounds: int, seconds: float) -> Section:
    rows: list[Row] = []

    def pull(broker: Broker, case: LoadCase, topic: str) -> dict[str, float]:
        have_in_memory(broker)
        return run_load(broker, case, seconds, topic, BACKLOG)

    for size in sorted({case.size for case in PULL_CASES}):
        with all_brokers(directory / "pull", "async") as brokers:
            topic = f"Backlog{size}"
            send_backlog(brokers, topic, size)
            warm_pulls(brokers, topic)
            for case in (case for case in PULL_CASES if case.size == size):
                rows += load_rows(brokers, case, rounds, lambda broker, case=case, topic=topic: pull(
                    broker, case, topic))
                report(rows[-len(brokers):])
    return table("pull", f"Pulls of 32 messages, neutral load generator, {rounds} rounds of {seconds:g} s each, "
                 "medians.", LOAD_HEAD, rows)


# --- part: RocketMQ's own benchmark ---


def java_section(directory: Path, rounds: int, seconds: int) -> Section:
    rows: list[Row] = []
    with all_brokers(directory / "java", "async") as brokers:
        warm(brokers)
        for threads, size in JAVA_CASES:
            topic = f"Benchmark{threads}x{size}"
            results = in_turns(brokers, rounds, lambda broker, topic=topic, threads=threads, size=size:
                               java_benchmark.produce(broker.name_server_address, topic, threads, size, seconds))
            rates = [median([each.messages_per_second for each in one]) for one in results]
            for broker, one, rate in zip(brokers, results, rates, strict=True):
                rows.append([f"{size} B", str(threads), title_of(broker), thousands(rate),
                             f"{median([each.average_ms for each in one]):.3f}",
                             f"{max(each.max_ms for each in one):.0f}",
                             "" if broker is brokers[0] else f"{rates[0] / rate:.2f}"])
            report(rows[-len(brokers):])
    return table("java", f"RocketMQ's own benchmark producer (client 5.3.3), async flush, {rounds} rounds of "
                 f"{seconds} s each after the JVM's warm-up, medians.",
                 ["body", "threads", "broker", "messages/s", "average ms", "max ms", "ours / it"], rows)


def consume_section(directory: Path, rounds: int) -> Section:
    """Send a backlog to each broker, and have the benchmark's consumer consume it, each time in a new group."""
    rows: list[Row] = []
    groups = count()

    def consume(broker: Broker, threads: int) -> tuple[java_benchmark.Consumed, float]:
        have_in_memory(broker)
        before = cpu_seconds(broker.broker_pid)
        consumed = java_benchmark.consume(broker.name_server_address, "Backlog", f"BacklogGroup{next(groups)}",
                                          threads, BACKLOG)
        return consumed, cpu_seconds(broker.broker_pid) - before

    with all_brokers(directory / "consume", "async") as brokers:
        send_backlog(brokers, "Backlog", 128)
        warm_pulls(brokers, "Backlog")
        for threads in CONSUMER_THREADS:
            results = in_turns(brokers, rounds, lambda broker, threads=threads: consume(broker, threads))
            rates = [median([consumed.messages_per_second for consumed, _ in one]) for one in results]
            for broker, one, rate in zip(brokers, results, rates, strict=True):
                each = [consumed.messages_per_second for consumed, _ in one]
                rows.append(["128 B", str(threads), title_of(broker), thousands(rate),
                             f"{thousands(min(each))} to {thousands(max(each))}",
                             f"{median([consumed.client_cpu_seconds for consumed, _ in one]) / BACKLOG * 1e6:.2f}",
                             f"{median([cpu for _, cpu in one]) / BACKLOG * 1e6:.2f}",
                             "" if broker is brokers[0] else f"{rates[0] / rate:.2f}"])
            report(rows[-len(brokers):])
    return table("consume", f"RocketMQ's own benchmark consumer (client 5.3.3) on a backlog of {BACKLOG:,} messages, "
                 f"{rounds} rounds, medians.",
                 ["body", "threads", "broker", "messages/s", "of all rounds", "client CPU s per million",
                  "broker CPU s per million", "ours / it"], rows)


# --- part: Spark ---


def spark_section(name: str) -> Section:
    """The output of a script, unchanged."""
    script, *arguments = SPARK_SCRIPTS[name]
    result = subprocess.run([sys.executable, str(HERE / script), *arguments], capture_output=True, text=True,
                            timeout=SPARK_TIMEOUT_S)
    if result.returncode:
        raise SystemExit(f"{script} failed:\n{result.stderr[-4000:]}")
    shown = " ".join(["python", f"bench/{script}", *arguments])
    return Section(name, f"`{shown}`:\n\n```\n{result.stdout.rstrip()}\n```")


# --- all of it ---


def title_of(broker: Broker) -> str:
    return "Regulus" if broker.name == "regulus" else f"RocketMQ {broker.name.removeprefix('java-')}"


def report(rows: list[Row]) -> None:
    for row in rows:
        print("  ".join(cell.rjust(9) for cell in row), flush=True)


def machine() -> str:
    """One line about the machine and the versions that were measured."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    version = subprocess.run(["git", "-C", str(PROJECT), "describe", "--always", "--dirty"], capture_output=True,
                             text=True, check=True).stdout.strip()
    import regulus

    build = "compiled" if "compiled" in str(Path(regulus.__file__)) else "interpreted"
    return (f"Regulus {version} ({build}, Python {platform.python_version()}) and RocketMQ {' and '.join(VERSIONS)} "
            f"({java_version()}); {os.cpu_count()} x {processor[1] if processor else platform.machine()}, "
            f"Linux {platform.release()}; {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}")


def java_version() -> str:
    return subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[1]


def write(sections: Sequence[Section], heading: str) -> None:
    """Write the sections between their markers in the document. Sections that were not run keep their text."""
    text = DOCUMENT.read_text()
    for section in sections:
        begin, end = f"<!-- {section.name}: begin -->", f"<!-- {section.name}: end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{DOCUMENT} has no place for the section {section.name}")
        text = f"{before}{begin}\n{section.text}\n\n{heading}.\n{end}{after}"
    DOCUMENT.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="run only this part; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="length of each round")
    parser.add_argument("--directory", type=Path, default=PROJECT / "build" / "bench", help="directory for the stores")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args()
    parts = options.part or PARTS
    options.directory = options.directory.resolve()
    heading = machine()
    print(heading)
    sections = []
    if "load" in parts:
        sections.append(load_section(options.directory, options.rounds, options.seconds))
    if "pull" in parts:
        sections.append(pull_section(options.directory, options.rounds, options.seconds))
    if "java" in parts:
        sections.append(java_section(options.directory, options.rounds, options.seconds))
    if "consume" in parts:
        sections.append(consume_section(options.directory, options.rounds))
    sections += [spark_section(name) for name in SPARK_SCRIPTS if name in parts]
    for section in sections:
        print(f"\n{section.text}")
    if options.write:
        write(sections, heading)


if __name__ == "__main__":
    main()
