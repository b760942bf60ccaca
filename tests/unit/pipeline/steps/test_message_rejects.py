"""A message with a broken body, or without a key, is named with its place."""

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
COLUMNS = ("topic string, broker_name string, queue_id int, queue_offset bigint, physical_offset bigint, "
           "message_id string, keys string, body binary, body_crc int, store_time timestamp")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_each_reject_has_its_reason_and_place(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.message_rejects import message_rejects, rejects_by_reason

    def row(offset: int, body: bytes | None, *, topic: str = "t", keys: str | None = "k", wrong: int = 0) -> tuple:
        crc = (zlib.crc32(body or b"") & 0x7FFFFFFF) ^ wrong
        return topic, "broker-a", 0, offset, 100 * offset, f"M{offset}", keys, body, crc, NOW

    # The body of offset 0 has a checksum whose highest bit is set, which the log does not keep.
    assert zlib.crc32(b"body") > 0x7FFFFFFF
    rows = [row(0, b"body"), row(1, b"bent", wrong=1), row(2, b"nobody's", keys=None), row(3, b""), row(4, None),
            row(5, b"retried", topic="%RETRY%g", keys=None)]
    rejects = message_rejects(small_table(spark, rows, COLUMNS))
    assert {(found.queue_offset, found.physical_offset, found.reason) for found in rejects.collect()} == {
        (1, 100, "the body has another checksum"), (2, 200, "no key")}
    counts = {(found.reason, found.rejected) for found in rejects_by_reason(rejects).collect()}
    assert counts == {("the body has another checksum", 1), ("no key", 1)}
