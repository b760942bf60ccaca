"""Measures what waiting pulls with SQL92 conditions cost while messages arrive that match none of them.

    PYTHONPATH=build/compiled python bench/held_conditions.py [DIRECTORY] [--pulls 1000] [--messages 2000] [--rounds 3]

Messages are sent in 8 lanes, one after the other in each: first without pulls, then while one connection has pulls
waiting at 8 queues, each with a condition of its own. The figure is the CPU time of the broker for each test of a
message by a waiting pull: the cost of the second run less that of the first, as the median of the rounds. `Answers` are
those that came meanwhile, although no message matches.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from filtered_pulls import _processor_s as processor_s
from java_broker import Broker, make_brokers

from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.errors import RegulusError
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from regulus.model.topics import TopicConfig
from regulus.transport import event_loop
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, split_address
from regulus.wire.codes import RequestCode
from regulus.wire.headers.pull_message import PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand

_TOPIC = "Held"
_QUEUES = 8
_HOLD_MS = 120_000                  # longer than a run, so that the pulls keep waiting


async def _send(broker: Broker, count: int) -> float:
    """Send the messages; returns the CPU seconds of the broker for them."""
    async with Producer(broker.name_server_address, "sending") as producer:
        queues = await producer.fetch_publish_message_queues(_TOPIC)
        before = processor_s(broker.broker_pid)

        async def lane(queue: MessageQueue) -> None:
            for _ in range(count // _QUEUES):
                await producer.send(Message(_TOPIC, bytes(128), properties={"digit": "7", "name": "anna"}), queue=queue)

        await asyncio.gather(*map(lane, queues))
        return processor_s(broker.broker_pid) - before


async def _offsets(connection: Connection) -> list[int]:
    """The offset of the next message in each queue."""
    offsets = []
    for queue_id in range(_QUEUES):
        asked = RemotingCommand.request(RequestCode.GET_MAX_OFFSET, {"topic": _TOPIC, "queueId": str(queue_id)})
        offsets.append(int((await connection.request(asked, 30_000)).ext["offset"]))
    return offsets


def _hold(connection: Connection, offsets: list[int], number: int) -> asyncio.Task[RemotingCommand]:
    queue_id = number % _QUEUES
    pull = PullMessageRequest(f"held{number}", _TOPIC, queue_id, offsets[queue_id], 32,
                              PULL_SUBSCRIPTION | PULL_SUSPEND, suspend_timeout_millis=_HOLD_MS, sub_version=1,
                              expression_type="SQL92", subscription=f"digit = {number + 10} AND name IS NOT NULL")
    return asyncio.ensure_future(
        connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext()), 2 * _HOLD_MS))


async def _round(broker: Broker, pulls: int, count: int) -> tuple[float, int]:
    """CPU microseconds for one test of a message, and the number of answers that came."""
    alone = await _send(broker, count)
    connection = await connect(*split_address(broker.broker_address))
    offsets = await _offsets(connection)
    held = [_hold(connection, offsets, number) for number in range(pulls)]
    await asyncio.sleep(2)
    beside = await _send(broker, count)
    answers = sum(each.done() for each in held)
    for each in held:
        each.cancel()
    connection.close()
    await asyncio.gather(*held, return_exceptions=True)
    return (beside - alone) / (pulls * (count // _QUEUES)) * 1e6, answers


async def _prepare(broker: Broker) -> None:
    async with Admin(broker.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name=_TOPIC, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES))
    for _ in range(20):
        try:
            await _send(broker, _QUEUES * 4)
            return
        except RegulusError:
            await asyncio.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--pulls", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, int]]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        brokers = make_brokers(Path(folder), "async", enablePropertyFilter="true")
        try:
            for broker in brokers:
                broker.start()
                event_loop.run(_prepare(broker))
            for number in range(arguments.rounds + 1):
                for broker in brokers:
                    measured = event_loop.run(_round(broker, arguments.pulls, arguments.messages))
                    if number:
                        found.setdefault(broker.name, []).append(measured)
        finally:
            for broker in brokers:
                broker.kill()
    print(f"{arguments.pulls:,} pulls, {arguments.messages:,} messages, load {os.getloadavg()[0]:.1f}\n")
    print("| broker | us for a look | answers |\n| --- | --- | --- |")
    for name, rounds in found.items():
        print(f"| {name} | {statistics.median(each for each, _ in rounds):.1f} | "
              f"{statistics.median(answers for _, answers in rounds):,.0f} |")


if __name__ == "__main__":
    main()
