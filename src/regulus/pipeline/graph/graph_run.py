"""Runs one pipeline in a process of its own: `python -m regulus.pipeline.graph.graph_run`, started by `runner`.

The order comes as one JSON object on standard input, events go out as JSON lines on what was standard output, and all
that Spark prints goes to standard error. A process of its own, because Connect mode is a state of the whole process
and because the Java that Spark starts must be gone when the run is.

The steps are those of Spark's own command line (pyspark/pipelines/cli.py) but for how the answers of a run are read:
that one gives up on answers that are not dictionaries, such as the accumulators of Python sources, when the data are
already right.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from regulus.errors import RegulusError
from regulus.spark.runtime.work import Look

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import SparkSession

Tell = Callable[[Mapping[str, Any]], None]
_LOOK_S = 1.0
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectService$"


def main() -> None:
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Spark's Java inherits standard output and writes to it; the events keep a door of their own.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    lock = threading.Lock()

    def tell(event: Mapping[str, Any]) -> None:
        with lock:
            events.write(json.dumps(event) + "\n")
            events.flush()

    def tell_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """A definition file may raise anything; its writer needs the name and the place."""
        traceback.print_exception(kind, error, trace)
        is_known = isinstance(error, PySparkException | RegulusError)
        tell({"event": "failed", "text": str(error) if is_known else f"{kind.__name__}: {error}",
              "place": _place(trace, order)})
        _end(1)

    from pyspark.errors import PySparkException

    sys.excepthook = tell_failure
    with _session(order["remote"], tell) as spark:
        _run(spark, order, tell)
    _end(0)


def _end(status: int) -> None:
    """At once: threads of a server that is gone, or that never answered, would keep the process."""
    sys.stderr.flush()
    os._exit(status)


def _end_with_parent() -> None:
    """Whoever gave the order holds the other end of standard input, and closes it by dying if not otherwise."""
    sys.stdin.read()
    os._exit(2)


def _end_with_java(java: "Popen[bytes]", tell: Tell) -> None:
    """A client whose server is gone would look for it for minutes, and not say why."""
    status = java.wait()
    tell({"event": "failed", "text": f"Spark's Java ended in the middle of the run, with status {status}"})
    _end(1)


@contextmanager
def _session(remote: str | None, tell: Tell) -> "Iterator[SparkSession]":
    """A Connect session: with the server that `remote` names, or with one in a Spark started here."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from regulus.spark.runtime.work_watch import watched

    local = None
    if remote is None:
        local = SparkSession.builder.getOrCreate()
        gateway: Any = SparkContext._gateway
        threading.Thread(target=_end_with_java, args=(gateway.proc, tell), daemon=True).start()
        remote = server_address(local)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    spark: Any = ConnectSession.builder.remote(remote).create()
    try:
        # Where Java is ours, its own books say more, and of all that it runs.
        with watched(local or spark) as look, _telling_of_work(look, tell):
            yield spark
    finally:
        spark.stop()
        if local is not None:
            local._sc.stop()


@contextmanager
def _telling_of_work(look: Look, tell: Tell) -> Iterator[None]:
    over = threading.Event()

    def follow() -> None:
        last = None
        while not over.wait(_LOOK_S):
            work = look()
            if work != last:
                tell({"event": "work", "work": work and work._asdict()})
            last = work

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def server_address(local: "SparkSession") -> str:
    """Where the Connect server in this session's own Java listens."""
    assert local._jvm is not None
    port = getattr(getattr(local._jvm, _SERVER), "MODULE$").localPort()
    # Under another name than localhost the client would demand TLS as soon as there is a password.
    return f"sc://localhost:{port}"


def _run(spark: "SparkSession", order: Mapping[str, Any], tell: Tell) -> None:
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    from regulus.pipeline.graph.ledger_parameters import PREFIX
    from regulus.pipeline.tables.outside import parse_outside_table

    configuration = _changeable(spark, order["configuration"])
    for key, value in configuration.items():
        spark.conf.set(key, value)
    _report_progress(spark, tell)
    if effects := configuration.get(f"{PREFIX}effects"):
        # A pipeline's definitions may not add a jar to the session.
        parse_outside_table(effects).provide_driver(spark)
    tell({"event": "step", "text": "reading the definitions"})
    graph = create_dataflow_graph(spark, order["catalog"], order["database"], configuration)
    _define(spark, graph, SparkConnectGraphElementRegistry(spark, graph), order)
    tell({"event": "step", "text": "running the flows"})
    for message in _start(spark, graph, order):
        # For the log as well, where it stands beside what Spark says of itself.
        print(message, file=sys.stderr, flush=True)
        tell({"event": "run", "text": message})


def _changeable(spark: "SparkSession", configuration: Mapping[str, str]) -> dict[str, str]:
    """The settings without those that only a starting Spark takes; a flow given one of these fails."""
    return {key: value for key, value in configuration.items() if _may_be_set(spark, key)}


def _may_be_set(spark: "SparkSession", key: str) -> bool:
    # A setting that is nobody's, such as a parameter of the pipeline, is not "modifiable" and can be set.
    return not key.startswith("spark.") or spark.conf.isModifiable(key)


def _report_progress(spark: "SparkSession", tell: Tell) -> None:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Progress(StreamingQueryListener):
        """Hears of each batch of each streaming flow."""

        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            progress = event.progress
            tell({"event": "batch", "flow": progress.name or "", "rows": progress.numInputRows,
                  "sources": [{"start": source.startOffset, "end": source.endOffset} for source in progress.sources]})

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    spark.streams.addListener(Progress())


def _define(spark: "SparkSession", graph: str, registry: Any, order: Mapping[str, Any]) -> None:
    """Import the definition files, as from the spec's directory."""
    from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
    from pyspark.pipelines.block_session_mutations import block_session_mutations
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    root = Path(order["root"])
    os.chdir(root)
    with graph_element_registration_context(registry):
        for file in map(Path, order["libraries"]):
            if file.suffix == ".sql":
                registry.register_sql(file.read_text(encoding="utf-8"), Path(os.path.relpath(file, root)))
                continue
            spec = spec_from_file_location(file.stem, file)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            module.__dict__["spark"] = spark
            with add_pipeline_analysis_context(spark, graph, None), block_session_mutations():
                spec.loader.exec_module(module)


def _start(spark: "SparkSession", graph: str, order: Mapping[str, Any]) -> Iterator[str]:
    """What the server says of the run, line by line."""
    from pyspark.sql.connect.proto import Command, PipelineCommand

    command = Command()
    command.pipeline_command.start_run.CopyFrom(PipelineCommand.StartRun(
        dataflow_graph_id=graph, full_refresh_selection=order["full_refresh"],
        full_refresh_all=order["full_refresh_all"], refresh_selection=order["refresh"], dry=order["dry"],
        storage=order["storage"]))
    client: Any = spark.client
    request = client._execute_plan_request_with_metadata()
    client._set_command_in_plan(request.plan, command)
    for answer in client._execute_and_fetch_as_iterator(request, {}):
        if isinstance(answer, dict) and "pipeline_event_result" in answer:
            yield str(answer["pipeline_event_result"].event.message)


def _place(step: TracebackType | None, order: Mapping[str, Any]) -> str:
    """`file:line` of the last step within the definition files; empty when there is none."""
    place = ""
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if file in order["libraries"]:
            place = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return place


if __name__ == "__main__":
    main()
