"""The examples of docs/pipeline/jobs.md run, on a shop of their own, through the command line."""

import re
import shlex
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine

from regulus.client.sync import Producer
from regulus.model.message import Message
from regulus.reliability import tables
from tests.golden.recorded_session import frames_of
from tests.unit.reliability.shop import be_stored, place_orders
from tests.unit.reliability.shop import shop as outbox_shop
from tests.unit.spark.sink.support import messages_of

from .shop import Shop, restarted_without_epochs

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
PAGE = (Path(__file__).parents[3] / "docs" / "pipeline" / "jobs.md").read_text(encoding="utf-8")


def commands() -> dict[str, list[str]]:
    """The page's commands by name, as words."""
    blocks = re.findall(r"^```sh\nregulus job (\w+)(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return {name: shlex.split(text.replace("\\\n", " ")) for name, text in blocks}


def run(shop: Shop, files: Path, name: str) -> str:
    from regulus.cli.job import job

    places = {"/var/lib/regulus/store": shop.store, "127.0.0.1:9876": shop.name_server,
              "/var/lib/shop/bills.sqlite": str(shop.bills), "/var/lib/shop": str(files)}
    words = [name, *commands()[name]]
    for written, real in places.items():
        words = [word.replace(written, real) for word in words]
    result = CliRunner().invoke(job, words)
    assert result.exit_code == 0, f"{result.output}\n{result.stderr}\n{result.exception!r}"
    return result.stdout


def test_the_page_has_an_example_of_each_job():
    from regulus.cli.job import job

    assert set(commands()) == set(job.commands)


def test_the_examples_run(spark, shop, tmp_path):
    with Producer(shop.name_server, "replayed") as producer:
        for frame in frames_of("trace"):
            if frame.from_client and frame.command.ext.get("b") == "RMQ_SYS_TRACE_TOPIC":
                producer.send(Message("RMQ_SYS_TRACE_TOPIC", frame.command.body))
    # Stubs that are old enough to be sent are older than this shop's topics.
    shop.server.stop()
    with restarted_without_epochs(shop.server.store_path, lambda _: None) as server:
        _run_all(spark, Shop(server, shop.bills), tmp_path)


def _run_all(spark, shop: Shop, tmp_path: Path) -> None:
    _make_stubs(tmp_path / "stubs.sqlite")
    assert "passed: 8 messages in 4 queues, 0 missing" in run(shop, tmp_path, "audit")
    assert "retries used up" in run(shop, tmp_path, "retries")
    trace = run(shop, tmp_path, "trace")
    assert "PG_trace" in trace
    assert "CG_trace" in trace
    assert "%DLQ%billing" in run(shop, tmp_path, "search")
    assert "1 sent again" in run(shop, tmp_path, "reconcile")
    _make_outbox(tmp_path / "shop.sqlite")
    assert "1 lost; 1 due now, for the relay to send; brokers: broker-a" in run(shop, tmp_path, "outbox")
    assert "1 sent, 0 sent before" in run(shop, tmp_path, "redrive")
    assert "0 sent, 1 sent before; brokers: broker-a" in run(shop, tmp_path, "redrive")
    assert "10 messages sent" in run(shop, tmp_path, "replay")
    assert len(messages_of(shop.server, "orders-again", wait_for=10)) == 10
    names = {"spark": spark}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block.replace("/var/lib/regulus/store", shop.store).replace("OnBreak.FAIL", "OnBreak.REPORT"), names)
    assert names["found"].count("orders_untagged") == 1     # the message that was reconciled has no tag


def _make_stubs(path: Path) -> None:
    now = round(time.time() * 1000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT PRIMARY KEY, made_ms INTEGER, content TEXT, state TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?, ?, NULL)", [
            (name, now - 7_200_000, f"order {name}") for name in (*(f"o{number}" for number in range(8)), "gone")])
        connection.commit()


def _make_outbox(path: Path) -> None:
    """With a stub whose message is not where it was stored."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        outbox_shop.create_all(connection)
        tables.create(connection)
    place_orders(engine, "1")
    be_stored(engine, "1", 1_000)
    engine.dispose()
