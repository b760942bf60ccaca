"""The examples of docs/pipeline/ledger.md run: the ledger fresh and with news, its report, a pipeline of one's own."""

import json
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from regulus.model.message import MessageExt
from regulus.pipeline.report.report import read_tables
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline" / "ledger.md").read_text(encoding="utf-8")
STORED_AT = 1_700_000_000_000
RUN_TIMEOUT_S = 400
BENT = b'{"price":4.0,"bent":"no"}'


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines]


def order(number: int | None, topic: str = "orders", **properties: str) -> MessageExt:
    keys = {} if number is None else {"KEYS": f"order-{number} customer"}
    body = BENT if number == 8 else b'{"price":%d.5}' % (number or 0)
    return MessageExt(topic, body, {**keys, "TAGS": "tea", "UNIQ_KEY": f"C{number or 0:031}", **properties},
                      born_timestamp=STORED_AT - 5, reconsume_times=int(topic != "orders"))


def retry(number: int, topic: str) -> MessageExt:
    return order(number, topic, RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID=f"C{number:031}")


def append(root: Path, messages: list[MessageExt], progress: dict[str, int]) -> None:
    """Store messages one second after another, and say how far group billing has read."""
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 20,
                                                message_index_enable=False))
    store.open(time.monotonic)
    for number, message in enumerate(messages):
        store.append(message, STORED_AT + 1000 * number)
    while store.dispatch_behind_bytes():
        store.dispatch(100)
    store.close()
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps(
        {"offsetTable": {f"{topic}@billing": {"0": offset} for topic, offset in progress.items()}}))


@pytest.fixture
def regulus(tmp_path: Path) -> Callable[[list[str]], str]:
    """Runs a command of the page in this test's directory; what it prints."""

    def run(command: list[str]) -> str:
        arguments = [part.replace("/var/lib", str(tmp_path)) for part in command[1:]]
        done = subprocess.run([sys.executable, "-m", "regulus.cli.main", *arguments], capture_output=True, text=True,
                              timeout=RUN_TIMEOUT_S, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def total(storage: Path) -> dict[str, Any]:
    return read_tables(storage, ["ledger_total"])["ledger_total"][0]


@pytest.mark.spark
@pytest.mark.once
def test_the_ledger_runs_reads_only_what_is_new_and_is_reported(
        tmp_path: Path, regulus: Callable[[list[str]], str]) -> None:
    run, report, run_with_effects, _ = commands()
    store, storage = tmp_path / "regulus" / "store", tmp_path / "ledger"
    append(store, [*map(order, range(6)), order(0), retry(4, "%RETRY%billing"), retry(5, "%RETRY%billing"),
                   retry(4, "%DLQ%billing")], {"orders": 7, "%RETRY%billing": 2})
    assert "messages: 10 new rows read" in regulus(run)
    first = total(storage)
    assert (first["sent"], first["applied"], first["dead_lettered"], first["lost"]) == (6, 5, 1, 0)
    assert (first["duplicates"], first["retried"]) == (1, 2)

    append(store, [order(6), order(7), order(None), order(8)], {"orders": 8, "%RETRY%billing": 2})
    (log,) = (store / "commitlog").iterdir()
    log.write_bytes(log.read_bytes().replace(BENT, BENT.replace(b"no", b"ja")))
    with closing(sqlite3.connect(tmp_path / "billing.sqlite")) as connection:
        connection.execute("CREATE TABLE invoices(order_id TEXT, created_at INTEGER)")
        connection.executemany("INSERT INTO invoices VALUES (?, ?)", [
            (f"order-{number}", STORED_AT + 2000 * number) for number in (0, 1, 2, 5, 6, 6)])
        connection.commit()
    output = regulus(run_with_effects)
    assert "INVALID_HANDLE" not in (storage / "pipeline.log").read_text(), "the server's noise at the end of a run"
    assert "messages: 4 new rows read" in output
    assert "table rejected: 4 new rows read" in output
    second = total(storage)
    assert (second["sent"], second["applied"], second["dead_lettered"], second["waiting"], second["lost"]) == (
        9, 5, 1, 2, 1)
    assert second["redelivered"] == 1
    tables = read_tables(storage, ["rejected_by_reason", "queue_gaps", "retry_ladder", "latency_hourly", "group_lag",
                                   "duplicates", "effects_over_time"])
    assert {(row["reason"], row["rejected"]) for row in tables["rejected_by_reason"]} == {
        ("no key", 1), ("the body has another checksum", 1)}
    assert tables["queue_gaps"] == []
    assert [(row["messages"], row["dead_letters"]) for row in tables["retry_ladder"]]
    assert {row["leg"] for row in tables["latency_hourly"]} == {"born_to_stored", "stored_to_applied",
                                                                "born_to_applied"}
    assert {row["topic"]: row["lag"] for row in tables["group_lag"]} == {"orders": 3, "%RETRY%billing": 0}
    assert sum(row["effects"] for row in tables["effects_over_time"]) == 5

    assert regulus(report) == f"report: {storage / 'report.html'}\n"
    page = (storage / "report.html").read_text(encoding="utf-8")
    assert "9 keys sent = 5 applied + 1 dead-lettered, 2 waiting, 1 lost" in page
    reading = next(block for block in blocks("python") if "pyarrow" in block)
    names: dict[str, Any] = {}
    exec(reading.replace("/var/lib", str(tmp_path)), names)
    lost = names["ledger"].to_table(filter=names["ds"].field("lost")).to_pylist()
    assert [row["key"] for row in lost] == ["order-3"]


@pytest.mark.spark
@pytest.mark.once
def test_the_pipeline_of_ones_own_runs(tmp_path: Path, regulus: Callable[[list[str]], str]) -> None:
    *_, run_own = commands()
    append(tmp_path / "regulus" / "store", list(map(order, range(3))), {})
    (tmp_path / "order_values" / "tables").mkdir(parents=True)
    (spec,) = blocks("yaml")
    (tmp_path / "order_values" / "spark-pipeline.yml").write_text(spec.replace("/var/lib", str(tmp_path)))
    definition = next(block for block in blocks("python") if "pipelines" in block)
    (tmp_path / "order_values" / "tables" / "orders.py").write_text(definition)
    assert "orders: 3 new rows read" in regulus(run_own)
    assert read_tables(tmp_path / "order_values", ["value_by_tag"])["value_by_tag"] == [{"tags": "tea", "value": 4.5}]


def test_the_page_names_every_table_and_option() -> None:
    import click

    from regulus.cli.pipeline import pipeline

    definitions = (Path(__file__).parents[3] / "pipelines" / "message_ledger" / "transformations").glob("*.py")
    tables = re.findall(r"@dp\.(?:table|materialized_view)\(.*\n\s*def (\w+)", "".join(
        file.read_text(encoding="utf-8") for file in definitions))
    assert len(tables) >= 18
    assert [name for name in tables if f"`{name}`" not in PAGE] == []
    assert isinstance(pipeline, click.Group)
    run = pipeline.commands["run"]
    long_names = [[option for option in parameter.opts if option.startswith("--")] for parameter in run.params]
    named = {options[0] for options in long_names if options}
    unnamed = sorted(option for option in named if option not in PAGE)
    assert unnamed == ["--namesrv", "--quiet"]
