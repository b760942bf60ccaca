import pytest

from regulus.spark.table_schema import COLUMNS
from tests.archives import archive_store
from tests.unit.spark.conftest import GOLDEN

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    target = tmp_path_factory.mktemp("archives") / "archive"
    archive_store(GOLDEN / "store-4.9.8", target)
    return str(target)


def test_the_table_of_an_archive_is_that_of_the_store(spark, archive):
    read = spark.read.format("rocketmq").option("subscribe", "SNormal,SKeys,STrans")
    archived = read.option("archivePath", archive).load()
    stored = spark.read.format("rocketmq").option("subscribe", "SNormal,SKeys,STrans").option(
        "storePath", str(GOLDEN / "store-4.9.8")).load()
    assert archived.columns == list(COLUMNS)
    comparable = [name for name in COLUMNS if name != "properties"]
    assert archived.count() == stored.count() > 400
    assert archived.select(*comparable).exceptAll(stored.select(*comparable)).count() == 0


def test_plain_parquet_readers_see_the_files(spark, archive):
    written = spark.read.parquet(f"{archive}/messages")
    assert written.where("topic = '%RETRY%CG_retry'").count() > 0
    assert {str(row.dt) for row in written.select("dt").distinct().collect()} == {"2026-11-20"}


def test_nothing_to_read_is_an_empty_table(spark, archive):
    read = spark.read.format("rocketmq").options(archivePath=archive, topic="SNormal", startingTimestamp="2030-01-01")
    assert read.load().count() == 0


def test_errors_reach_the_user(spark, archive):
    with pytest.raises(Exception, match="did you mean 'SNormal'"):
        spark.read.format("rocketmq").options(archivePath=archive, topic="SNormals").load().count()
