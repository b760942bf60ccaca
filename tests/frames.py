"""Small tables for tests of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def small_table(spark: "SparkSession", rows: Sequence[tuple[Any, ...]], schema: str) -> "DataFrame":
    """The rows as Arrow: of Python's objects Spark would make them in a Python process anew, each time it asks."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    columns = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC")
    arrays = [pa.array([row[number] for row in rows], column.type) for number, column in enumerate(columns)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=columns))
