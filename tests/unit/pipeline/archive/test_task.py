import base64
import json
import re

import pyarrow.parquet as pq

from regulus.model.store_result import PutStatus
from regulus.pipeline.archive.task import day_text
from regulus.spark.columns.records import arrow_schema
from regulus.spark.table_schema import COLUMNS
from tests.archives import archive_store, archived_rows, manifests_of
from tests.stores import NOW, a_message, fill, open_store


def test_days_are_of_utc():
    assert day_text(0) == "1970-01-01"
    assert day_text(86_399_999) == "1970-01-01"
    assert day_text(NOW) == "2023-11-14"
    assert day_text(2**62) == "9999-12-31"
    assert day_text(-1) == "1970-01-01"


def test_times_beyond_the_calendar_lie_in_one_file(tmp_path):
    """A damaged time is no reason to stop: the message goes to the last day."""
    store = open_store(tmp_path / "store")
    for store_time in (NOW, 2**56, 2**57, -5):
        assert store.append(a_message(KEYS="k"), store_time).status is PutStatus.PUT_OK
    while store.dispatch_behind_bytes():
        store.dispatch(1024, ())
    store.close()
    report = archive_store(tmp_path / "store", tmp_path / "archive")
    assert report.rows == 4
    days = {file["day"]: file["rows"] for file in manifests_of(tmp_path / "archive")[0]["files"]}
    assert days == {"1970-01-01": 1, "2023-11-14": 1, "9999-12-31": 2}


def test_records_whose_topic_is_no_text_are_rejected_each_for_itself(tmp_path):
    """Two that are damaged alike would read as one topic, and one file would take the place of the other."""
    opened = open_store(tmp_path / "store")
    fill(opened, 6)
    opened.close()
    [log] = (tmp_path / "store" / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    places = [found.start() for found in re.finditer(b"TopicA", data)]
    data[places[1]], data[places[3]] = 0xFF, 0xFE
    log.write_bytes(data)
    archive = tmp_path / "archive"
    report = archive_store(tmp_path / "store", archive)
    assert (report.rows, report.rejected) == (4, 2)
    rows = archived_rows(archive, "topic", "queue_offset", subscribePattern=".*", failOnDataLoss="false")
    assert [(row["topic"], row["queue_offset"]) for row in rows] == [("TopicA", offset) for offset in (0, 2, 4, 5)]
    [manifest] = manifests_of(archive)
    assert (manifest["records"], manifest["unreadable"]) == (6, 2)
    lines = [json.loads(line) for line in (archive / manifest["rejects"]["path"]).read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["its topic b'\\xffopicA' is not UTF-8",
                                                  "its topic b'\\xfeopicA' is not UTF-8"]
    assert [base64.b64decode(line["data"]).count(b"0000000" + number) for line, number in
            zip(lines, (b"1", b"3"), strict=True)] == [2, 2]
    assert "topic" not in lines[0]


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
