"""A MariaDB server for one test run: this machine's, else Debian's package, unpacked below build/ and not installed."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine
from tests.databases import Database
from toolchain import mariadb_server

from regulus.testing.running_server import free_ports

USER = "shop"


@dataclass(frozen=True, slots=True)
class Server:
    """`port` on 127.0.0.1; `root` may log in without a password, USER with the one that was given."""

    port: int

    def connect(self, user: str = "root", password: str = "") -> Any:
        import pymysql

        return pymysql.connect(host="127.0.0.1", port=self.port, user=user, password=password, database="shop",
                               charset="utf8mb4", init_command="SET time_zone = '+00:00'")

    def database(self, user: str = "root", scheme: str = "mariadb") -> Database:
        return Database(f"{scheme}://{user}@127.0.0.1:{self.port}/shop", partial(self.connect), "`", "timestamp",
                        "longblob")


def engine_of(server: Server, init: str = "DO 0") -> Engine:
    """`init` is the first statement of each of its sessions. Its isolation is the server's own, REPEATABLE READ."""
    return create_engine(f"mysql+pymysql://root@127.0.0.1:{server.port}/shop?charset=utf8mb4", pool_size=20,
                         connect_args={"init_command": init})


@contextmanager
def running(password: str, *, certificate: Path | None = None, key: Path | None = None,
            zone: str = "", binary_log: bool = False) -> Iterator[Server]:
    """A new server far east of Greenwich, so that a time which is taken for another zone's is seen. `zone`: that of its
    machine, as TZ has it; `binary_log`: it keeps one, by rows."""
    programs, environment = mariadb_server()
    if zone:
        environment = {**environment, "TZ": zone}
    with tempfile.TemporaryDirectory(prefix="regulus-mariadb-") as root:
        data = Path(root, "data")
        # It looks for its own parts from there on; the machine's configuration is not for it.
        common = ["--no-defaults", f"--basedir={programs}", f"--datadir={data}", "--user=root"]
        subprocess.run([programs / "bin" / "mariadb-install-db", *common, "--skip-test-db",
                        "--auth-root-authentication-method=normal"], check=True, capture_output=True, env=environment)
        start = Path(root, "start.sql")
        start.write_text(f"CREATE DATABASE shop;\nCREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}';\n"
                         f"GRANT ALL ON shop.* TO {USER}@'127.0.0.1';\n")     # a line each
        logged = [f"--log-bin={root}/binary", "--binlog-format=ROW"] if binary_log else []
        secured = [f"--ssl-cert={certificate}", f"--ssl-key={key}", "--require-secure-transport"] if certificate else []
        (port,) = free_ports(1)
        with Path(root, "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / "sbin" / "mariadbd", *common, f"--port={port}", "--bind-address=127.0.0.1",
                 # A server that starts removes what others have in a place for temporary files that they share.
                 f"--tmpdir={root}", f"--socket={root}/socket", f"--pid-file={root}/pid", f"--init-file={start}",
                 "--skip-name-resolve", "--default-time-zone=+05:00", "--innodb-flush-log-at-trx-commit=0",
                 *secured, *logged],
                stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            _await(process, port, Path(root, "log"))
            yield Server(port)
        finally:
            process.kill()
            process.wait()


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """It takes connections when it has carried out its first statements."""
    from time import monotonic, sleep

    until = monotonic() + 120
    while monotonic() < until:
        assert process.poll() is None, log.read_text(errors="replace")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        sleep(0.05)
    raise TimeoutError(log.read_text(errors="replace"))
