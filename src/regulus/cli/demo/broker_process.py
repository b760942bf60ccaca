"""A broker and name server in a process of their own, which the demo kills on the way."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from regulus.errors import RegulusError

READY_TIMEOUT_S = 20
STOP_TIMEOUT_S = 20


class BrokerProcess:
    def __init__(self, configuration: Path, name_server_port: int, log: Path) -> None:
        self._command = [
            sys.executable,
            "-m",
            "regulus.cli.main",
            "up",
            "-c",
            str(configuration),
            "--namesrv-port",
            str(name_server_port),
        ]
        self._name_server_port = name_server_port
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Returns when the name server accepts connections, which it does when the broker has begun to. Raises
        RegulusError when the process ends or stays silent."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, env=os.environ)
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while asyncio.get_running_loop().time() < deadline:
            if self._process.poll() is not None:
                raise RegulusError(
                    f"the broker ended with status {self._process.returncode}; its words are in {self._log}"
                )
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._name_server_port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
        raise RegulusError(
            f"the name server did not accept a connection within {READY_TIMEOUT_S} s; its words are in {self._log}"
        )

    def kill(self) -> None:
        """SIGKILL: no flush, no checkpoint, no goodbye."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    async def stop(self) -> None:
        """A clean stop; does nothing when it is not running."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RegulusError(
                f"the broker did not stop within {STOP_TIMEOUT_S} s and was killed; see {self._log}"
            ) from None
