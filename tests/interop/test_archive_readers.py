"""The archive's folder of messages, read by the programs that people have for Parquet; pandas, pyarrow and Spark
read it in tests/unit/pipeline/test_archive_layout.py."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.foreign_archive import DAYS, ROWS, TOPICS, make_archive
from toolchain import PARQUET_READERS, parquet_python


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive")) / "messages"


@pytest.mark.parametrize("reader", ["polars", "duckdb", "datafusion", "clickhouse"])
def test_a_reader_of_parquet_finds_all_rows_topics_and_days(messages: Path, reader: str) -> None:
    done = subprocess.run([parquet_python(), PARQUET_READERS / "read_messages.py", reader, messages],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [ROWS, sorted(TOPICS), DAYS]
