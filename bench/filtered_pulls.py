"""Measures what the SQL92 condition of a consumer costs: pulls of one backlog from Regulus and from RocketMQ.

    PYTHONPATH=build/compiled python bench/filtered_pulls.py [DIRECTORY] [--messages 400000] [--rounds 3]

Each broker gets the same messages of 128 bytes with four properties; the condition is true for one in ten. One
connection pulls them, with one pull under way for each of 8 queues. The store was read before, so it is in memory. The
time is from the first pull to the last message, and `CPU` is the broker's CPU seconds per million messages tested. The
brokers take turns, the first round of each does not count, and each figure is the median.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from java_broker import Broker, make_brokers

from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.model.message import Message
from regulus.model.sys_flag import PULL_SUBSCRIPTION
from regulus.model.topics import TopicConfig
from regulus.transport import event_loop
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, split_address
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers.pull_message import PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand

_TOPIC = "Filtered"
_QUEUES = 8
_BATCH = 200
_CONDITION = "(digit = 7 AND color IN ('red', 'blue')) OR (digit BETWEEN 7 AND 7 AND weight > 1.5 AND name IS NOT NULL)"
_TAKEN = 10                     # the condition is true for one message in this many
_SETTINGS = {"enablePropertyFilter": "true", "maxTransferCountOnMessageInMemory": "32"}


def _message(number: int) -> Message:
    properties = {"digit": str(number % _TAKEN), "color": ("red", "green")[number // _TAKEN % 2], "weight": "2.5",
                  "name": "anna"}
    return Message(_TOPIC, bytes(128), properties=properties)


async def _fill(broker: Broker, count: int) -> None:
    async with Admin(broker.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name=_TOPIC, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES))
    async with Producer(broker.name_server_address, "filling") as producer:
        for first in range(0, count, _BATCH * 16):
            await asyncio.gather(*[
                producer.send_batch([_message(number) for number in range(begin, min(begin + _BATCH, count))])
                for begin in range(first, min(first + _BATCH * 16, count), _BATCH)])


async def _drain(connection: Connection, queue_id: int) -> int:
    """Pull all messages of one queue for which the condition is true; returns their bytes."""
    offset = size = 0
    while True:
        pull = PullMessageRequest("filtered", _TOPIC, queue_id, offset, 32, PULL_SUBSCRIPTION, subscription=_CONDITION,
                                  sub_version=1, expression_type="SQL92")
        answer = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext()), 30_000)
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return size
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
            raise SystemExit(f"a pull was answered {answer.code}: {answer.remark}")
        offset, size = int(answer.ext["nextBeginOffset"]), size + len(answer.body)


async def _round(broker: Broker, count: int) -> tuple[float, float]:
    """Messages tested a second, and the broker's CPU seconds for a million."""
    connection = await connect(*split_address(broker.broker_address))
    before, begun = _processor_s(broker.broker_pid), time.perf_counter()
    sizes = await asyncio.gather(*[_drain(connection, queue_id) for queue_id in range(_QUEUES)])
    seconds, cpu = time.perf_counter() - begun, _processor_s(broker.broker_pid) - before
    connection.close()
    if not count // _TAKEN * 128 < sum(sizes) < count // _TAKEN * 600:
        raise SystemExit(f"{broker.name} gave {sum(sizes)} bytes, which are not one message in {_TAKEN} of {count}")
    return count / seconds, cpu / count * 1e6


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_through(store: Path) -> None:
    for path in sorted(store.rglob("*")):
        if path.is_file() and (path.parent.name == "commitlog" or "consumequeue" in path.parts):
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass


def _measure(brokers: Sequence[Broker], arguments: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    for broker in brokers:
        broker.start()
        event_loop.run(_fill(broker, arguments.messages))
    found: dict[str, list[tuple[float, float]]] = {broker.name: [] for broker in brokers}
    for number in range(arguments.rounds + 1):
        for broker in brokers:
            _read_through(broker.store)
            measured = event_loop.run(_round(broker, arguments.messages))
            if number:
                found[broker.name].append(measured)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        brokers = make_brokers(Path(folder), "async", **_SETTINGS)
        try:
            found = _measure(brokers, arguments)
        finally:
            for broker in brokers:
                broker.kill()
    print(f"{arguments.messages:,} messages, load {os.getloadavg()[0]:.1f}\n")
    print("| broker | looked at a second | CPU s/million |\n| --- | --- | --- |")
    for name, rounds in found.items():
        print(f"| {name} | {statistics.median(rate for rate, _ in rounds):,.0f} | "
              f"{statistics.median(cpu for _, cpu in rounds):.2f} |")


if __name__ == "__main__":
    main()
