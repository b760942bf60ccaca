"""The small tables as Spark sees them."""

import pytest

from regulus.spark.table_schema import TABLES, ddl
from tests.unit.spark.conftest import GOLDEN

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("messages", "trace")])
def test_every_table_has_rows_and_its_schema(spark, name):
    table = spark.read.format("rocketmq").options(storePath=str(GOLDEN / "store-4.9.8"), table=name).load()
    assert ", ".join(f"{column} {kind}" for column, kind in table.dtypes) == ddl(tuple(TABLES[name]), TABLES[name])
    assert table.count() > 0
    first = table.columns[0]
    assert [row[0] for row in table.select(first).collect()].count(None) == 0


def test_columns_are_chosen(spark):
    table = spark.read.format("rocketmq").options(storePath=str(GOLDEN / "store-4.9.8"), table="queues",
                                                  columns="max_offset,topic").load()
    assert table.columns == ["max_offset", "topic"]
    assert table.where("topic = 'SKeys'").selectExpr("sum(max_offset)").first()[0] == 420


def test_the_archive_has_no_such_table(spark):
    with pytest.raises(Exception, match="table 'queues' is not in an archive"):
        spark.read.format("rocketmq").options(archivePath="/archive", table="queues").load().count()
