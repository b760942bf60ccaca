"""Spark imports every top-level module named `pyspark_...` and takes its DefaultSource; this is ours."""

from regulus.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
