"""`regulus bench`: how many messages a second this machine and that broker manage."""

import asyncio
import time

import click

from regulus.cli.connection import Server, with_server
from regulus.cli.options import COUNT, Finite
from regulus.client.config import ConsumeFromWhere, ProducerConfig, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.model.message import Message, MessageExt
from regulus.transport import event_loop

_TOPIC = "regulus_bench"
"""Not RocketMQ's own, which has 1,024 queues, a directory each."""
_GROUP = "benchmark"


@click.group()
def bench() -> None:
    """Measure how many messages a second go in and come out."""


@bench.command()
@click.option("--topic", default=_TOPIC, show_default=True)
@click.option("-c", "--count", type=COUNT, default=100_000, show_default=True, help="Messages to send.")
@click.option("-s", "--size", type=click.IntRange(1, 4 << 20), default=128, show_default=True, help="Bytes of a body.")
@click.option("-f", "--in-flight", type=click.IntRange(1, 10_000), default=128, show_default=True,
              help="Sends under way at the same time.")
@click.option("--auto-batch", is_flag=True, help="Gather sends into batches.")
@with_server
def producer(server: Server, topic: str, count: int, size: int, in_flight: int, auto_batch: bool) -> None:
    """Send COUNT messages and print the rate and the times they took."""
    config = ProducerConfig(auto_batch=auto_batch, batch_max_delay_ms=0, compress_msg_body_over_howmuch=5 << 20,
                            access_key=server.access_key, secret_key=server.secret_key, tls=server.tls)
    times, seconds = event_loop.run(_send(server.name_server, config, topic, count, size, in_flight))
    times.sort()
    click.echo(f"{count} messages of {size} bytes in {seconds:.2f} s: {count / seconds:,.0f}/s; one send took "
               f"{_ms(times, 0.5)} ms (median), {_ms(times, 0.99)} ms (99 %), {_ms(times, 1.0)} ms (longest)")


async def _send(name_server: str, config: ProducerConfig, topic: str, count: int, size: int,
                in_flight: int) -> tuple[list[float], float]:
    body = b"x" * size
    times: list[float] = []
    turns = iter(range(count))
    clock = time.perf_counter
    async with Producer(name_server, _GROUP, config) as sender:
        await sender.send(Message(topic, body))

        async def send_some() -> None:
            for _ in turns:
                begun = clock()
                await sender.send(Message(topic, body))
                times.append(clock() - begun)

        begun = clock()
        await asyncio.gather(*(send_some() for _ in range(in_flight)))
        return times, clock() - begun


@bench.command()
@click.option("--topic", default=_TOPIC, show_default=True)
@click.option("--group", default=_GROUP, show_default=True)
@click.option("-c", "--count", type=COUNT, default=100_000, show_default=True, help="Messages to consume.")
@click.option("--idle", type=Finite(0.1), default=10.0, show_default=True,
              help="Seconds without a message after which to stop.")
@with_server
def consumer(server: Server, topic: str, group: str, count: int, idle: float) -> None:
    """Consume COUNT messages, from the oldest on, and print the rate."""
    consumed, seconds = event_loop.run(_consume(server, topic, group, count, idle))
    rate = consumed / seconds if seconds else 0.0
    click.echo(f"{consumed} messages in {seconds:.2f} s: {rate:,.0f}/s")


async def _consume(server: Server, topic: str, group: str, count: int, idle: float) -> tuple[int, float]:
    """How many came, and the seconds between the first and the last."""
    consumed = 0
    first = last = 0.0
    done = asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        nonlocal consumed, first, last
        last = time.perf_counter()
        first = first or last
        consumed += len(messages)
        if consumed >= count:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    receiver = PushConsumer(server.name_server, group, listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, access_key=server.access_key,
        secret_key=server.secret_key, tls=server.tls))
    receiver.subscribe(topic)
    async with receiver:
        while not done.is_set():
            before = consumed
            try:
                async with asyncio.timeout(idle):
                    await done.wait()
            except TimeoutError:
                if consumed == before:
                    break
    return consumed, last - first


def _ms(times: list[float], part: float) -> str:
    return f"{times[min(len(times) - 1, int(len(times) * part))] * 1000:.2f}" if times else "-"
