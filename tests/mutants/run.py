"""`make mutants`: put each fault into a copy of src/, run the tests that must catch it, and name those that live.

The tests run interpreted, two mutants at a time. First they run on the code as it is: a test that fails there proves
nothing. Ends with status 1 when a mutant lives, or when one could not be tried.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import ROOT, Mutant, mutants, mutated

WORKERS = 2
TIME_LIMIT_S = 120
BASELINE_LIMIT_S = 1200
_PASSED, _FAILED = 0, 1     # exit codes of pytest; others say that it could not run
_UNTESTED = "not tried"
_LIVES = "LIVES"


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    word: str
    seconds: float
    output: str

    @property
    def is_good(self) -> bool:
        return self.word not in (_UNTESTED, _LIVES)


class Copy:
    """A copy of src/ with room for one mutant."""

    def __init__(self, home: Path) -> None:
        self.source = home / "src"
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info"))

    def test(self, tests: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """The exit code of pytest, None when it took too long; and what it printed."""
        command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        env = {**os.environ, "PYTHONPATH": str(self.source), "REGULUS_TEST_BUILD": "interpreted"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        try:
            output = process.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # The servers that its tests start are in its own process group, and must not outlive it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, output

    def try_out(self, mutant: Mutant) -> Verdict:
        path = self.source / mutant.path
        original = path.read_text(encoding="utf-8")
        begun = time.monotonic()
        try:
            self._write(path, mutated(mutant, original))
            code, output = self.test(mutant.tests, TIME_LIMIT_S)
        except ValueError as error:
            return Verdict(mutant, _UNTESTED, 0.0, str(error))
        finally:
            self._write(path, original)
        words = {_PASSED: _LIVES, _FAILED: "killed", None: "killed by the time limit"}
        return Verdict(mutant, words.get(code, _UNTESTED), time.monotonic() - begun, output)

    def _write(self, path: Path, text: str) -> None:
        """Without what was compiled of the file before, which the same size and second would pass for this."""
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def try_all(chosen: Sequence[Mutant], home: Path) -> list[Verdict]:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(WORKERS):
        copies.put(Copy(home / str(number)))

    def try_one(mutant: Mutant) -> Verdict:
        copy = copies.get()
        try:
            verdict = copy.try_out(mutant)
        finally:
            copies.put(copy)
        print(f"{verdict.word:8} {verdict.seconds:6.1f} s  {mutant.name}", flush=True)
        return verdict

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(try_one, chosen))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose name or path holds TEXT")
    wanted = parser.parse_args().only
    chosen = [mutant for mutant in mutants() if wanted in mutant.name or wanted in mutant.path]
    with tempfile.TemporaryDirectory(prefix="regulus-mutants-") as home:
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        code, output = Copy(Path(home) / "as-it-is").test(tests, BASELINE_LIMIT_S)
        if code != _PASSED:
            print(f"{output}\nthe tests do not pass on the code as it is, so they prove nothing")
            return 1
        verdicts = try_all(chosen, Path(home))
    bad = [verdict for verdict in verdicts if not verdict.is_good]
    for verdict in bad:
        mutant = verdict.mutant
        print(f"\n{verdict.word}: {mutant.name}\n  src/{mutant.path}: {mutant.old!r} -> {mutant.new!r}"
              f"\n  {' '.join(mutant.tests)}")
        if verdict.word == _UNTESTED:
            print(verdict.output)
    print(f"\n{len(verdicts)} mutants, {len(verdicts) - len(bad)} killed, {len(bad)} alive or not tried")
    return 1 if bad or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
