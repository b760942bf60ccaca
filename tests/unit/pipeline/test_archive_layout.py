"""The folder of messages as other programs read it; those that are not installed here: tests/interop."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.foreign_archive import ROWS, TOPICS, make_archive


@pytest.fixture
def messages(tmp_path):
    return make_archive(tmp_path) / "messages"


def test_pandas(messages):
    table = pd.read_parquet(messages)
    assert len(table) == ROWS
    assert set(table["topic"]) == set(TOPICS)
    assert set(table["dt"]) == {"2023-11-14", "2023-11-15"}


def test_pyarrow(messages):
    table = pq.read_table(messages)
    assert table.num_rows == ROWS
    assert set(table["topic"].to_pylist()) == set(TOPICS)


@pytest.mark.spark
def test_spark(spark, messages):
    table = spark.read.parquet(str(messages))
    assert table.count() == ROWS
    assert {row["topic"] for row in table.select("topic").distinct().collect()} == set(TOPICS)
    assert 0 < table.where("dt = DATE'2023-11-15' AND topic = '0123'").count() < ROWS
