"""The data source `rocketmq`.

Spark imports this module, through pyspark_regulus, in every session that uses any Python data source, so it imports
nothing heavy: numpy and pyarrow come in when something is read.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.options import Origin, ReadOptions, parse_options
from regulus.spark.table_schema import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader

    from regulus.spark.writer import BatchWriter, StreamWriter


class RocketMQSource(DataSource):
    """`spark.read.format("rocketmq").option("storePath", ...).option("topic", ...).load()`"""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return table_ddl(parse_options(self.options))

    def reader(self, schema: StructType) -> "DataSourceReader":
        return batch_reader(parse_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from regulus.spark.sink_options import parse_sink_options
        from regulus.spark.writer import BatchWriter

        return BatchWriter(parse_sink_options(self.options, is_stream=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        from regulus.spark.sink_options import parse_sink_options
        from regulus.spark.writer import StreamWriter

        return StreamWriter(parse_sink_options(self.options, is_stream=True), schema, overwrite)


def table_ddl(options: ReadOptions) -> str:
    """The schema of the table that the options name, in Spark's words."""
    return ddl(options.columns or tuple(COLUMNS))


def batch_reader(options: ReadOptions, schema: StructType) -> "DataSourceReader":
    """The reader for a table and the place where it is. Raises OptionError for what nothing reads."""
    if options.table != "messages":
        raise OptionError(f"option 'table' is {options.table!r}, which is not served yet: 'messages' is")
    if options.kafka_schema or options.push_filters:
        name = "kafkaSchema" if options.kafka_schema else "pushFilters"
        raise OptionError(f"option {name!r} is not served yet: leave it out")
    match options.origin:
        case Origin.STORE | Origin.LIVE:
            from regulus.spark.batch_reader import BatchReader

            return BatchReader(options, schema)
        case Origin.ARCHIVE:
            from regulus.spark.archive_reader import ArchiveReader

            return ArchiveReader(options, schema)
        case Origin.HISTORY:
            raise OptionError(f"reading by {options.origin} is not served yet: give one of the two")


def register(spark: "SparkSession") -> None:
    """Make the source known to a session that does not find it by itself, because the package came as a zip."""
    spark.dataSource.register(RocketMQSource)
