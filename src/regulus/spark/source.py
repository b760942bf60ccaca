"""The data source `rocketmq`.

Spark imports this module, through pyspark_regulus, in every session that uses any Python data source, so it imports
nothing heavy: numpy and pyarrow come in when something is read.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.options import Origin, ReadOptions, parse_options
from regulus.spark.table_schema import KAFKA_COLUMNS, TABLES, check_schema, ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

    from regulus.spark.sink.writer import BatchWriter, StreamWriter


_BOUNDS = ("startingoffsets", "endingoffsets")


class RocketMQSource(DataSource):
    """`spark.read.format("rocketmq").option("storePath", ...).option("topic", ...).load()`"""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        # Spark asks before it says whether this is a batch or a stream, which differ in where they may start and end.
        judged = {name: text for name, text in self.options.items() if name.lower() not in _BOUNDS}
        return table_ddl(parse_options(judged))

    def reader(self, schema: StructType) -> "DataSourceReader":
        return batch_reader(parse_options(self.options), schema)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        return stream_reader(parse_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        from regulus.spark.sink.options import parse_sink_options
        from regulus.spark.sink.writer import BatchWriter

        return BatchWriter(parse_sink_options(self.options, is_stream=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":
        from regulus.spark.sink.options import parse_sink_options
        from regulus.spark.sink.writer import StreamWriter

        return StreamWriter(parse_sink_options(self.options, is_stream=True), schema, overwrite)


def table_ddl(options: ReadOptions) -> str:
    """The schema of the table that the options name, in Spark's words."""
    table = table_columns(options)
    return ddl(options.columns or tuple(table), table)


def table_columns(options: ReadOptions) -> Mapping[str, str]:
    """Names and types of all columns of the table that the options name."""
    if not options.kafka_schema:
        return TABLES[options.table]
    return {name: kind for name, kind in KAFKA_COLUMNS.items() if options.include_headers or name != "headers"}


def batch_reader(options: ReadOptions, schema: StructType) -> "DataSourceReader":
    """The reader for a table and the place where it is.

    Raises OptionError for what nothing reads, and for a schema that is not the table's.
    """
    columns = checked_columns(options, schema)
    if not options.is_of_messages:
        from regulus.spark.readers.table import TableReader

        return TableReader(options, schema)
    if options.kafka_schema:
        from regulus.spark.readers.kafka import KafkaReader

        return KafkaReader(columns, partial(messages_reader, options))
    if options.push_filters:
        from regulus.spark.readers.push_down import PushDownReader

        return PushDownReader(options, partial(messages_reader, columns=columns))
    return messages_reader(options, columns)


def messages_reader(options: ReadOptions, columns: tuple[str, ...]) -> "DataSourceReader":
    """The reader of `columns` of the messages."""
    match options.origin:
        case Origin.STORE | Origin.LIVE | Origin.HISTORY:
            from regulus.spark.readers.batch import BatchReader

            return BatchReader(options, columns)
        case Origin.ARCHIVE:
            from regulus.spark.readers.archive import ArchiveReader

            return ArchiveReader(options, columns)


def stream_reader(options: ReadOptions, schema: StructType) -> "DataSourceStreamReader":
    """The reader of a stream. Raises OptionError for what cannot be a stream, and for a schema that is not the
    table's."""
    columns = checked_columns(options, schema)
    if not options.is_of_messages:
        raise OptionError(f"option 'table' is {options.table!r}, which is no stream: read it as a batch")
    if options.push_filters:
        raise OptionError("option 'pushFilters' is one of batch reads, as Spark pushes nothing to a stream: leave it "
                          "out, and choose by 'tags' or 'sql'")
    from regulus.spark.readers.stream import StreamReader

    return StreamReader(options, columns)


def checked_columns(options: ReadOptions, schema: StructType) -> tuple[str, ...]:
    """The columns that a schema asks for. Raises OptionError when the table does not have them so."""
    return check_schema(((field.name, field.dataType.simpleString()) for field in schema.fields),
                        table_columns(options))


def register(spark: "SparkSession") -> None:
    """Make the source known to a session that does not find it by itself, because the package came as a zip."""
    spark.dataSource.register(RocketMQSource)
