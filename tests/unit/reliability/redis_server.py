"""A Redis of one test, without a disk."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from regulus.testing.running_server import free_ports

PASSWORD = "secret"


class Server:
    def __init__(self):
        (self.port,) = free_ports(1)
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--requirepass", PASSWORD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    def client(self, password: str = PASSWORD) -> "redis.Redis":
        return redis.Redis(port=self.port, password=password, socket_timeout=5, decode_responses=False)

    def stand_still(self) -> None:
        """It takes connections and bytes as before, and does nothing with them."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.go_on()
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    try:
        client, until = server.client(), time.monotonic() + 60
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < until
                time.sleep(0.01)
        yield server
    finally:
        server.stop()
