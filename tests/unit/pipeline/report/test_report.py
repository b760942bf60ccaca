"""The report is made of the pipeline's Parquet files, without Spark."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regulus.errors import PipelineError
from regulus.pipeline.report.report import read_tables, write_report

NOW = datetime(2026, 1, 31, tzinfo=UTC)
TOTAL = {"sent": 3, "applied": 2, "dead_lettered": 1, "retried": 1, "waiting": 0, "lost": 0, "both": 0,
         "duplicates": 0, "redelivered": 0, "dead_again": 0}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    table = tmp_path / "warehouse" / "ledger_total"
    table.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([TOTAL]), table / "part-0.parquet")
    (table / "_SUCCESS").touch()
    (tmp_path / "warehouse" / "throughput").mkdir()
    return tmp_path


def test_tables_that_are_there_are_read(storage: Path) -> None:
    assert read_tables(storage) == {"ledger_total": [TOTAL]}


def test_the_page_is_written_where_it_shall_be(storage: Path, tmp_path: Path) -> None:
    output = tmp_path / "pages" / "report.html"
    write_report(storage, output, made_at=NOW, title="Sums", source="here")
    assert "3 keys sent = 2 applied + 1 dead-lettered, 0 lost" in output.read_text(encoding="utf-8")


def test_a_directory_without_tables_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="run `regulus pipeline run --storage"):
        read_tables(tmp_path)


def test_a_broken_file_names_its_table(storage: Path) -> None:
    (storage / "warehouse" / "ledger_total" / "part-1.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(PipelineError, match=r"table ledger_total .* --full-refresh ledger_total"):
        read_tables(storage)


def test_a_page_that_cannot_be_written(storage: Path) -> None:
    (storage / "file").touch()
    with pytest.raises(PipelineError, match="name another file with --output"):
        write_report(storage, storage / "file" / "report.html", made_at=NOW, title="Sums", source="here")
