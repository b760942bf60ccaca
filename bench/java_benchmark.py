"""RocketMQ's own benchmark programs (rocketmq-example) on one broker, bounded in time.

    python bench/java_benchmark.py --name-server 127.0.0.1:9876 --threads 64 --size 128

They run until they are ended and print a line a second; the first seconds, in which the JVM compiles, do not count.
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
WARM_UP_S = 4
CONSUMER_AVERAGES_S = 9
START_MAX_S = 60         # from its start to its first report, on a busy machine
CONSUME_MAX_S = 120
PAST_THE_BEST = 0.9      # of the best report: one below says that the backlog has ended
Reports = list[tuple[float, ...]]
_PACKAGE = "org.apache.rocketmq.example.benchmark"
_HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC")
_SENT = re.compile(r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +([\d.]+) \| "
                   r"Send Failed: (\d+) \| Response Failed: (\d+)")
_CONSUMED = re.compile(r"TPS: (\d+)")


@dataclass(frozen=True, slots=True)
class Consumed:
    """`client_cpu_seconds`: of the program from its start to the end of the backlog."""

    messages_per_second: float
    client_cpu_seconds: float


class BenchmarkFailed(Exception):
    """The program ended by itself, printed nothing or counted failures; the text carries what it printed."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Means over the seconds that count; the maximum is the longest of them all."""

    messages_per_second: float
    average_ms: float
    max_ms: float


def produce(name_server: str, topic: str, threads: int, size: int, seconds: int) -> Produced:
    """The benchmark's synchronous producer. Raises BenchmarkFailed when a send failed."""
    reports, _ = _run("Producer", ["-n", name_server, "-t", topic, "-w", str(threads), "-s", str(size), "-ri", "1000"],
                      _SENT, lambda reports: len(reports) >= WARM_UP_S + seconds, WARM_UP_S + seconds + START_MAX_S)
    counted = reports[WARM_UP_S:]
    if any(report[3] or report[4] for report in counted):
        raise BenchmarkFailed(f"sends failed: {counted}")
    return Produced(messages_per_second=_mean([report[0] for report in counted]),
                    average_ms=_mean([report[2] for report in counted]), max_ms=max(report[1] for report in counted))


def consume(name_server: str, topic: str, group: str, threads: int, backlog: int) -> Consumed:
    """The benchmark's push consumer takes a backlog of so many to its end.

    A report comes each second and averages over the nine before it; the best counts. Raises BenchmarkFailed when the
    backlog did not last that long: then the report tells its size alone.
    """
    def is_taken(reports: Reports) -> bool:
        return bool(reports) and reports[-1][0] < PAST_THE_BEST * max(report[0] for report in reports)

    # Some of these consumers, of either broker, begin 20 s late: they asked who else is in the group too early.
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
    """The numbers of its reports, one a second, until they are enough; and its CPU seconds. Then it is ended."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-benchmark-") as home:
        command = java_command(CLIENT_VERSION, Path(home), f"{_PACKAGE}.{program}", arguments, _HEAP,
                               also=[java_libraries("benchmark")])
        printed = Path(home) / "output"
        with printed.open("wb") as output:
            # In a session of its own, as the broker is: processors are shared out fairly between sessions.
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
