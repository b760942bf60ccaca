"""Spark sessions of our own: Java found, settings that the table profits from, no noise."""

import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from regulus.spark.java import Java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What we set in our own sessions, and advise for others: the first line moves rows to the JVM faster."""


def local_session(java: Java, environment: MutableMapping[str, str], cores: int,
                  settings: Mapping[str, str]) -> "SparkSession":
    """A session on this machine. Sets Java and Python in `environment`, the process's, where Spark looks for them."""
    from pyspark.sql import SparkSession

    environment["JAVA_HOME"] = str(java.home)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark guesses an address from the host's name; a session on one machine needs none but this.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}]").appName("regulus")
    for key, value in {**SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
