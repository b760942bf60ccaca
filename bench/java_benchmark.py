"""Runs RocketMQ's own benchmark programs (rocketmq-example) against one broker, for a limited time.

    python bench/java_benchmark.py --name-server 127.0.0.1:9876 --threads 64 --size 128

The programs print a line each second until they are killed. The first seconds, in which the JVM compiles, do not count.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from load_generator import cpu_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from real_rocketmq import java_command
from toolchain import java_libraries

CLIENT_VERSION = "5.3.3"
WARM_UP_S = 4                       # time in which the JVM compiles; its reports do not count
CONSUMER_AVERAGES_S = 9             # a report of the consumer is an average over this time
START_MAX_S = 60         # from the start of a program to its first report, on a busy machine
CONSUME_MAX_S = 120
PAST_THE_BEST = 0.9      # share of the best report; one below it shows that the backlog has ended
Reports = list[tuple[float, ...]]
_PACKAGE = "org.apache.rocketmq.example.benchmark"
_HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC")
_SENT = re.compile(r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +([\d.]+) \| "
                   r"Send Failed: (\d+) \| Response Failed: (\d+)")
_CONSUMED = re.compile(r"TPS: (\d+)")


@dataclass(frozen=True, slots=True)
class Consumed:
    """Results of a consumer. `client_cpu_seconds` is the CPU time from its start to the end of the backlog."""

    messages_per_second: float
    client_cpu_seconds: float


class BenchmarkFailed(Exception):
    """The program ended by itself, printed no reports or counted failures. The text contains its output."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Results of a producer: means over the seconds that count, and the longest send of all of them."""

    messages_per_second: float
    average_ms: float
    max_ms: float


def produce(name_server: str, topic: str, threads: int, size: int, seconds: int) -> Produced:
    """Run the benchmark's synchronous producer. Raises BenchmarkFailed if a send failed."""
    reports, _ = _run("Producer", ["-n", name_server, "-t", topic, "-w", str(threads), "-s", str(size), "-ri", "1000"],
                      _SENT, lambda reports: len(reports) >= WARM_UP_S + seconds, WARM_UP_S + seconds + START_MAX_S)
    counted = reports[WARM_UP_S:]
    if any(report[3] or report[4] for report in counted):
        raise BenchmarkFailed(f"sends failed: {counted}")
    return Produced(messages_per_second=_mean([report[0] for report in counted]),
                    average_ms=_mean([report[2] for report in counted]), max_ms=max(report[1] for report in counted))


def consume(name_server: str, topic: str, group: str, threads: int, backlog: int) -> Consumed:
    """Run the benchmark's push consumer until it has consumed a backlog of this many messages.

    Each report is an average over the last nine seconds, and the best report counts. Raises BenchmarkFailed if the
    backlog lasted for less than nine seconds, because the average then only shows its size.
    """
    def is_taken(reports: Reports) -> bool:
        return bool(reports) and reports[-1][0] < PAST_THE_BEST * max(report[0] for report in reports)

    # Some consumers, with any broker, begin 20 s late, because they asked for the members of the group too early.
    reports, cpu = _run("Consumer", ["-n", name_server, "-t", topic, "-g", group, "-p", "false", "-w", str(threads),
                                     "-ri", "1000"], _CONSUMED, is_taken, CONSUME_MAX_S)
    best = max(report[0] for report in reports)
    if best * CONSUMER_AVERAGES_S >= 0.99 * backlog:
        raise BenchmarkFailed(f"a backlog of {backlog:,} messages lasts for less than {CONSUMER_AVERAGES_S} s")
    return Consumed(messages_per_second=best, client_cpu_seconds=cpu)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _run(program: str, arguments: list[str], report: re.Pattern[str],
         is_enough: Callable[[Reports], bool], seconds_max: int) -> tuple[Reports, float]:
    """Run a program until its reports are enough, then kill it; returns the reports and its CPU seconds.

    There is one report a second."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-benchmark-") as home:
        command = java_command(CLIENT_VERSION, Path(home), f"{_PACKAGE}.{program}", arguments, _HEAP,
                               also=[java_libraries("benchmark")])
        printed = Path(home) / "output"
        with printed.open("wb") as output:
            # In a session of its own, like the broker: Linux shares processors fairly between sessions.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=home, env={**os.environ, "HOME": home}, start_new_session=True)
        try:
            deadline = time.monotonic() + seconds_max
            while True:
                text = printed.read_text(errors="replace")
                reports = [tuple(float(number) for number in found.groups()) for found in report.finditer(text)]
                if is_enough(reports):
                    return reports, cpu_seconds(process.pid)
                if process.poll() is not None or time.monotonic() > deadline:
                    raise BenchmarkFailed(f"{program} made {len(reports)} reports: {text[-3000:]}")
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name-server", default="127.0.0.1:9876")
    parser.add_argument("--topic", default="BenchmarkTest")
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    produced = produce(options.name_server, options.topic, options.threads, options.size, options.seconds)
    print(json.dumps({"messages_per_second": round(produced.messages_per_second), "average_ms": produced.average_ms,
                      "max_ms": produced.max_ms}, indent=2), file=sys.stdout)


if __name__ == "__main__":
    main()
