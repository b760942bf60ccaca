"""Our own servers as child processes; broker and name server in one (`regulus up`) configured like the real ones."""

import sys
from contextlib import ExitStack
from pathlib import Path

from child_process import ChildProcess
from ports import free_broker_port, free_ports
from real_rocketmq import broker_settings, write_properties
from remoting_probe import await_broker
from toolchain import our_environment


def start_our(stack: ExitStack, home: Path, command: list[str]) -> ChildProcess:
    """`regulus` with the words of `command`, killed at the end of `stack`."""
    process = ChildProcess(" ".join(["regulus", *command]), [sys.executable, "-m", "regulus.cli.main", *command],
                           home / "regulus.log", our_environment(), home)
    stack.callback(process.kill)
    return process


class RegulusServer:
    """Same doors as RealRocketMQ: addresses, store, start, restart, stop, kill."""

    name = "regulus"

    def __init__(self, run: Path, *, broker_port: int | None = None, store: Path | None = None, grpc_port: int = -1,
                 **overrides: str) -> None:
        self.home = run
        self.store = store or run / "store"
        self._broker_port = broker_port or free_broker_port()
        self._name_server_port = free_ports(1)[0]
        self.grpc_port = grpc_port
        self.name_server_address = f"127.0.0.1:{self._name_server_port}"
        self.broker_address = f"127.0.0.1:{self._broker_port}"
        self._overrides = overrides
        self._process: ChildProcess | None = None

    @property
    def broker_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        settings = broker_settings(self.name_server_address, self._broker_port, self.store, **self._overrides)
        conf = write_properties(self.home / "broker.conf", settings)
        command = [sys.executable, "-m", "regulus.cli.main", "up", "--config", str(conf),
                   "--namesrv-port", str(self._name_server_port), "--grpc-port", str(self.grpc_port)]
        self._process = ChildProcess("regulus up", command, self.home / "regulus.log", our_environment(), self.home)
        await_broker(self.broker_address, self.name_server_address, self._process.check_alive)

    def restart(self) -> None:
        """The process ends cleanly and comes back on the same ports and store."""
        self.stop()
        self.start()

    def stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.stop()

    def kill(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
