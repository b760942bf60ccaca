"""Measures replication: how fast an empty slave catches up, what that costs senders, and what SYNC_MASTER costs.

    python bench/replication.py [DIRECTORY] [--versions 4.9.8] [--backlog-mb 800] [--seconds 4] [--rounds 3]

Pairs of Regulus brokers and of RocketMQ brokers run on one machine and one disk, all with the defaults of a release and
asynchronous flush. `sent` is the rate at which a master sends to a slave that discards everything. The limits of the
machine are measured in the same run: how fast one process sends a file to another over the loopback, and how fast a
file is written and synced at the end. The load comes from load_generator.py. Each round runs all kinds of brokers,
Regulus first, and each figure is the median of its rounds.
"""

import argparse
import mmap
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import load_generator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from child_process import ChildProcess
from ports import free_broker_port, free_ports
from real_rocketmq import RealRocketMQ, broker_settings, write_properties
from regulus_server import start_our
from remoting_probe import ask, await_broker, await_name_server

from regulus.wire import ha_frame

OURS = "Regulus"
_GET_BROKER_RUNTIME_INFO = 28
_COPIED_WITHIN_S = 120.0            # limit of the wait for a slave
_LOOK_S = 0.02                      # pause between two looks at the slave
_PIECE = 1 << 20                    # bytes of one write or read
_MB = 1_000_000
_SETTINGS = {"mappedFileSizeCommitLog": str(1 << 30), "maxHashSlotNum": "5000000", "maxIndexNum": "20000000",
             "osPageCacheBusyTimeOutMills": "10000", "flushDiskType": "ASYNC_FLUSH", "haSendHeartbeatInterval": "1000"}
_HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g")


class Pair:
    """A Regulus name server and two brokers of one kind; each broker is started separately."""

    def __init__(self, kind: str, role: str, home: Path, stack: ExitStack) -> None:
        self.kind = kind
        self._role = role
        self._home = home
        self._stack = stack
        port = free_ports(1)[0]
        self._name_server = f"127.0.0.1:{port}"
        process = start_our(stack, home / "nameserver", ["nameserver", "--port", str(port), "--kv-config",
                                                         str(home / "kv.json"), "--listen", "127.0.0.1"])
        await_name_server(self._name_server, process.check_alive)
        self.ports = {"master": free_broker_port(), "slave": free_broker_port()}
        self._running: dict[str, ChildProcess | RealRocketMQ] = {}

    def start(self, which: str) -> None:
        home, port = self._home / which, self.ports[which]
        roles = {"brokerRole": self._role, "brokerId": "0"} if which == "master" else \
            {"brokerRole": "SLAVE", "brokerId": "1"}
        if self.kind != OURS:
            more = {"inSyncReplicas": "2"} if which == "master" else {}
            real = RealRocketMQ(self.kind, home, broker_port=port, name_server=self._name_server, java_options=_HEAP,
                                **_SETTINGS, **roles, **more)
            self._stack.callback(real.kill)
            real.start()
            self._running[which] = real
            return
        conf = write_properties(home / "broker.conf", broker_settings(self._name_server, port, home / "store",
                                                                      **_SETTINGS, **roles))
        process = start_our(self._stack, home, ["broker", "--config", str(conf), "--listen", "127.0.0.1"])
        await_broker(f"127.0.0.1:{port}", self._name_server, process.check_alive)
        self._running[which] = process

    def kill(self, which: str) -> None:
        self._running.pop(which).kill()
        shutil.rmtree(self._home / which, ignore_errors=True)

    def pid(self, which: str) -> int:
        running = self._running[which]
        return running.broker_pid if isinstance(running, RealRocketMQ) else running.pid

    def log_end(self, which: str) -> int:
        body = ask(f"127.0.0.1:{self.ports[which]}", _GET_BROKER_RUNTIME_INFO)["body"].decode()
        return int(body.partition('"commitLogMaxOffset":"')[2].partition('"')[0])

    def await_copy(self, upto: int = 0) -> float:
        """Wait until the slave has everything, or the log up to `upto`; returns MB a second since its first bytes."""
        deadline = time.monotonic() + _COPIED_WITHIN_S
        begun, begun_at = 0, 0.0
        while time.monotonic() < deadline:
            end, now = self.log_end("slave"), time.monotonic()
            if end and not begun_at:
                begun, begun_at = end, now
            if end and end >= (upto or self.log_end("master")):
                return (end - begun) / _MB / max(now - begun_at, _LOOK_S)
            time.sleep(_LOOK_S)
        raise TimeoutError(f"the slave of {self.kind} has not caught up after {_COPIED_WITHIN_S} s")

    def load(self, seconds: float, *, count: int = 0, warm_up: float = 1.0, connections: int = 2,
             in_flight: int = 512) -> dict[str, float | int | str]:
        return load_generator.run(load_generator.Load(
            host="127.0.0.1", port=self.ports["master"], topic="BenchLoad", queues=4, body_size=1024,
            connections=connections, in_flight=in_flight, count_max=count, seconds_max=seconds, warm_up_seconds=warm_up,
            server_pid=self.pid("master")))


# --- the machine -----------------------------------------------------------------------------------------------------


def loopback_mb_s(path: Path) -> float:
    """How fast one process sends a mapped file to another, which discards it, in MB/s."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if not child:
            _take_all(server)
            os._exit(0)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping, \
                memoryview(mapping) as view, socket.create_connection(server.getsockname()) as connection:
            began = time.perf_counter()
            for position in range(0, len(view), _PIECE):
                connection.sendall(view[position:position + _PIECE])
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
            seconds = time.perf_counter() - began
        os.waitpid(child, 0)
    return path.stat().st_size / _MB / seconds


def _take_all(server: socket.socket) -> None:
    taker, _ = server.accept()
    buffer = bytearray(_PIECE)
    while taker.recv_into(buffer):
        pass
    taker.close()


def disk_mb_s(path: Path, size: int) -> float:
    data = os.urandom(_PIECE)
    began = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(size // _PIECE):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return size / _MB / (time.perf_counter() - began)


def taken_mb_s(port: int, size: int) -> float:
    """How fast a master sends its log to a slave that discards it, in MB/s."""
    buffer = bytearray(_PIECE)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        began = time.perf_counter()
        connection.sendall(ha_frame.encode_report(0))
        taken = 0
        while taken < size:
            count = connection.recv_into(buffer)
            if not count:
                raise ConnectionError("the master closed the link")
            taken += count
        return taken / _MB / (time.perf_counter() - began)


# --- the pairs -------------------------------------------------------------------------------------------------------


def catch_up(kind: str, home: Path, backlog: int, seconds: float) -> dict[str, float]:
    """How fast a slave catches up, without senders and with them, and the rate of the senders before and meanwhile."""
    with ExitStack() as stack:
        pair = Pair(kind, "ASYNC_MASTER", home, stack)
        pair.start("master")
        pair.load(0, count=backlog // 1250, warm_up=0.0)
        master_cpu, size = load_generator.cpu_seconds(pair.pid("master")), pair.log_end("master")
        taken = taken_mb_s(pair.ports["master"] + 1, size)
        master_cpu = (load_generator.cpu_seconds(pair.pid("master")) - master_cpu) / size * 1e9
        pair.start("slave")
        alone = pair.await_copy()
        slave_cpu = load_generator.cpu_seconds(pair.pid("slave")) / pair.log_end("slave") * 1e9
        pair.kill("slave")
        before = pair.load(seconds, connections=1, in_flight=64)
        rates: list[float] = []
        behind: list[float] = []
        begun = threading.Event()
        backlog = pair.log_end("master")

        def copy() -> None:
            pair.start("slave")
            while not pair.log_end("slave"):
                time.sleep(_LOOK_S)
            begun.set()
            behind.append(pair.await_copy(backlog))

        copying = threading.Thread(target=copy)
        copying.start()
        begun.wait(_COPIED_WITHIN_S)
        while copying.is_alive():
            during = pair.load(0.5, connections=1, in_flight=64, warm_up=0.2)
            if copying.is_alive() or not rates:
                rates.append(float(during["messages_per_second"]))
        copying.join()
        shutil.rmtree(home, ignore_errors=True)
    return {"sent MB/s": taken, "master CPU s/GB": master_cpu, "copied MB/s": alone, "slave CPU s/GB": slave_cpu,
            "sends/s before": float(before["messages_per_second"]),
            "sends/s during": statistics.median(rates), "copied MB/s during": behind[0]}


def cost(kind: str, role: str, home: Path, seconds: float, connections: int, in_flight: int) -> dict[str, float]:
    """The rate and the cost of sends while the slave is up to date."""
    with ExitStack() as stack:
        pair = Pair(kind, role, home, stack)
        pair.start("master")
        pair.start("slave")
        pair.load(0, count=100, warm_up=0.0, connections=1, in_flight=1)
        pair.await_copy()
        pair.load(1.0, connections=connections, in_flight=in_flight)
        slave_before = load_generator.cpu_seconds(pair.pid("slave"))
        found = pair.load(seconds, connections=connections, in_flight=in_flight, warm_up=0.0)
        slave_cpu = load_generator.cpu_seconds(pair.pid("slave")) - slave_before
        shutil.rmtree(home, ignore_errors=True)
    return {"sends/s": float(found["messages_per_second"]), "p50 ms": float(found["latency_p50_ms"]),
            "p99 ms": float(found["latency_p99_ms"]), "not OK": float(found["refused"]),
            "master CPU s/million": float(found["server_cpu_seconds_per_million"]),
            "slave CPU s/million": slave_cpu / float(found["messages"]) * 1e6}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median([each[name] for each in rounds]) for name in rounds[0]}


def in_turns(kinds: list[str], rounds: int, measure: Callable[[str], dict[str, float]]) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            found[kind].append(measure(kind))
    return {kind: medians(each) for kind, each in found.items()}


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    names = list(next(iter(table.values())))
    print(f"\n{title}; load of the machine {os.getloadavg()[0]:.1f}\n")
    print(f"| broker | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}")
    for kind, values in table.items():
        cells = [f"{values[name]:,.{2 if values[name] < 100 else 0}f}" for name in names]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--versions", nargs="*", default=["4.9.8"], help="releases of RocketMQ; none: Regulus only")
    parser.add_argument("--backlog-mb", type=int, default=800, help="must be less than a file of the log, 1,073")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("catch-up", "cost"))
    options = parser.parse_args()
    kinds = [OURS, *options.versions]
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="replication-") as name:
        home, backlog = Path(name), options.backlog_mb * _MB
        disk = statistics.median([disk_mb_s(home / "raw", backlog) for _ in range(options.rounds)])
        loopback = statistics.median([loopback_mb_s(home / "raw") for _ in range(options.rounds)])
        (home / "raw").unlink()
        print(f"the machine: {disk:,.0f} MB/s to its disk, {loopback:,.0f} MB/s over its loopback", flush=True)
        if options.only != "cost":
            show(f"An empty slave and a backlog of {options.backlog_mb} MB",
                 in_turns(kinds, options.rounds, lambda kind: catch_up(kind, home / kind, backlog, options.seconds)))
        for connections, in_flight in ((1, 64), (2, 512)) if options.only != "catch-up" else ():
            for role in ("ASYNC_MASTER", "SYNC_MASTER"):
                show(f"Sends of 1,024 bytes, {connections} x {in_flight}, {role} with a slave", in_turns(
                    kinds, options.rounds, lambda kind, role=role, connections=connections, in_flight=in_flight:
                    cost(kind, role, home / kind, options.seconds, connections, in_flight)))


if __name__ == "__main__":
    main()
