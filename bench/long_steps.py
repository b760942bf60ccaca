"""Measures how long one change blocks a broker's event loop, by the number of its topics and groups.

    python bench/long_steps.py [--sizes 1000x30,10000x300,100000x3000] [--name-server own|beside]

For each size, topics x groups, a broker starts with a store that has that many of both; each topic is consumed by one
group. Then one kind of change is made after the other. For each the table shows when the answer came, and the longest
step of the loop until some seconds later. A step has two figures: how late a timer of 1 ms was at worst, and how much
CPU time the thread took between two turns of the timer. The second one is the loop's own work, even on a busy machine.
The name server is in the broker's process (`own`, as in `regulus up`) or in another one (`beside`), which is then
measured as well.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.cli.serve import tune_interpreter
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.transport import event_loop
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"
TIMER_S = 0.001                     # period of the timer that shows late turns of the loop
SAVE_INTERVAL_MS = 1000             # how often the broker saves offsets, so that it happens in each measurement
REGISTER_PERIOD_MS = 20_000         # how often the broker registers its topics
TOPICS_REGISTERED_PER_S = 5_000     # at least; measuring begins when all are registered
AFTERWARDS_S = 2.5                  # steps up to this long after a change count for it
TIMEOUT_MS = 120_000
QUEUES = 4
SEND = {"a": "PG", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
        "i": "UNIQ_KEY\x01K", "j": "0", "k": "false", "m": "false"}


# --- the process that is measured ------------------------------------------------------------------------------------


class LateTimer:
    """Measures how late a timer of 1 ms is at worst, and the longest CPU time of the thread between two of its turns.

    Both are in ms, since the last time they were taken."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = time.perf_counter()
        self._cpu = time.thread_time()
        self._late = self._work = 0.0
        self._run()

    def _run(self) -> None:
        now, cpu = time.perf_counter(), time.thread_time()
        self._late = max(self._late, now - self._due)
        self._work = max(self._work, cpu - self._cpu)
        self._due, self._cpu = now + TIMER_S, cpu
        self._loop.call_later(TIMER_S, self._run)

    def take(self) -> str:
        taken = f"{self._late * 1000} {self._work * 1000}"
        self._late = self._work = 0.0
        return taken


async def serve(store: str, name_server: str) -> None:
    """Run the server. Each line on the standard input is answered with the timer's figures, and its end stops the
    server."""
    transport = TransportConfig(bind_address=HOST)
    namesrv = NamesrvConfig(listen_port=0, bind_address=HOST)
    config = BrokerConfig(listen_port=0, broker_ip1=HOST, flush_consumer_offset_interval=SAVE_INTERVAL_MS,
                          register_name_server_period=REGISTER_PERIOD_MS, namesrv_addr=name_server)
    server: Regulus | NameServer | BrokerServer
    if not store:
        server = NameServer(namesrv, transport)
    elif name_server:
        server = BrokerServer(config, MessageStoreConfig(store_path_root_dir=store), transport_config=transport)
    else:
        server = Regulus(config, MessageStoreConfig(store_path_root_dir=store), namesrv, transport_config=transport)
    await server.start()
    tune_interpreter()
    print(server.broker_server.port if isinstance(server, Regulus) else server.port, flush=True)
    timer, ended = LateTimer(), asyncio.Event()

    def asked() -> None:
        if os.read(0, 64):
            print(timer.take(), flush=True)
        else:
            ended.set()

    asyncio.get_running_loop().add_reader(0, asked)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(0)
    await server.stop()


class Served:
    """A child process that runs the server."""

    def __init__(self, store: str = "", name_server: str = "") -> None:
        self._process = subprocess.Popen([sys.executable, __file__, "--serve", store, name_server],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._line())

    def take(self) -> tuple[float, float]:
        """The worst lateness and the longest work since the last call, in ms."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        late, work = map(float, self._line().split())
        return late, work

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


# --- the store -------------------------------------------------------------------------------------------------------


def write_store(root: Path, topics: int, groups: int) -> None:
    version = {"counter": topics, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    names = [f"topic-{number:06d}" for number in range(topics)]
    config = root / "config"
    config.mkdir(parents=True)
    documents = {
        "topics": {"dataVersion": version, "topicConfigTable": {
            name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6} for name in names}},
        "regulusTopicEpochs": {"topicEpochs": {name: number + 1 for number, name in enumerate(names)}},
        "subscriptionGroup": {"dataVersion": version, "subscriptionGroupTable": {
            f"group-{number:05d}": {"groupName": f"group-{number:05d}"} for number in range(groups)}},
        "consumerOffset": {"dataVersion": version, "offsetTable": {
            f"{name}@group-{number % groups:05d}": dict.fromkeys(map(str, range(QUEUES)), number)
            for number, name in enumerate(names)}},
    }
    for name, document in documents.items():
        (config / f"{name}.json").write_text(json.dumps(document))


# --- the changes -----------------------------------------------------------------------------------------------------


async def ask(connection: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> None:
    answer = await connection.request(RemotingCommand.request(int(code), ext, body), TIMEOUT_MS)
    assert answer.code == 0, answer.remark


def new_topic(connection: Connection) -> Awaitable[None]:
    return ask(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, {
        "topic": "a-new-topic", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"})


def first_send(connection: Connection) -> Awaitable[None]:
    return ask(connection, RequestCode.SEND_MESSAGE_V2, {**SEND, "b": "sent-to-first"}, b"body")


def heartbeat(connection: Connection) -> Awaitable[None]:
    group = ConsumerData(group_name="a-new-group", consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING",
                         consume_from_where="CONSUME_FROM_LAST_OFFSET", unit_mode=False,
                         subscription_data_set=[SubscriptionData(topic="topic-000000", sub_string="*")])
    body = HeartbeatData(client_id="bench", consumer_data_set=[group], producer_data_set=[]).encode()
    return ask(connection, RequestCode.HEART_BEAT, {}, body)


async def commit(connection: Connection, count: int) -> None:
    for first in range(0, count, 100):
        await asyncio.gather(*[ask(connection, RequestCode.UPDATE_CONSUMER_OFFSET, {
            "consumerGroup": "group-00000", "topic": f"topic-{number:06d}", "queueId": "0", "commitOffset": "7"})
            for number in range(first, min(count, first + 100))])


async def nothing(connection: Connection) -> None:
    await asyncio.sleep(REGISTER_PERIOD_MS / 1000)


DEEDS: dict[str, Callable[[Connection], Awaitable[None]]] = {
    "idle, registration": nothing,
    "new topic": new_topic,
    "first send to a topic": first_send,
    "first heartbeat of a group": heartbeat,
    "one committed offset": lambda connection: commit(connection, 1),
    "1000 committed offsets": lambda connection: commit(connection, 1000),
}


async def longest_steps(served: list[Served]) -> list[tuple[float, float]]:
    """The longest step of each server, including work that the change caused later."""
    await asyncio.sleep(AFTERWARDS_S)
    first = [each.take() for each in served]
    second = [each.take() for each in served]
    return [(max(one[0], two[0]), max(one[1], two[1])) for one, two in zip(first, second, strict=True)]


async def measure(topics: int, groups: int, beside: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as root:
        write_store(Path(root), topics, groups)
        served = [Served()] if beside else []
        began = time.perf_counter()
        served.insert(0, Served(root, f"{HOST}:{served[0].port}" if beside else ""))
        print(f"{topics} topics x {groups} groups: started in {time.perf_counter() - began:.1f} s")
        connection = await connect(HOST, served[0].port, lambda connection, requests: None)
        await asyncio.sleep(topics / TOPICS_REGISTERED_PER_S)
        await longest_steps(served)
        for name, deed in DEEDS.items():
            for each in served:
                each.take()
            began = time.perf_counter()
            await deed(connection)
            answered = (time.perf_counter() - began) * 1000
            longest = await longest_steps(served)
            steps = "   ".join(f"{late:8.1f} ms, of work {work:7.1f} ms" for late, work in longest)
            print(f"    {name:28} answer {answered:9.1f} ms   longest step {steps}", flush=True)
        connection.close()
        for each in served:
            each.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000x30,10000x300,100000x3000")
    parser.add_argument("--name-server", choices=("own", "beside"), default="own")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        event_loop.run(serve(*options.serve))
        return
    for size in options.sizes.split(","):
        topics, groups = map(int, size.split("x"))
        event_loop.run(measure(topics, groups, options.name_server == "beside"))


if __name__ == "__main__":
    main()
