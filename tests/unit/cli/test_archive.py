import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.archive import archive
from regulus.errors import OptionError
from tests.stores import fill, open_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    opened = open_store(tmp_path / "store")
    fill(opened, 40)
    opened.close()
    return tmp_path / "store"


def call(*words: object) -> str:
    result = CliRunner().invoke(archive, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_run_compact_and_status(store, tmp_path):
    target = tmp_path / "archive"
    out = call("run", "--store", store, "--archive", target, "--range-size", "1k", "--cores", 0)
    assert "40 rows" in out
    assert "0 rows" in call("run", "--store", store, "--archive", target, "--cores", 0)
    [before] = json.loads(call("status", "--archive", target, "--output", "json"))
    assert before.items() >= {"broker_name": "broker-a", "start": 0, "rows": 40, "gaps": 0, "rejected": 0}.items()
    assert "became" in call("compact", "--archive", target, "--cores", 0)
    [after] = json.loads(call("status", "--archive", target, "--output", "json"))
    assert (after["rows"], after["end"]) == (40, before["end"])
    assert after["ranges"] < before["ranges"]
    assert "broker-a" in call("status", "--archive", target, "--verify")
    for path in (target / "messages").rglob("*.parquet"):
        path.write_bytes(b"")
    result = CliRunner().invoke(archive, ["status", "--archive", str(target), "--verify"])
    assert result.exit_code == 1
    assert "has other bytes than its manifest says" in result.output


@pytest.mark.filterwarnings("ignore")
def test_an_iceberg_table(store, tmp_path):
    from pyiceberg.catalog import load_catalog

    (tmp_path / "warehouse").mkdir()
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    words = [word for name, value in place.items() for word in ("--iceberg-property", f"{name}={value}")]
    target = tmp_path / "archive"

    def rows_and_files() -> tuple[list[int], set[Path]]:
        table = load_catalog("default", **place).load_table("a.messages")
        files = {Path(path.removeprefix("file://")) for path in table.inspect.files()["file_path"].to_pylist()}
        return sorted(table.scan().to_arrow()["queue_offset"].to_pylist()), files

    call("run", "--store", store, "--archive", target, "--range-size", "1k", "--cores", 0, "--iceberg-table",
         "a.messages", *words)
    numbers, files = rows_and_files()
    assert numbers == list(range(40))
    assert files == set((target / "messages").rglob("*.parquet"))
    assert len(files) > 2
    call("compact", "--archive", target, "--cores", 0, "--iceberg-table", "a.messages", *words)
    numbers, compacted = rows_and_files()
    assert numbers == list(range(40))
    assert len(compacted) == 1
    assert not compacted & files


def test_what_is_refused(store, tmp_path):
    for words, text in (
            (["run", "--range-size", "many"], "range-size"),
            (["run", "--iceberg-table", "a.b", "--iceberg-property", "uri"], "write KEY=VALUE")):
        with pytest.raises(OptionError, match=text):
            call(words[0], "--store", store, "--archive", tmp_path / "archive", "--cores", 0, *words[1:])
    with pytest.raises(OptionError, match="_manifest"):
        call("status", "--archive", tmp_path)
