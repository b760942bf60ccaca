"""The official RocketMQ 5 clients, which speak gRPC, as child processes with one command line; see clients5/."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import toolchain
from clients import Client


@dataclass(frozen=True)
class Client5(Client):
    """One official client, and where it stands alone."""

    send_modes: tuple[str, ...] = ()
    pushes: bool = True
    changes_invisible_time: bool = True
    recalls: bool = True
    authority_variable: str = ""    # of its environment: whose certificates it believes; without one it believes any

    def trusting(self, authority: Path) -> dict[str, str]:
        """The environment in which it believes this authority."""
        return {self.authority_variable: str(authority)} if self.authority_variable else {}


def _java(home: Path, arguments: Sequence[str]) -> list[str]:
    return [toolchain.tool("java"), "-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Duser.home={home}", "-cp", toolchain.clients5_java(), "Clients5Driver", *arguments]


def _program(parts: Callable[[], list[str]]) -> Callable[[Path, Sequence[str]], list[str]]:
    return lambda home, arguments: [*parts(), *arguments]


JAVA5 = Client5("java5", _java)
PYTHON5 = Client5("python5", _program(
    lambda: [str(toolchain.grpc_python()), str(toolchain.CLIENTS5 / "python" / "program.py")]),
    authority_variable="GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
NODE5 = Client5("node5", _program(lambda: [toolchain.tool("node"), str(toolchain.clients5_node())]),
                authority_variable="GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
GO5 = Client5("go5", _program(lambda: [str(toolchain.clients5_go())]))
RUST5 = Client5("rust5", _program(lambda: [str(toolchain.clients5_rust())]), pushes=False,
                changes_invisible_time=False, recalls=False, authority_variable="SSL_CERT_FILE")

CLIENTS5 = (JAVA5, PYTHON5, NODE5, GO5, RUST5)
