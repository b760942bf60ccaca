"""The batch reader of the tables that are not messages."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.options import Origin, ReadOptions
from regulus.spark.table_schema import TABLES, check_schema

if TYPE_CHECKING:
    import pyarrow as pa


class Part(InputPartition):
    """One task's share of a table; None for the whole of a small one."""

    def __init__(self, part: Any) -> None:
        super().__init__(part)
        self.part = part


class TableReader(DataSourceReader):
    """Reads the columns of `schema`. Raises OptionError when the table has no such column or it has another type."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if options.origin in (Origin.ARCHIVE, Origin.HISTORY):
            raise OptionError(f"table {options.table!r} is not in an archive: give option 'storePath' or 'nameServer'")
        self._options = options
        self._schema = schema
        check_schema(((field.name, field.dataType.simpleString()) for field in schema.fields), TABLES[options.table])

    def partitions(self) -> list[InputPartition]:
        from regulus.spark.unit_tables import UNIT_TABLES, parts

        if self._options.table not in UNIT_TABLES:
            return [Part(None)]
        return [Part(part) for part in parts(self._options)] or [Part(None)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from regulus.spark import small_tables, unit_tables

        assert isinstance(partition, Part)
        if self._options.table in unit_tables.UNIT_TABLES:
            if partition.part is not None:
                yield from unit_tables.scan(self._options, tuple(self._schema.fieldNames()), partition.part)
            return
        yield self._batch(list(small_tables.rows(self._options, os.environ)))

    def _batch(self, rows: list[dict[str, Any]]) -> "pa.RecordBatch":
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        return pa.RecordBatch.from_arrays(
            [pa.array([row[field.name] for row in rows], field.type) for field in schema], schema=schema)
