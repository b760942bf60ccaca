"""The parsers compiled by clang with AddressSanitizer and with counters of the branches that were taken."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import build_ext

from tests.interop.toolchain import atheris, clang16

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
ROOMS = ("access", "model", "record", "wire")
MODULES = tuple(name for name in build_ext.COMPILED_MODULES if name.split(".")[1] in ROOMS)
"""The parsers, and all that they cimport."""
BUILD_LIMIT_S = 600
_SANITIZE = "-fsanitize=fuzzer-no-link,address"
# Not optimized: no read is left out because nothing comes of it, and it compiles in a third of the time. Runs take a
# third longer than with -O1, because most of their time is Python's.
_COMPILE_ARGS = f"-O0 -gline-tables-only -fwrapv -w {_SANITIZE}"


@dataclass(frozen=True, slots=True)
class Build:
    """A copy of the package for the process of the fuzzer."""

    place: Path

    def environment(self) -> dict[str, str]:
        """Of a process that can import it: the runtime comes first, and each object of Python has memory of its own,
        without which an overread of a short one is not seen. Its hashes are the same each time."""
        libraries = atheris()
        return {**os.environ, "PYTHONPATH": f"{self.place}:{libraries}:{ROOT}", "PYTHONMALLOC": "malloc",
                "LD_PRELOAD": str(libraries / "asan_with_fuzzer.so"), "ASAN_OPTIONS": "detect_leaks=0",
                "PYTHONHASHSEED": "0"}


def build(project: Path = ROOT, place: Path = BUILD / "sanitized", modules: tuple[str, ...] = MODULES) -> Build:
    """Compile `modules` of the project that lies in `project`, as far as they changed since. Raises RuntimeError."""
    compiler, environment = clang16()
    result = subprocess.run(
        [sys.executable, str(project / "build_ext.py"), str(place), *modules], cwd=project, capture_output=True,
        text=True, timeout=BUILD_LIMIT_S, env={**environment, "CC": str(compiler), "LDFLAGS": _SANITIZE,
                                               "REGULUS_COMPILE_ARGS": _COMPILE_ARGS})
    if result.returncode:
        raise RuntimeError(f"the fuzzer's build failed:\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return Build(place)


def changed_project(place: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """A copy of what is built under `place`, in which of each file a text is another."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info"))
    shutil.copy(ROOT / "build_ext.py", place)
    for name, (old, new) in changes.items():
        text = (place / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        (place / name).write_text(text.replace(old, new), encoding="utf-8")
    return place
