"""Measures what RocketMQ 5 clients cost: `regulus up`, and RocketMQ's proxy with its broker in one process.

    PYTHONPATH=build/compiled python bench/grpc_front.py [DIRECTORY] [--messages 20000] [--rounds 3] [--clients 1000]

The load comes from `bench/grpc_load.py`, in a process of its own: sends of 1 KiB, then receives and acks of the same
messages, with 1, 16 and 64 calls under way on one connection. The servers take turns, the first round of each does not
count, and each figure is the median. `CPU` is the CPU time of the server for a million messages, and p99 is that of a
send or of an ack. `nothing` is a grpc.aio server whose handler is empty.

Memory is the resident memory of the server after the rounds: idle, and with the given number of clients. Each client
has a connection, a telemetry stream and a receive that the server holds. The heap of RocketMQ's proxy does not grow: it
takes 2 GiB at its start.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import grpc_load
from java_broker import HEAP, RELEASE_DEFAULTS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from child_process import ChildProcess
from ports import free_broker_port, free_ports
from real_rocketmq import RealProxy, RealRocketMQ, broker_settings
from regulus_server import RegulusServer
from remoting_probe import await_broker, await_port
from toolchain import our_environment

from regulus.client.administration.admin import Admin
from regulus.model.topics import TopicConfig

_HERE = Path(__file__).resolve().parent
_IN_FLIGHT = (1, 16, 64)
_QUEUES = 8
_LOAD_WITHIN_S = 600                # limit of one run of the load
_SETTINGS = {**RELEASE_DEFAULTS, "flushDiskType": "ASYNC_FLUSH"}


class Server(Protocol):
    name: str
    endpoint: str
    name_server_address: str    # empty: it has no broker

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


class Ours:
    name = "Regulus"

    def __init__(self, run: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        self._server = RegulusServer(run, grpc_port=port, **_SETTINGS)
        self.name_server_address = self._server.name_server_address

    @property
    def pid(self) -> int:
        return self._server.broker_pid

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()


class Java:
    """RocketMQ's proxy in its local mode. Its name server is another process, which is not measured."""

    name = "RocketMQ 5.3.3"

    def __init__(self, run: Path) -> None:
        broker_port = free_broker_port()
        self._broker = f"127.0.0.1:{broker_port}"
        self._name_server = RealRocketMQ("5.3.3", run / "name-server")
        self.name_server_address = self._name_server.name_server_address
        self._proxy = RealProxy(run / "proxy", self.name_server_address, java_options=HEAP, broker=broker_settings(
            self.name_server_address, broker_port, run / "store", **_SETTINGS))
        self.endpoint = self._proxy.endpoint

    @property
    def pid(self) -> int:
        return self._proxy.pid

    def start(self) -> None:
        self._name_server.start_name_server()
        self._proxy.home.mkdir(parents=True)
        self._proxy.start()
        await_broker(self._broker, self.name_server_address, self._proxy.check_alive)

    def kill(self) -> None:
        self._proxy.kill()
        self._name_server.kill()


class Nothing:
    name = "nothing (grpc.aio)"
    name_server_address = ""

    def __init__(self, run: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"127.0.0.1:{port}"
        self._run, self._process = run, None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._run.mkdir()
        port = self.endpoint.rpartition(":")[2]
        self._process = ChildProcess(self.name, [sys.executable, str(_HERE / "grpc_empty.py"), port],
                                     self._run / "log", our_environment(), self._run)
        await_port(self.endpoint, self._process.check_alive)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def _load(server: Server, *words: str) -> str:
    """Run the load and return its output. Raises SystemExit with its errors."""
    command = [sys.executable, str(_HERE / "grpc_load.py"), *words, "--address", server.endpoint]
    try:
        run = subprocess.run(command, capture_output=True, text=True, env=our_environment(), timeout=_LOAD_WITHIN_S,
                             check=False, start_new_session=True)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{server.name}: {' '.join(words)} took more than {_LOAD_WITHIN_S} s") from None
    if run.returncode:
        raise SystemExit(f"{server.name}: {' '.join(words)}\n{run.stderr[-3000:]}")
    return run.stdout


def _measured(server: Server, what: str, in_flight: int, messages: int) -> dict[str, float]:
    words = [what, "--count", str(messages), "--in-flight", str(in_flight), "--pids", str(server.pid)]
    found: dict[str, float] = json.loads(_load(server, *words, *([] if server.name_server_address else
                                                                 ["--without-settings"])))
    return found


async def _create_topic(server: Server) -> None:
    async with Admin(server.name_server_address) as admin:
        await admin.create_topic(TopicConfig(
            topic_name=grpc_load.TOPIC, read_queue_nums=_QUEUES, write_queue_nums=_QUEUES,
            attributes={"message.type": "NORMAL"}))


def _rounds(servers: Sequence[Server],
            arguments: argparse.Namespace) -> dict[tuple[str, int, str], list[dict[str, float]]]:
    found: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    for number in range(arguments.rounds + 1):
        for in_flight in arguments.in_flight:
            for what in ("send", "receive"):
                for server in servers:
                    if what == "send" or server.name_server_address:
                        measured = _measured(server, what, in_flight, arguments.messages)
                        if number:
                            found.setdefault((what, in_flight, server.name), []).append(measured)
    return found


def _memory_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has ended")


def _memory(server: Server, clients: int) -> tuple[float, float]:
    """Resident memory of the server in MiB, before the clients connect and with all of them."""
    before = _memory_mib(server.pid)
    command = [sys.executable, str(_HERE / "grpc_load.py"), "clients", "--count", str(clients), "--address",
               server.endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=our_environment(),
                          start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != b"open\n":
            raise SystemExit(f"{server.name}: {clients} clients could not connect")
        during = _memory_mib(server.pid)
        process.stdin.close()
    return before, during


def _report(found: dict[tuple[str, int, str], list[dict[str, float]]]) -> None:
    print("| calls | in flight | server | messages/s | p99 ms | CPU s/million | load's CPU s/million |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for (what, in_flight, name), rounds in found.items():
        figures = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        print(f"| {'send' if what == 'send' else 'receive + ack'} | {in_flight} | {name} | "
              f"{figures['messages_per_second']:,.0f} | {figures['latency_p99_ms']:.2f} | "
              f"{figures['server_cpu_seconds_per_million']:.0f} | "
              f"{figures['generator_cpu_seconds_per_million']:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--messages", type=int, default=20_000, help="messages in each part of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, nargs="+", default=_IN_FLIGHT)
    parser.add_argument("--clients", type=int, default=1_000, help="clients to measure memory with; 0: do not")
    parser.add_argument("--ours-alone", action="store_true", help="run Regulus only, for a profile")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))    # inherited by the servers and the load
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        kinds = (Ours,) if arguments.ours_alone else (Ours, Java, Nothing)
        servers: list[Server] = [kind(Path(folder) / kind.__name__.lower()) for kind in kinds]
        try:
            for server in servers:
                server.start()
                if server.name_server_address:
                    asyncio.run(_create_topic(server))
                    _load(server, "begin")
            found = _rounds(servers, arguments)
            memory = {server.name: _memory(server, arguments.clients) for server in servers
                      if arguments.clients and server.name_server_address}
        finally:
            for server in servers:
                server.kill()
    print(f"{arguments.messages:,} messages of 1 KiB a part, load {os.getloadavg()[0]:.1f}\n")
    _report(found)
    if memory:
        print(f"\n| server | MiB idle | MiB with {arguments.clients:,} clients |\n| --- | --- | --- |")
        for name, (before, during) in memory.items():
            print(f"| {name} | {before:,.0f} | {during:,.0f} |")


if __name__ == "__main__":
    main()
