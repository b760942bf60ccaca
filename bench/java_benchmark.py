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
    lines = _run("Producer", ["-n", name_server, "-t", topic, "-w", str(threads), "-s", str(size), "-ri", "1000"],
                 seconds)
    reports = [tuple(float(number) for number in found.groups()) for line in lines if (found := _SENT.search(line))]
    if len(reports) <= WARM_UP_S or any(report[3] or report[4] for report in reports):
        raise BenchmarkFailed("\n".join(lines[-20:]))
    counted = reports[WARM_UP_S:]
    return Produced(messages_per_second=_mean([report[0] for report in counted]),
                    average_ms=_mean([report[2] for report in counted]), max_ms=max(report[1] for report in counted))


def consume(name_server: str, topic: str, group: str, threads: int, seconds: int) -> float:
    """Messages a second that the benchmark's push consumer takes from a backlog: the best of its seconds."""
    lines = _run("Consumer", ["-n", name_server, "-t", topic, "-g", group, "-p", "false", "-w", str(threads),
                              "-ri", "1000"], seconds)
    rates = [float(found[1]) for line in lines if (found := _CONSUMED.search(line))]
    if not rates or max(rates) == 0:
        raise BenchmarkFailed("\n".join(lines[-20:]))
    return max(rates)


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _run(program: str, arguments: list[str], seconds: int) -> list[str]:
    """What the program prints until it is ended, after warm-up and `seconds` more."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-benchmark-") as home:
        command = java_command(CLIENT_VERSION, Path(home), f"{_PACKAGE}.{program}", arguments, _HEAP,
                               also=[java_libraries("benchmark")])
        with (Path(home) / "output").open("w+") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=home, env={**os.environ, "HOME": home})
            try:
                time.sleep(WARM_UP_S + seconds + 2)
                ended = process.poll()
            finally:
                process.kill()
                process.wait(10)
            output.seek(0)
            lines = output.read().splitlines()
    if ended is not None:
        raise BenchmarkFailed("\n".join(lines[-20:]))
    return lines


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
