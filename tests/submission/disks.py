"""Processes on one machine that see different disks, as those of different machines do.

Each has a mount namespace of its own, in which some directories are empty ones in memory that no other process sees.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """
while [ "$1" != -- ]; do mount -t tmpfs own "$1" || exit; shift; done
shift; cd "$OWN_DISK" && exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Disks:
    """`own`: each process's own, empty at its start. `shared`: one that all see. `cluster`: one that only Spark sees,
    and no client of its."""

    own: Path
    shared: Path
    cluster: Path

    def of_spark(self, *arguments: str) -> list[str]:
        """The command line of a process of the cluster."""
        return self._apart([self.own], arguments)

    def of_client(self, *arguments: str) -> list[str]:
        """The command line of a process elsewhere."""
        return self._apart([self.own, self.cluster], arguments)

    def environment(self) -> dict[str, str]:
        """Where a process keeps what is its own."""
        return {name: str(self.own) for name in ("HOME", "TMPDIR", "OWN_DISK")}

    def _apart(self, hidden: Sequence[Path], arguments: Sequence[str]) -> list[str]:
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        return ["unshare", "--mount", *rights, "sh", "-c", _SCRIPT, "sh", *map(str, hidden), "--", *arguments]


def make_disks(root: Path, cluster: Path) -> Disks | None:
    """None where a process may have no disks of its own."""
    disks = Disks(root / "own", root / "shared", cluster)
    for directory in (disks.own, disks.shared):
        directory.mkdir()
    command = disks.of_client("test", "-d", str(disks.own))
    try:
        tried = subprocess.run(command, env={**os.environ, **disks.environment()}, capture_output=True)
    except FileNotFoundError:
        return None
    return disks if tried.returncode == 0 else None
