"""A Regulus to test against: on a thread of this process, or as a child process."""

import asyncio
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from regulus.broker.config import BrokerConfig
from regulus.errors import RegulusError
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.store.config import MessageStoreConfig
from regulus.transport import event_loop
from regulus.transport.config import TransportConfig

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0         # also on a busy machine
STOP_TIMEOUT_S = 60.0
KEPT_PORTS = range(10_000, 30_000)      # Linux assigns ports from 32768 on when any port is requested

_given: set[int] = set()                # each once: its server may be down for a while

_READY = re.compile(r"broker \S+:(\d+), name server \S+:(\d+), store (.+)")


def small_store(path: Path) -> MessageStoreConfig:
    """Small files keep a test's directory small; the formats are the same."""
    return MessageStoreConfig(store_path_root_dir=str(path), mapped_file_size_commit_log=16 << 20,
                              mapped_file_size_consume_queue=20_000, max_hash_slot_num=5_000, max_index_num=20_000)


class ServerThread:
    """Broker and name server on an event loop in a thread, so that tests may block or use a loop of their own."""

    def __init__(self, store_path: Path, broker_config: BrokerConfig | None = None,
                 store_config: MessageStoreConfig | None = None) -> None:
        self.store_path = store_path
        self.port = 0
        self.name_server_port = 0
        self._broker_config = broker_config or BrokerConfig(listen_port=0)
        self._store_config = store_config or small_store(store_path)
        self._started = threading.Event()
        self._failure: RegulusError | OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="regulus-server", daemon=True)

    @property
    def address(self) -> str:
        """The address of the broker."""
        return f"{HOST}:{self.port}"

    @property
    def name_server_address(self) -> str:
        return f"{HOST}:{self.name_server_port}"

    def start(self) -> None:
        """Start; returns when both accept connections. Raises what the start raised."""
        self._thread.start()
        self._started.wait(READY_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        if not self.port:
            raise RegulusError(f"the server thread did not get ready within {READY_TIMEOUT_S} s")

    def stop(self) -> None:
        """Stop cleanly; does nothing when it is already stopped."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise RegulusError(f"the server thread did not stop within {STOP_TIMEOUT_S} s")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            event_loop.run(self._serve())
        except (RegulusError, OSError) as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = Regulus(self._broker_config, self._store_config, NamesrvConfig(
            listen_port=0, bind_address=HOST, acl_enable=self._broker_config.acl_enable,
            rocketmq_home=self._broker_config.rocketmq_home),
                         transport_config=TransportConfig(bind_address=HOST))
        await server.start()
        self.port, self.name_server_port = server.broker_server.port, server.name_server.port
        self._started.set()
        await self._stopping.wait()
        await server.stop()


def kept_ports() -> range:
    """The ports of this process: a port is taken some time after it is drawn, and another worker could draw it in
    between."""
    number = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0)     # gw0, or the `--tx` name
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = len(KEPT_PORTS) // count
    return KEPT_PORTS[number % count * size:][:size]


def free_ports(count: int) -> list[int]:
    """Ports that the system assigns to no other process while their own is down."""
    return [free_port() for _ in range(count)]


def free_port(neighbours: Sequence[int] = ()) -> int:
    """One such port. `neighbours`: distances of ports that must be free, too."""
    chance = random.SystemRandom()      # processes whose tests use the same seed must draw different ports
    kept = kept_ports()
    if len(_given) > len(kept) // 2:
        _given.clear()      # the servers of the first ones have ended by now
    while True:
        port = chance.choice(kept)
        taken = {port, *(port + distance for distance in neighbours)}
        if not _given.isdisjoint(taken) or not all(each in kept for each in taken):
            continue
        with ExitStack() as probes, suppress(OSError):
            for each in taken:
                probes.enter_context(socket.socket()).bind((HOST, each))
            _given.update(taken)
            return port


class ServerProcess:
    """`regulus up` as a child process. A second start takes the same ports and store."""

    def __init__(self, store_path: Path, *options: str) -> None:
        self.store_path = store_path
        self.port = 0
        self.name_server_port = 0
        self.start_seconds = 0.0
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """The address of the broker."""
        return f"{HOST}:{self.port}"

    @property
    def name_server_address(self) -> str:
        return f"{HOST}:{self.name_server_port}"

    @property
    def log_path(self) -> Path:
        return self.store_path.with_name(self.store_path.name + ".log")

    @property
    def pid(self) -> int:
        assert self._process is not None, "start it first"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start; returns when it reports to be ready. Raises RegulusError with the end of its log when it does not."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if not self.port:
            self.port, self.name_server_port = free_ports(2)
        begin = time.monotonic()
        command = [sys.executable, "-m", "regulus", "up", "--listen", HOST, "--port", str(self.port),
                   "--namesrv-port", str(self.name_server_port), "--grpc-port", "-1",
                   "--store", str(self.store_path), *self._options]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ)
        match = _READY.search(self._ready_line(begin + READY_TIMEOUT_S))
        if match is None:
            self.kill()
            raise RegulusError(f"the server did not get ready; its log ends: {self.log_path.read_text()[-2000:]}")
        self.start_seconds = time.monotonic() - begin
        self.port, self.name_server_port = int(match[1]), int(match[2])

    def stop(self) -> int:
        """Send SIGTERM and wait; returns the exit status. Does nothing when it is not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: no flush, no checkpoint, no clean end."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.stop()

    def _ready_line(self, deadline: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        output = select.poll()      # select() fails in a process with more than 1024 open files
        output.register(self._process.stdout, select.POLLIN)
        readable = output.poll(max(0.0, deadline - time.monotonic()) * 1000)
        return self._process.stdout.readline() if readable else ""

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RegulusError(f"the server did not stop within {STOP_TIMEOUT_S} s; see {self.log_path}") from None
        if process.stdout is not None:
            process.stdout.close()
        return status
