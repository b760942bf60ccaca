"""The settings reach Java as they are, and what makes a second run work is among them."""

from pathlib import Path

import pytest

from regulus.errors import PipelineError
from regulus.pipeline.graph.spark_conf import DEFAULTS_FILE, LOG_FILE, defaults_text, settings, write_conf


def test_catalog_and_warehouse_outlive_the_run(tmp_path: Path) -> None:
    values = settings(tmp_path, 2, "1g", {})
    assert values["spark.sql.catalogImplementation"] == "hive"
    assert f"databaseName={tmp_path}/catalog;create=true" in values["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert values["spark.sql.warehouse.dir"] == f"{tmp_path.as_uri()}/warehouse"
    assert values["spark.master"] == "local[2]"
    assert values["spark.driver.memory"] == "1g"


def test_a_specs_settings_win_but_for_what_a_run_needs(tmp_path: Path) -> None:
    values = settings(tmp_path, 2, "1g", {
        "spark.master": "spark://host:7077", "spark.plugins": "their.Plugin", "spark.sql.shuffle.partitions": "64",
        "spark.sql.catalogImplementation": "in-memory"})
    assert values["spark.master"] == "spark://host:7077"
    assert values["spark.sql.shuffle.partitions"] == "64"
    assert values["spark.plugins"].startswith("their.Plugin,")
    assert values["spark.sql.catalogImplementation"] == "hive"


def test_a_directory_that_derby_would_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="semicolon"):
        settings(tmp_path / "a;b", 2, "1g", {})


def test_the_server_listens_on_this_machine_only(tmp_path: Path) -> None:
    values = settings(tmp_path, 2, "1g", {"spark.connect.grpc.binding.address": "0.0.0.0"})
    assert values["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert values["spark.connect.grpc.binding.port"] == "0"


@pytest.mark.parametrize(("value", "written"), [
    ("plain", "plain"), (" leading", "\\ leading"), ("C:\\dir", "C:\\\\dir"), ("a\nb", "a\\u000ab"),
    ("Grüße", "Gr\\u00fc\\u00dfe"), ("🚀", "\\ud83d\\ude80"), ("a=b#c", "a=b#c"),
])
def test_values_are_written_so_that_java_reads_them_as_they_were(value: str, written: str) -> None:
    assert defaults_text({"spark.x": value}) == f"spark.x {written}\n"


def test_a_name_that_would_become_another_line_is_refused() -> None:
    with pytest.raises(PipelineError, match="cannot be the name of a Spark setting"):
        defaults_text({"spark.x 1\nspark.y": "2"})


def test_the_directory_is_written_or_the_reason_told(tmp_path: Path) -> None:
    write_conf(tmp_path / "conf", {"spark.x": "1"})
    assert (tmp_path / "conf" / DEFAULTS_FILE).read_text() == "spark.x 1\n"
    assert "ErrorUtils" in (tmp_path / "conf" / LOG_FILE).read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"cannot write .*file/conf"):
        write_conf(tmp_path / "file" / "conf", {})
