"""Reads what the ledger pipeline made and writes its report page, without Spark: the tables are small Parquet files."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from regulus.errors import PipelineError
from regulus.pipeline.report.charts import Mark
from regulus.pipeline.report.page import Heading, page

REPORT_TABLES = ("ledger_total", "ledger_by_tag", "throughput", "effects_over_time", "latency_percentiles",
                 "latency_curve", "latency_hourly", "retry_ladder", "dead_letters_by_cause", "group_lag", "queue_gaps",
                 "duplicates", "rejected_by_reason")
ROWS_MAX = 200_000
"""More rows of one table than this do not make a report; the first ones are shown."""


def read_tables(storage: Path, names: Sequence[str] = REPORT_TABLES) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables that are there, below a pipeline's storage.

    Raises PipelineError when the directory is not a pipeline's, or a table in it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    warehouse = storage / "warehouse"
    if not warehouse.is_dir():
        raise PipelineError(f"{storage} has no tables of a pipeline: run `regulus pipeline run --storage {storage}` "
                            "first")
    tables = {}
    for name in names:
        # Hive, whose catalog this is, writes names in lower case.
        directory = warehouse / name.lower()
        files = [str(file) for file in sorted(directory.glob("*.parquet"))] if directory.is_dir() else []
        if not files:
            continue
        try:
            tables[name] = ds.dataset(files, format="parquet").head(ROWS_MAX).to_pylist()
        except (pa.ArrowInvalid, OSError) as error:
            raise PipelineError(f"table {name} in {directory} cannot be read: {error}; run the pipeline with "
                                f"--full-refresh {name}") from error
    return tables


def write_report(storage: Path, output: Path, *, made_at: datetime, title: str, source: str, tag_word: str = "tag",
                 marks: Sequence[Mark] = ()) -> None:
    """Raises PipelineError when there is nothing to report, or the file cannot be written."""
    tables = read_tables(storage)
    text = page(tables, Heading(title=title, source=source, made_at=made_at, tag_word=tag_word, marks=marks))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot write {output}: {error.strerror}; name another file with --output") from error
