"""The demo's broker, relay and departure board, each a process of its own, which the demo kills on the way."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.errors import ConnectFailed, ConnectionLost, NoNameServer, NoRoute, RegulusError, RequestTimeout

_log = logging.getLogger(__name__)

READY_TIMEOUT_S = 20
START_AGAIN_S = 0.5
STOP_TIMEOUT_S = 20


class DemoProcess:
    """A module that runs until SIGTERM. What it says goes to `<name>.log`."""

    def __init__(self, name: str, directory: Path, module: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        self._command = [sys.executable, "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=output, stderr=output,
                                             env=os.environ)

    def check(self) -> None:
        """Raises RegulusError when it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RegulusError(f"the {self.name} ended with status {self._process.returncode}; its words are in "
                               f"{self._log}")

    def await_port(self, port: int) -> None:
        """Returns when it accepts connections there. Raises RegulusError when it ends or stays silent."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            self.check()
            try:
                socket.create_connection(("127.0.0.1", port), READY_TIMEOUT_S).close()
            except OSError:
                time.sleep(0.05)
                continue
            return
        raise RegulusError(f"the {self.name} did not accept a connection within {READY_TIMEOUT_S} s; its words are in "
                           f"{self._log}")

    def kill(self) -> None:
        """SIGKILL: no flush, no commit, no goodbye."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None

    def stop(self) -> None:
        """A clean stop; does nothing when it is not running."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RegulusError(f"the {self.name} did not stop within {STOP_TIMEOUT_S} s and was killed; see "
                               f"{self._log}") from None
        self._process = None


async def until_told_to_stop(consumer: PushConsumer) -> None:
    """Consume from now on, or from when the broker is back: it may be killed in the moment in which this process
    begins."""
    starting = asyncio.create_task(_start(consumer))
    try:
        await told_to_stop()
    finally:
        starting.cancel()
        await asyncio.wait([starting])
        await consumer.shutdown()


async def _start(consumer: PushConsumer) -> None:
    while True:
        try:
            return await consumer.start()
        except (ConnectFailed, ConnectionLost, NoNameServer, NoRoute, RequestTimeout) as error:
            _log.info("the consumer starts when the broker is back: %s", error)
        await asyncio.sleep(START_AGAIN_S)


async def told_to_stop() -> None:
    """Of the process that calls: by SIGTERM or Ctrl-C, or because the demo, which holds its standard input, is gone."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_reader(sys.stdin.fileno(), stopping.set)
    await stopping.wait()
    loop.remove_reader(sys.stdin.fileno())
