"""Finds the tests of what changed since main; `make check` runs them.

    python -m tests.changed [SINCE]

prints paths, one in a line: each test that changed, and for each module that changed its own test or, where it has
none, the tests of its room. `SINCE` is a commit, by default where this branch left `main`.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
MAIN = "main"
HOUSE = "tests/test_tidy.py"
OUTSIDE = ("interop", "submission")
"""Folders below `tests` whose tests `make interop` runs."""


def paths_to_test(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """The tests of changed files, whose paths are below `root`; HOUSE always."""
    found = {HOUSE, *(test for path in changed for test in _paths_to_test(PurePosixPath(path), root))}
    return sorted(path for path in found if not any(str(room) in found for room in PurePosixPath(path).parents))


def _paths_to_test(path: PurePosixPath, root: Path) -> Iterator[str]:
    if path.parts[0] == "tests":
        is_test = path.name.startswith("test_") and path.suffix == ".py" and path.parts[1] not in OUTSIDE
        if is_test and (root / path).exists():
            yield str(path)
    elif path.parts[:2] == ("src", "regulus") and path.suffix in (".py", ".pxd"):
        room = PurePosixPath("tests", "unit", *path.parts[2:-1])
        own = room / f"test_{path.stem}.py"
        if (root / own).exists():
            yield str(own)
        elif room.name != "unit" and (root / room).exists():
            yield str(room)
    elif path.suffix == ".md":
        yield "tests/unit/test_readme.py"


def changed_files(since: str) -> list[str]:
    """Files that differ from the commit, those that are not committed included."""
    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    [base] = git("merge-base", since, "HEAD")
    return [*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")]


if __name__ == "__main__":
    print("\n".join(paths_to_test(changed_files(sys.argv[1] if len(sys.argv) > 1 else MAIN))))
