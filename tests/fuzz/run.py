"""Runs of the fuzzer: what they may take, and what they came to."""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import seeds
from tests.fuzz.build import BUILD, ROOT, Build

INPUT_SIZE_MAX = 48 << 10
"""Bytes of the largest input: with so many of a frame, its reader takes memory for a large one."""
INPUT_LIMIT_S = 10
"""Seconds that one input may take; they take a millisecond."""
MEMORY_MAX_MB = 2048
"""Of the process; freed memory is kept for a while, so that a use of it is seen."""
ALLOCATION_MAX_MB = 64
"""Of one allocation: four times the largest frame."""
COVERAGE_MIN = 3000
"""Branches that the seeds alone reach; a build that shows fewer has no eyes."""
START_LIMIT_S = 120
"""Seconds that a run may take besides: to start, and to read what it begins with."""

_COVERAGE = re.compile(r"^#\d+\s+(\w+)\s+cov: (\d+)", re.MULTILINE)
_FINDING = re.compile(r"Test unit written to (.+)$", re.MULTILINE)
_FIGURE = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`findings` are the files with the inputs; `log` is what the fuzzer printed."""

    status: int
    findings: list[Path]
    coverage_of_seeds: int
    coverage: int
    executions: int
    executions_per_second: int
    new_units: int
    log: str

    @property
    def fault(self) -> str:
        """What is wrong, in one line; nothing when all is well."""
        if self.findings:
            return f"the fuzzer found {', '.join(map(str, self.findings))}"
        if self.status:
            return f"the fuzzer ended with status {self.status}"
        if self.coverage_of_seeds < COVERAGE_MIN:
            return f"the seeds reach {self.coverage_of_seeds} branches, not {COVERAGE_MIN}: this build sees nothing"
        return ""


def fuzz(build: Build, seconds: int, corpus: Path | None = None, findings: Path = BUILD / "findings") -> Outcome:
    """One run, from the seeds and what is in `corpus`, where new inputs are kept. Ends at the first finding."""
    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="regulus-fuzz-") as home:
        seeds.write(Path(home, "seeds"))
        kept = corpus.resolve() if corpus else Path(home, "corpus")
        kept.mkdir(parents=True, exist_ok=True)
        status, log = _run(build, [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/", str(kept),
                                   str(Path(home, "seeds"))], seconds)
    return _outcome(status, log)


def again(build: Build, finding: Path) -> tuple[int, str]:
    """Status and output of a run of one input."""
    return _run(build, [str(finding.resolve())], INPUT_LIMIT_S)


def _run(build: Build, arguments: list[str], seconds: int) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.fuzz.target", f"-max_len={INPUT_SIZE_MAX}", f"-timeout={INPUT_LIMIT_S}",
               f"-rss_limit_mb={MEMORY_MAX_MB}", f"-malloc_limit_mb={ALLOCATION_MAX_MB}", "-print_final_stats=1",
               *arguments]
    result = subprocess.run(command, cwd=ROOT, env=build.environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=seconds + START_LIMIT_S)
    return result.returncode, result.stdout.decode(errors="replace")


def _outcome(status: int, log: str) -> Outcome:
    coverage = [(word, int(count)) for word, count in _COVERAGE.findall(log)]
    figures = {name: int(value) for name, value in _FIGURE.findall(log)}
    return Outcome(
        status=status, findings=[Path(name) for name in _FINDING.findall(log)], log=log,
        coverage=max((count for _, count in coverage), default=0),
        coverage_of_seeds=next((count for word, count in coverage if word == "INITED"), 0),
        executions=figures.get("number_of_executed_units", 0),
        executions_per_second=figures.get("average_exec_per_sec", 0), new_units=figures.get("new_units_added", 0))
