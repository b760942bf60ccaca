"""Measures what timed messages cost Regulus and RocketMQ 5.3.3, when they are sent, waiting and due.

    PYTHONPATH=build/compiled python bench/timers.py [DIRECTORY] [--pending 100000 300000 1000000] [--sends 20000]
                                                     [--rounds 3] [--due 20000] [--only regulus]

Sends: `--connections` connections with 32 requests under way each send `--sends` messages of 128 bytes, plain ones and
ones that are due in an hour or later, in turn. Each figure is the median of the rounds, without the first.

Pending: the given number of messages wait, spread over the seconds of the day that begins in an hour. Then follow a
round of both kinds of sends, the memory of the process without files, and the time from the start of the process to its
first answer, after a clean stop and after a kill.

Late: `--due` messages become due within 10 s, from 5 s after the first send on, while plain sends continue. The figure
is how late each one reaches a waiting pull; sender and receiver use the same clock. A tick takes a second, so the mean
is half a second at best.

`CPU` is the broker's CPU seconds per million messages. RocketMQ 4.9.8 has no timers.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from java_broker import Broker, make_brokers

from regulus.client.administration.admin import Admin
from regulus.model.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.transport import event_loop
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, split_address
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers.pull_message import PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand

_TOPIC, _PLAIN_TOPIC = "Timed", "Plain"
_QUEUES = 8
_BODY = bytes(128)
_IN_FLIGHT = 32                     # requests under way on each connection
_TIMEOUT_MS = 30_000
_HOUR_S, _DAY_S = 3_600, 86_400
_DUE_AFTER_MS, _DUE_WITHIN_MS = 5_000, 10_000
_LATE_MAX_S = 60.0              # a message that has not come by then counts as lost


@dataclass(frozen=True, slots=True)
class Sends:
    """Messages a second, and CPU seconds of the broker for a million."""

    rate: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} | {self.cpu:.1f}"


def _request(number: int, topic: str, properties: str) -> RemotingCommand:
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, {
        "a": "bench", "b": topic, "c": "TBW102", "d": "4", "e": str(number % _QUEUES), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": f"UNIQ_KEY\x01{number:032X}\x02{properties}", "j": "0",
        "k": "false", "m": "false"}, _BODY)


def _plain(number: int) -> RemotingCommand:
    return _request(number, _PLAIN_TOPIC, "")


def _timed(number: int) -> RemotingCommand:
    return _request(number, _TOPIC, f"TIMER_DELAY_SEC\x01{_HOUR_S + number % _DAY_S}\x02")


async def _send_all(connection: Connection, requests: Iterator[RemotingCommand]) -> None:
    """Send one request after the other. Several of these tasks share the requests."""
    for request in requests:
        answer = await connection.request(request, _TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise SystemExit(f"a send was answered {answer.code}: {answer.remark}")


async def _send(broker: Broker, requests: Iterator[RemotingCommand], connections: int) -> None:
    opened = [await connect(*split_address(broker.broker_address)) for _ in range(connections)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for connection in opened:
                for _ in range(_IN_FLIGHT):
                    tasks.create_task(_send_all(connection, requests))
    finally:
        for connection in opened:
            connection.close()


def _measure_sends(broker: Broker, requests: Iterator[RemotingCommand], count: int, connections: int) -> Sends:
    before, begun = _processor_s(broker.broker_pid), time.perf_counter()
    event_loop.run(_send(broker, requests, connections))
    seconds, cpu = time.perf_counter() - begun, _processor_s(broker.broker_pid) - before
    return Sends(count / seconds, cpu / count * 1e6)


def _rounds(broker: Broker, first: int, arguments: argparse.Namespace) -> dict[str, Sends]:
    """The medians of the plain sends and of the timed ones."""
    found: dict[str, list[Sends]] = {"plain": [], "timed": []}
    for number in range(arguments.rounds + 1):
        for kind, make in (("plain", _plain), ("timed", _timed)):
            begin = first + number * arguments.sends
            requests = (make(each) for each in range(begin, begin + arguments.sends))
            measured = _measure_sends(broker, requests, arguments.sends, arguments.connections)
            if number:
                found[kind].append(measured)
    return {kind: Sends(statistics.median(each.rate for each in rounds), statistics.median(each.cpu for each in rounds))
            for kind, rounds in found.items()}


async def _make_topics(broker: Broker) -> None:
    async with Admin(broker.name_server_address) as admin:
        for topic in (_TOPIC, _PLAIN_TOPIC):
            await admin.create_topic(TopicConfig(topic_name=topic, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES))


# --- pending messages ------------------------------------------------------------------------------------------------

def _start_s(broker: Broker) -> float:
    begun = time.perf_counter()
    broker.start()
    return time.perf_counter() - begun


def _measure_pending(broker: Broker, waiting: int, pending: int, arguments: argparse.Namespace) -> int:
    """Fill the broker up to this number of pending messages and print the figures; returns how many are pending."""
    requests = (_timed(number) for number in range(waiting, pending))
    event_loop.run(_send(broker, requests, arguments.connections))
    sends = _rounds(broker, pending, arguments)
    memory = _own_bytes(broker.broker_pid) / (1 << 20)
    broker.stop()
    clean_s = _start_s(broker)
    broker.kill()
    killed_s = _start_s(broker)
    print(f"| {broker.name} | {pending:,} | {sends['plain']} | {sends['timed']} | {memory:,.0f} | {clean_s:.1f} | "
          f"{killed_s:.1f} |", flush=True)
    return pending + (arguments.rounds + 1) * arguments.sends


# --- late messages ---------------------------------------------------------------------------------------------------

async def _late(broker: Broker, arguments: argparse.Namespace) -> list[float]:
    """How late each message came, in ms, sorted."""
    first_ms = time.time_ns() // 1_000_000 + _DUE_AFTER_MS
    due = [first_ms + number * _DUE_WITHIN_MS // arguments.due for number in range(arguments.due)]
    requests = (_request(number, _TOPIC, f"TIMER_DELIVER_MS\x01{due_ms}\x02") for number, due_ms in enumerate(due))
    pulling = await connect(*split_address(broker.broker_address))
    late: list[float] = []
    pulls = [asyncio.create_task(_take(pulling, queue_id, late)) for queue_id in range(_QUEUES)]
    await _send(broker, requests, 1)
    load = asyncio.create_task(_send(broker, (_plain(number) for number in range(1 << 40)), 1))
    with suppress(TimeoutError):
        async with asyncio.timeout(_LATE_MAX_S):
            while len(late) < arguments.due:
                await asyncio.sleep(0.1)
    for task in (load, *pulls):
        task.cancel()
    await asyncio.wait((load, *pulls))
    pulling.close()
    if len(late) != arguments.due or min(late) < 0:
        raise SystemExit(f"of {arguments.due} messages {broker.name} delivered {len(late)}, the first of them "
                         f"{-min(late, default=0):.0f} ms early")
    return sorted(late)


async def _take(connection: Connection, queue_id: int, late: list[float]) -> None:
    offset = 0
    while True:
        pull = PullMessageRequest("bench", _TOPIC, queue_id, offset, 32, PULL_SUBSCRIPTION | PULL_SUSPEND,
                                  suspend_timeout_millis=15_000, subscription="*", sub_version=1)
        answer = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, pull.ext()), _TIMEOUT_MS)
        if answer.code == ResponseCode.SUCCESS:
            now_ms = time.time_ns() / 1e6
            late += [now_ms - int(message.properties["TIMER_DELIVER_MS"])
                     for message in message_record.decode_all(answer.body)]
            offset = int(answer.ext["nextBeginOffset"])


# --- the process -----------------------------------------------------------------------------------------------------

def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _own_bytes(pid: int) -> int:
    """Resident memory of a process in bytes, without mapped files."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise SystemExit(f"/proc/{pid}/status does not say RssAnon")


def _run(broker: Broker, arguments: argparse.Namespace) -> None:
    broker.start()
    event_loop.run(_make_topics(broker))
    late = event_loop.run(_late(broker, arguments))
    print(f"{broker.name}: late by {statistics.median(late):,.0f} ms (median), "
          f"{late[len(late) * 99 // 100]:,.0f} (p99), {late[-1]:,.0f} (worst)\n\n"
          "| broker | pending | sends/s | CPU s/million | timed sends/s | CPU s/million | own MiB | start s | "
          "after a kill s |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    waiting = 0
    for pending in (0, *arguments.pending):
        waiting = _measure_pending(broker, waiting, max(pending, waiting), arguments)
    broker.kill()
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--pending", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--sends", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--due", type=int, default=20_000)
    parser.add_argument("--only", default="", help="measure only brokers with this in their names")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        brokers = [broker for broker in make_brokers(Path(folder), "async")
                   if "4.9" not in broker.name and arguments.only in broker.name]
        try:
            print(f"load {os.getloadavg()[0]:.1f}\n")
            for broker in brokers:
                _run(broker, arguments)
        finally:
            for broker in brokers:
                broker.kill()


if __name__ == "__main__":
    main()
