"""Scripts on a disk that really fills: a small file system in memory, mounted in a name space of the child's own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def on_small_disk(tmp_path: Path, size: str, text: str, *arguments: str) -> None:
    """Run a script that says `well` when it is, with the path of a file system of that size, such as 8m, first."""
    if shutil.which(UNSHARE[0]) is None or subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk in a name space: `unshare --user --mount` fails")
    script, disk = tmp_path / "script.py", tmp_path / "disk"
    script.write_text(text)
    disk.mkdir()
    path = ":".join([str(ROOT), *sys.path])
    shell = (f"mount -t tmpfs -o size={size} tmpfs '{disk}' && PYTHONPATH='{path}' "
             f"exec '{sys.executable}' '{script}' '{disk}' {' '.join(arguments)}")
    done = subprocess.run([*UNSHARE, "sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr
