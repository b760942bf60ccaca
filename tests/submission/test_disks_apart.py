"""The jobs where nobody sees the disk of another: a client of Spark Connect, and a driver and its executors."""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset as ds
import pytest

from regulus.client.sync import Admin, Producer
from regulus.model.message import Message
from regulus.model.topics import TRACE_TOPIC, TopicConfig
from tests.archives import archive_store
from tests.golden.recorded_session import frames_of
from tests.submission.conftest import (
    SOURCES,
    SPARK_HOME,
    processes,
    start_connect_server,
    start_master,
    start_worker,
)
from tests.submission.disks import Disks, make_disks
from tests.unit.pipeline.shop import GROUP, TOPIC, Shop, shop
from tests.unit.spark.sink.support import messages_of

__all__ = ["shop"]

pytestmark = [pytest.mark.spark, pytest.mark.interop]
GOLDEN = Path(__file__).parents[1] / "golden" / "store-4.9.8"
COMMANDS = Path(__file__).parent / "commands.py"
TIMEOUT_S = 500
PLACES = ("connect", "standalone")
TRACE = "my_trace"
PROMISES, REPAIRED, AGAIN = "promises", "repaired", "again"
"""Topics of each place: one whose messages have stubs, and two to send to."""

SAID = {
    "audit": "passed: 8 messages in 4 queues, 0 missing",
    "retries": "dead letters\n",
    "trace": "CG_trace        GNormal         1 ",
    "search": "%DLQ%billing",
    "search at brokers": "%DLQ%billing",
    "search in an archive": "17 messages",
    "read": "8",
    "reconcile": "1 fine, 1 lost; nothing sent, nothing written: this was a dry run",
    "reconcile and send": "1 fine, 1 lost; 1 sent again, 1 verdicts written",
    "reconcile again": "2 fine; 0 sent again, 0 verdicts written",
    "redrive": "1 to send, 0 sent before; brokers: broker-a; this was a dry run",
    "redrive and send": "1 sent, 0 sent before",
    "redrive again": "0 sent, 1 sent before",
    "replay": "8 messages to send in 1 slices",
    "replay and send": "8 messages sent in",
    "replay again": "0 messages sent in",
}


class Said(NamedTuple):
    status: int
    out: str
    err: str
    fault: str


class Place(NamedTuple):
    """What the commands said there. `name` ends the names of its topics."""

    name: str
    said: dict[str, Said]


@pytest.fixture(scope="module")
def disks(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Disks:
    """The cluster's has the shop's store."""
    made = make_disks(tmp_path_factory.mktemp("disks"), Path(shop.store).parent)
    if made is None:
        pytest.skip("no process may have disks of its own here: that takes mount namespaces")
    return made


@pytest.fixture(scope="module")
def logs(shop: Shop, disks: Disks) -> None:
    """Beside the orders: an archive, promises that were kept, what clients traced, and topics to send to."""
    archive_store(GOLDEN, disks.cluster / "archive")
    with Producer(shop.name_server, "more") as producer:
        for place in PLACES:
            producer.send(Message(f"{PROMISES}-{place}", b"kept", keys="kept"))
        for frame in frames_of("trace"):
            if frame.from_client and frame.command.ext.get("b") == TRACE_TOPIC:
                producer.send(Message(TRACE, frame.command.body))
    with Admin(shop.name_server) as admin:
        for place in PLACES:
            for topic in (REPAIRED, AGAIN):
                admin.create_topic(TopicConfig(topic_name=f"{topic}-{place}"))


def write_stubs(path: Path) -> None:
    """One stub of a message that was sent, and one of a message that was lost. They are no older than their topic."""
    made = round(time.time() * 1000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT PRIMARY KEY, made_ms INTEGER, content TEXT, state TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?, ?, NULL)", [
            ("kept", made, "kept"), ("lost", made, "lost")])
        connection.commit()


def commands(place: str, shop: Shop, disks: Disks) -> dict[str, list[str]]:
    """Name -> words, in the order in which they are run."""
    stubs = disks.shared / f"stubs-{place}.sqlite"
    write_stubs(stubs)
    store, brokers = ["--store", shop.store], ["-n", shop.name_server]
    sends = ["--send", "--brokers", "broker-a"]
    long = ["--from", "2020-01-01", "--until", "2100-01-01"]
    reconcile = ["job", "reconcile", *store, *brokers, "--topic", f"{PROMISES}-{place}", "--late-ms", "0",
                 "--stubs", f"sqlite:{stubs}#stubs", "--stubs-key", "id", "--stubs-time", "made_ms", "--stubs-body",
                 "content", "--due", "state IS NULL", "--min-age-ms", "0", "--cap", "10", "--verdicts",
                 f"sqlite:{stubs}#verdicts", "--report", str(disks.shared / f"sent-{place}")]
    redrive = ["job", "redrive", *store, *brokers, "--group", GROUP, "--set", f"topic='{REPAIRED}-{place}'"]
    replay = ["job", "replay", *store, *brokers, "--topic", TOPIC, *long, "--into", f"{AGAIN}-{place}", "--id", place]
    return {
        "audit": ["job", "audit", *store, "--topic", TOPIC, "--group", GROUP],
        "retries": ["job", "retries", *store, "--group", GROUP],
        "trace": ["job", "trace", *store, "--topic", TRACE],
        "search": ["job", "search", *store, "--key", "o1"],
        "search at brokers": ["job", "search", *brokers, "--key", "o1"],
        "search in an archive": ["job", "search", "--archive", str(disks.cluster / "archive"), "--topic", "SOrder",
                                 *long],
        "read": ["spark", "read", *store, "--topic", TOPIC, "--count"],
        "reconcile": reconcile, "reconcile and send": [*reconcile, *sends], "reconcile again": [*reconcile, *sends],
        "redrive": redrive, "redrive and send": [*redrive, *sends], "redrive again": [*redrive, *sends],
        "redrive to a disk of its own": [*redrive, *sends, "--report", str(disks.own / "report")],
        "replay": replay, "replay and send": [*replay, *sends], "replay again": [*replay, *sends],
        "archive": ["archive", "run", "--store", str(GOLDEN), "--archive", str(disks.own / "archive")],
        "index": ["index", "rebuild", "--store", str(GOLDEN), "--output", str(disks.own / "index")],
        "no store": ["job", "audit", "--store", str(disks.own / "nothing"), "--topic", TOPIC]}


@pytest.fixture(scope="module", params=[pytest.param("connect", marks=pytest.mark.long), "standalone"])
def place(request: pytest.FixtureRequest, shop: Shop, disks: Disks, logs: None, environment: dict[str, str],
          tmp_path_factory: pytest.TempPathFactory) -> Place:
    """All commands, by a client of a Spark Connect server, or by a driver whose executor is elsewhere."""
    environment = {**environment, **disks.environment(), "PYTHONPATH": str(SOURCES)}
    warehouse = ("--conf", f"spark.sql.warehouse.dir={disks.shared}/warehouse")
    arguments = [str(COMMANDS), json.dumps(commands(request.param, shop, disks))]
    with processes(tmp_path_factory.mktemp("logs"), environment) as start:
        if request.param == "connect":
            remote = start_connect_server(start, *warehouse, "--conf", "spark.sql.shuffle.partitions=2",
                                          through=disks.of_spark)
            client = disks.of_client(sys.executable, *arguments)
            environment |= {"SPARK_REMOTE": remote, "JAVA_HOME": ""}
        else:
            master = start_master(start)
            start_worker(start, master, disks.own, through=disks.of_spark)
            client = disks.of_spark(
                str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.executor.memory=512m",
                "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2", *warehouse, *arguments)
        done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout + done.stderr
    said = json.loads(lines[0].removeprefix("RESULT "))
    return Place(request.param, {name: Said(**each) for name, each in said.items()})


@pytest.mark.parametrize("command", SAID)
def test_commands_read_and_send_where_only_spark_sees_the_log(place, command):
    said = place.said[command]
    assert said.status == 0, said
    assert SAID[command] in said.out


def test_what_was_sent_is_in_the_log_once(place, shop):
    promises = messages_of(shop.server, f"{PROMISES}-{place.name}")
    assert sorted(message.keys for message in promises) == ["kept", "lost"]
    assert [message.keys for message in messages_of(shop.server, f"{REPAIRED}-{place.name}")] == ["o1"]
    again = messages_of(shop.server, f"{AGAIN}-{place.name}")
    assert sorted(message.keys for message in again) == [f"o{number}" for number in range(8)]


def test_a_report_keeps_what_was_sent_and_without_one_nothing_stays(place, disks):
    runs = ds.dataset(disks.shared / f"sent-{place.name}", partitioning="hive").to_table(["keys", "why_not"])
    assert runs.to_pylist() == [{"keys": "lost", "why_not": None}]
    assert list((disks.shared / "warehouse").glob("*")) == []


def test_a_report_on_a_disk_that_not_all_see_is_refused_before_anything_is_sent(place):
    said = place.said["redrive to a disk of its own"]
    if place.name == "connect":     # its tasks run in the server, which sees what they wrote
        assert said.status == 0, said
    else:
        assert said.status == 5, said
        assert "/own/report/run=" in said.err
        assert "1 rows were written down" in said.err
        assert "as the run's report name a directory that all of them share" in said.err


@pytest.mark.parametrize(("command", "words"), [("no store", "/own/nothing'"), ("archive", "/own/archive"),
                                               ("index", "/own/index")])
def test_a_directory_that_is_not_where_it_is_looked_for_is_one_sentence(place, command, words):
    said = place.said[command]
    assert said.status != 0, said
    assert not said.fault, said.fault
    assert words in said.err.strip().splitlines()[-1]
