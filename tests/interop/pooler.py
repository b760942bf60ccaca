"""A PgBouncer for one test run, in transaction mode: each transaction may have another connection to the server."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from sqlalchemy import URL, make_url
from toolchain import pgbouncer

from regulus.testing.running_server import free_ports

SERVER_CONNECTIONS = 3
"""Fewer than clients, so that they take turns at each."""


@contextmanager
def running(database: str) -> Iterator[URL]:
    """The address by which `database` is reached through the pooler."""
    programs, environment = pgbouncer()
    server = make_url(database)
    (port,) = free_ports(1)
    # It refuses to go on as root.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="regulus-pgbouncer-") as root:
        settings = Path(root, "pgbouncer.ini")
        settings.write_text(f"""[databases]
* = host={server.host} port={server.port} user={server.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_client_conn = 200
server_round_robin = 1
""")
        with Path(root, "log").open("wb") as log:
            process = subprocess.Popen([programs / "sbin" / "pgbouncer", *user, settings], stdout=log,
                                       stderr=subprocess.STDOUT, cwd="/", env=environment)
        try:
            _await(process, port, Path(root, "log"))
            yield server.set(host="127.0.0.1", port=port)
        finally:
            process.kill()
            process.wait()


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until = monotonic() + 60
    while monotonic() < until:
        assert process.poll() is None, log.read_text(errors="replace")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        sleep(0.02)
    raise TimeoutError(log.read_text(errors="replace"))
