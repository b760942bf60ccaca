import numpy as np
import pyarrow.parquet as pq

from regulus.pipeline import archive_task
from regulus.pipeline.archive_task import day_text, row_groups
from regulus.spark.columns import arrow_schema
from regulus.spark.table_schema import COLUMNS
from tests.archives import archive_store, manifests_of
from tests.stores import NOW, a_message, dispatch, open_store


def test_rows_are_grouped_by_number_and_by_bytes():
    assert row_groups(np.full(150_000, 100)) == [slice(0, 65_536), slice(65_536, 131_072), slice(131_072, 150_000)]
    assert [part.stop - part.start for part in row_groups(np.full(40, 4 << 20))] == [16, 16, 8]
    assert row_groups(np.array([100 << 20, 1])) == [slice(0, 1), slice(1, 2)]
    assert row_groups(np.array([], dtype=np.int64)) == []


def test_days_are_of_utc():
    assert day_text(0) == "1970-01-01"
    assert day_text(86_399_999) == "1970-01-01"
    assert day_text(NOW) == "2023-11-14"


def test_files_have_the_schema_of_the_table_zstd_and_few_dictionaries(store, tmp_path):
    archive_store(store, tmp_path / "archive")
    file = manifests_of(tmp_path / "archive")[0]["files"][0]
    with pq.ParquetFile(tmp_path / "archive" / file["path"]) as parquet:
        assert parquet.schema_arrow.equals(arrow_schema(tuple(COLUMNS)))
        group = parquet.metadata.row_group(0)
        columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert {name for name, column in columns.items() if column.has_dictionary_page} <= {
        "topic", "broker_name", "tags", "born_host", "store_host"}
    assert columns["queue_offset"].statistics.has_min_max
    assert not columns["body"].is_stats_set


def test_large_bodies_make_small_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_task, "ROW_GROUP_BYTES_MAX", 10_000)
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20)
    for number in range(10):
        store.append(a_message(body=bytes([number]) * 4000), NOW)
    dispatch(store)
    store.close()
    archive_store(tmp_path / "store", tmp_path / "archive")
    file = manifests_of(tmp_path / "archive")[0]["files"][0]
    assert pq.ParquetFile(tmp_path / "archive" / file["path"]).metadata.num_row_groups == 5
