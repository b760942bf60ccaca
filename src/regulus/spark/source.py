"""The data source `rocketmq`.

Spark imports this module, through pyspark_regulus, in every session that uses any Python data source, so it imports
nothing heavy: numpy and pyarrow come in when something is read.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from regulus.spark.options import parse_options
from regulus.spark.table_schema import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from regulus.spark.batch_reader import BatchReader


class RocketMQSource(DataSource):
    """`spark.read.format("rocketmq").option("storePath", ...).option("topic", ...).load()`"""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return ddl(parse_options(self.options).columns or tuple(COLUMNS))

    def reader(self, schema: StructType) -> "BatchReader":
        from regulus.spark.batch_reader import BatchReader

        return BatchReader(parse_options(self.options), schema)


def register(spark: "SparkSession") -> None:
    """Make the source known to a session that does not find it by itself, because the package came as a zip."""
    spark.dataSource.register(RocketMQSource)
