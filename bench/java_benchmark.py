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
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from real_rocketmq import java_command
from toolchain import java_libraries

CLIENT_VERSION = "5.3.3"
WARM_UP_S = 4
CONSUMER_AVERAGES_S = 9
START_MAX_S = 60         # from its start to its first report, on a busy machine
_PACKAGE = "org.apache.rocketmq.example.benchmark"
_HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC")
_SENT = re.compile(r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +([\d.]+) \| "
                   r"Send Failed: (\d+) \| Response Failed: (\d+)")
_CONSUMED = re.compile(r"TPS: (\d+)")


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
    counted = _run("Producer", ["-n", name_server, "-t", topic, "-w", str(threads), "-s", str(size), "-ri", "1000"],
                   _SENT, seconds)[WARM_UP_S:]
    if any(report[3] or report[4] for report in counted):
        raise BenchmarkFailed(f"sends failed: {counted}")
    return Produced(messages_per_second=_mean([report[0] for report in counted]),
                    average_ms=_mean([report[2] for report in counted]), max_ms=max(report[1] for report in counted))


def consume(name_server: str, topic: str, group: str, threads: int, seconds: int, backlog: int) -> float:
    """Messages a second that the benchmark's push consumer takes from a backlog of so many: its best report.

    A report comes each second and averages over the nine before it. Raises BenchmarkFailed when the backlog did not
    last that long: then the report tells its size alone.
    """
    reports = _run("Consumer", ["-n", name_server, "-t", topic, "-g", group, "-p", "false", "-w", str(threads),
                                "-ri", "1000"], _CONSUMED, seconds)
    best = max(report[0] for report in reports)
    if best == 0:
        raise BenchmarkFailed("the consumer took nothing")
    if best * CONSUMER_AVERAGES_S >= 0.99 * backlog:
        raise BenchmarkFailed(f"a backlog of {backlog:,} messages lasts for less than {CONSUMER_AVERAGES_S} s")
    return best


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _run(program: str, arguments: list[str], report: re.Pattern[str], seconds: int) -> list[tuple[float, ...]]:
    """The numbers of its reports, one a second: those of the warm-up, and `seconds` more. Then it is ended."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-benchmark-") as home:
        command = java_command(CLIENT_VERSION, Path(home), f"{_PACKAGE}.{program}", arguments, _HEAP,
                               also=[java_libraries("benchmark")])
        printed = Path(home) / "output"
        with printed.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=home, env={**os.environ, "HOME": home})
        try:
            deadline = time.monotonic() + WARM_UP_S + seconds + START_MAX_S
            while True:
                text = printed.read_text(errors="replace")
                reports = [tuple(float(number) for number in found.groups()) for found in report.finditer(text)]
                if len(reports) >= WARM_UP_S + seconds:
                    return reports
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
