"""Runs a Spark declarative pipeline with what the PyPI package brings.

Spark's own command line (spark-pipelines) has defects that this one does not pass on:

- its catalog is in memory, so the second run finds files of tables that it does not know: here it is Hive's, on an
  embedded Derby below the pipeline's storage;
- static settings in `configuration` fail each flow, after its retries, and --conf is lost beyond ten: here settings go
  by a directory that SPARK_CONF_DIR names (`spark_conf`);
- its exit status is 1 after a successful run with Python sources: here such answers are passed over (`graph_run`);
- it needs two Javas and prints stack traces when it ends well: here there is one, which writes to a file.
"""

import fcntl
import json
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from regulus.errors import PipelineError
from regulus.pipeline.graph.spark_conf import settings, write_conf
from regulus.pipeline.graph.spec import PipelineSpec, local_directory
from regulus.pipeline.progress import Say, say_nothing
from regulus.spark.runtime.error_reason import reason
from regulus.spark.runtime.java import Java
from regulus.spark.runtime.work import Work
from regulus.spark.runtime.worker_python import name_python

LOG_NAME = "pipeline.log"
_LOCK_NAME = "pipeline.lock"
_CAUSE_LENGTH_MAX = 2000
_FLOW_EVENT = re.compile(r"Flow '?(?:[\w`]+\.)*`?(?P<flow>[^`'.\s]+)`?'? (?:is |has |was )?(?P<state>[A-Z]+)")
_WORDS = (
    (re.compile(r"StatusCode.UNAVAILABLE|failed to connect to all addresses"),
     "the Spark Connect server does not answer"),
    (re.compile(r"LOCATION_ALREADY_EXISTS"),
     ("the server's catalog has forgotten the tables of the run before, and their files are there: start the server "
      "with spark.sql.catalogImplementation=hive, or remove the files")),
    (re.compile(r"Another instance of Derby may have already booted"),
     "another process has the pipeline's catalog open: wait for it to end"),
    (re.compile(r"Python worker failed to connect back"),
     "a Python worker did not come up within Spark's ten seconds; is the machine overloaded? Run it again"),
    (re.compile(r"OutOfMemoryError"), "Spark's Java ran out of memory: give it more with --heap"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What a run is to do. `remote` is a Spark Connect server's URL, None for a Spark of our own.

    `parameters` reach the definition files through `spark.conf.get`, as values and never as text of a query.
    """

    spec: PipelineSpec
    parameters: Mapping[str, str] = field(default_factory=dict)
    remote: str | None = None
    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    dry: bool = False
    cores: int = 2
    heap: str = "1g"


@dataclass(slots=True)
class RunResult:
    """`states`: how each flow ended. `rows`: what each streaming flow read from its source in this run."""

    states: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearer:
    """Who is told how far a run is."""

    say: Say = say_nothing
    flow: Callable[[str, str], None] = lambda flow, state: None
    """(flow, state), when a flow comes to another state."""
    work: Callable[[Work | None], None] = lambda work: None
    """What Spark has at work, about every second."""


NOBODY = Hearer()


def run_pipeline(order: RunOrder, java: Java | None, environment: Mapping[str, str],
                 hearer: Hearer = NOBODY) -> RunResult:
    """Run it to its end: what is new in the sources is processed, and the run is over.

    `java` is for a Spark of our own. Raises PipelineError in one sentence when it cannot start or a flow fails.
    """
    _check(order)
    directory = local_directory(order.spec.storage)
    with tempfile.TemporaryDirectory(prefix="regulus-pipeline-") as scratch:
        child_environment = dict(environment)
        child_environment.pop("SPARK_REMOTE", None)
        if order.remote is not None:
            log = Path(scratch) / LOG_NAME
            return _run_child(order, child_environment, log, hearer)
        assert java is not None
        if directory is None:
            raise PipelineError(f"storage {order.spec.storage} is not on this machine; set SPARK_REMOTE to a server "
                                "that reaches it, or name a directory with --storage")
        with _only_run(directory):
            given = {key: value for key, value in {**order.spec.configuration, **order.parameters}.items()
                     if key.startswith("spark.")}
            conf = settings(directory, order.cores, order.heap, given)
            write_conf(Path(scratch), conf)
            name_python(child_environment, conf["spark.master"])
            child_environment |= {
                "JAVA_HOME": str(java.home), "SPARK_CONF_DIR": scratch, "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONNECT_AUTHENTICATE_TOKEN": secrets.token_hex(16)}
            hearer.say("starting Spark")
            return _run_child(order, child_environment, directory / LOG_NAME, hearer)


def _check(order: RunOrder) -> None:
    chosen = order.refresh or order.full_refresh
    if order.full_refresh_all and chosen:
        raise PipelineError("a full refresh of all tables leaves none to name: give --full-refresh-all alone")


@contextmanager
def _only_run(directory: Path) -> Iterator[None]:
    """Holds the pipeline's lock. Raises PipelineError when another run has it, or the directory cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK_NAME).open("a+")
    except OSError as error:
        raise PipelineError(f"cannot write {directory}: {error.strerror}; name another place with --storage") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"another run of the pipeline in {directory} is going on; wait for it, or name "
                                "another place with --storage") from None
        yield


def _run_child(order: RunOrder, environment: Mapping[str, str], log: Path, hearer: Hearer) -> RunResult:
    spec = order.spec
    request = {
        "remote": order.remote, "root": str(spec.path.parent), "libraries": [str(file) for file in spec.libraries],
        "storage": spec.storage, "catalog": spec.catalog, "database": spec.database,
        "configuration": {**spec.configuration, **order.parameters}, "refresh": order.refresh,
        "full_refresh": order.full_refresh, "full_refresh_all": order.full_refresh_all, "dry": order.dry}
    with log.open("wb") as noise:
        child = subprocess.Popen([sys.executable, "-m", "regulus.pipeline.graph.graph_run"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=noise, env=dict(environment), text=True)
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            story = _Story(spec.path)
            story.follow(child.stdout, hearer)
            status = child.wait()
        finally:
            child.kill()
            child.wait()
    if status != 0 or story.failure:
        raise PipelineError(story.sentence(log, keeps_log=order.remote is None))
    return story.result


class _Story:
    """What a run tells of itself."""

    def __init__(self, spec: Path) -> None:
        self._spec = spec
        self.result = RunResult()
        self.failure = ""
        self._place = ""
        self._causes: dict[str, str] = {}

    def follow(self, lines: IO[str], hearer: Hearer) -> None:
        for line in lines:
            event = json.loads(line)
            match event["event"]:
                case "batch":
                    self._batch(event)
                case "run":
                    self._tell(event["text"], hearer)
                case "step":
                    hearer.say(event["text"])
                case "work":
                    hearer.work(event["work"] and Work(**event["work"]))
                case "failed":
                    self.failure, self._place = event["text"], event.get("place", "")

    def _batch(self, event: Mapping[str, Any]) -> None:
        flow = event["flow"].rpartition(".")[2]
        self.result.rows[flow] = self.result.rows.get(flow, 0) + event["rows"]
        ends = [str(source["end"]) for source in event["sources"]]
        self.result.offsets[flow] = ends[0] if ends else ""

    def _tell(self, text: str, hearer: Hearer) -> None:
        match = _FLOW_EVENT.match(text)
        if match is None:
            return
        flow, state = match["flow"], match["state"]
        if state == "FAILED":
            self._causes[flow] = text.partition("Error: ")[2] or text
        if self.result.states.get(flow) != state:
            self.result.states[flow] = state
            hearer.flow(flow, state)

    def sentence(self, log: Path, *, keeps_log: bool) -> str:
        """What failed and why: the first flow that failed by itself, else what Spark said when it could not start."""
        noise = log.read_text(encoding="utf-8", errors="replace")
        # A later attempt may have gone well, and what waits for a failed flow is only skipped.
        failed = [flow for flow in self._causes if self.result.states[flow] == "FAILED"]
        where = f"; Spark's words are in {log}" if keeps_log else ""
        if failed:
            return f"flow {failed[0]!r} failed: {_cause(self._causes[failed[0]])}{where}"
        text = self.failure or _last_line(noise) or "its process was ended"
        place = f" in {self._place}" if self._place else ""
        return f"the pipeline of {self._spec} cannot run{place}: {_cause(text, '', noise)}{where}"


def _cause(*texts: str) -> str:
    """One sentence out of what several voices say; our own error is worth more than Spark's wrapping of it."""
    for text in texts:
        sentence = reason(text)
        if sentence != text.partition("\n")[0]:
            return sentence[:_CAUSE_LENGTH_MAX]
    for text in texts:
        for pattern, words in _WORDS:
            if pattern.search(text):
                return words
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return next(iter(lines), "no cause was told")[:_CAUSE_LENGTH_MAX]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
