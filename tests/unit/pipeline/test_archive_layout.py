"""The folder of messages as other programs read it; those that are not installed here: tests/interop."""

from urllib.parse import quote

import pandas as pd
import pyarrow.parquet as pq
import pytest

from regulus.pipeline.archive import task as archive_task
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.range_tasks import LocalTasks
from tests.archives import archive_store, archived_rows, manifests_of, nothing
from tests.foreign_archive import ROWS, TOPICS, make_archive
from tests.stores import NOW, a_message, dispatch, fill, open_store


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


def old_path(part, topic, day):
    return f"data/topic={quote(topic, safe='')}/dt={day}/{part.name}.parquet"


def test_an_archive_of_a_version_before_is_read_continued_and_compacted(tmp_path, monkeypatch):
    store = open_store(tmp_path / "store")
    fill(store, 30)
    store.close()
    archive = tmp_path / "archive"
    with monkeypatch.context() as before:
        before.setattr(archive_task, "data_path", old_path)
        archive_store(tmp_path / "store", archive, range_size=1024)
    assert {file["path"].partition("/")[0] for each in manifests_of(archive) for file in each["files"]} == {"data"}
    store = open_store(tmp_path / "store")
    store.append(a_message(body=b"later"), NOW + 100)
    dispatch(store)
    store.close()
    assert archive_store(tmp_path / "store", archive, range_size=1024).rows == 1
    offsets = [row["queue_offset"] for row in archived_rows(archive, "queue_offset", topic="TopicA")]
    assert sorted(offsets) == list(range(31))
    compact(LocalTasks(), CompactConfig(archive_path=str(archive), keep_superseded_ms=0), "run", NOW * 2, None, nothing)
    assert sorted(row["queue_offset"] for row in archived_rows(archive, "queue_offset", topic="TopicA")) == offsets
    assert len(pd.read_parquet(archive / "messages")) > 1
