"""Measures sends of the asyncio producer, by a given number of callers at a time or all at once.

    python bench/client_sends.py --in-flight 1 64 1000 --auto-batch
    python bench/client_sends.py --gather 100000

The broker is a process of its own. With --gather, the messages in the topic are counted afterwards: there must be as
many as sends returned. CPU is that of this process, which a busy machine disturbs less than the rate.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from regulus.client.administration.admin import Admin
from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer
from regulus.model.message import Message
from regulus.testing.running_server import ServerProcess
from regulus.transport import event_loop


async def closed_loop(name_server: str, config: ProducerConfig, count: int, in_flight: int, size: int) -> None:
    """Send with `in_flight` callers, each of which sends its next message when the last one is stored."""
    body = b"x" * size
    turns = iter(range(count))
    times: list[float] = []
    async with Producer(name_server, "bench", config) as producer:
        for _ in range(64):
            await producer.send(Message("Bench", body))

        async def send_some() -> None:
            for _ in turns:
                begun = time.perf_counter()
                await producer.send(Message("Bench", body))
                times.append(time.perf_counter() - begun)

        begun, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(send_some() for _ in range(in_flight)))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    times.sort()
    print(f"in flight {in_flight:5}  {count / seconds:9,.0f}/s  {cpu / count * 1e6:6.1f} us CPU  "
          f"p50 {times[len(times) // 2] * 1e3:.2f} ms  p99 {times[len(times) * 99 // 100] * 1e3:.2f} ms", flush=True)


async def gather(name_server: str, config: ProducerConfig, count: int, size: int) -> None:
    """Send all messages at once, by a producer that has no route and no connection yet."""
    body = b"x" * size
    begun = time.perf_counter()
    async with Producer(name_server, "bench", config) as producer:
        results = await asyncio.gather(*(producer.send(Message("Gathered", body)) for _ in range(count)),
                                       return_exceptions=True)
    seconds = time.perf_counter() - begun
    failures = [result for result in results if isinstance(result, BaseException)]
    async with Admin(name_server) as admin:
        stored = sum(each.max_offset for each in (await admin.topic_stats("Gathered")).values())
    print(f"gather of {count}: {count - len(failures)} returned, {stored} stored, {seconds:.1f} s", flush=True)
    if failures:
        print(f"  the first failure: {type(failures[0]).__name__}: {failures[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", type=int, nargs="*", default=[])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--body-size", type=int, default=128)
    parser.add_argument("--gather", type=int, nargs="*", default=[])
    parser.add_argument("--auto-batch", action="store_true")
    parser.add_argument("--delay-ms", type=int, default=ProducerConfig().batch_max_delay_ms)
    options = parser.parse_args()
    config = ProducerConfig(auto_batch=options.auto_batch, batch_max_delay_ms=options.delay_ms)
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "build" if Path("build").is_dir() else None) as path, \
            ServerProcess(Path(path) / "store") as server:
        for in_flight in options.in_flight:
            count = min(options.count, 2_000 * in_flight)
            event_loop.run(closed_loop(server.name_server_address, config, count, in_flight, options.body_size))
        for count in options.gather:
            event_loop.run(gather(server.name_server_address, config, count, options.body_size))


if __name__ == "__main__":
    main()
