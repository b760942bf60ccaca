"""A PostgreSQL of this machine, for one test run; the tests that want one are skipped where there is none."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORIES = ("", *(str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)))


def program(name: str) -> str | None:
    return next((found for directory in DIRECTORIES if (found := shutil.which(str(Path(directory) / name)))), None)


def is_there() -> bool:
    return all(program(name) for name in ("initdb", "postgres", "pg_ctl"))


@contextmanager
def running() -> Iterator[str]:
    """The address of a new database, without the table's name."""
    # The server refuses to run as root, and has to see its own directory.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="regulus-pg-") as root, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        if user:
            Path(root).chmod(0o755)
            entry = pwd.getpwnam(user)
            os.chown(root, entry.pw_uid, entry.pw_gid)
        data = str(Path(root) / "data")

        def run(*command: str) -> None:
            subprocess.run(command, user=user, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd="/",
                           env={**os.environ, "LC_ALL": "C", "HOME": root})

        control = program("pg_ctl")
        initialize = program("initdb")
        assert control is not None
        assert initialize is not None
        run(initialize, "-D", data, "-U", "shop", "--auth=trust", "-E", "UTF8", "--no-sync")
        run(control, "-D", data, "-w", "-l", str(Path(root) / "log"), "-o",
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off", "start")
        try:
            yield f"postgresql://shop@127.0.0.1:{port}/postgres"
        finally:
            run(control, "-D", data, "-m", "immediate", "-w", "stop")
