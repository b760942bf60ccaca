"""Spark sessions of our own: Java found, settings that the table profits from, no noise."""

import sys
from collections.abc import Callable, Mapping, MutableMapping
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

REMOTE_PREFIX = "sc://"
_RUNTIME_PREFIX = "spark.sql."          # settings that a session which runs already, or a server, lets us change
_SUBMITTED = "PYSPARK_GATEWAY_PORT"     # spark-submit gives it to the Python program that it starts


def open_session(find_java: Callable[[], Java], environment: MutableMapping[str, str], master: str,
                 settings: Mapping[str, str]) -> "SparkSession":
    """The session that the surroundings ask for.

    Under spark-submit that of the submission, whose own settings win; at a Spark Connect server where `master` or
    SPARK_REMOTE is an address sc://host:port; else a new one at `master`, such as local[2] or spark://host:7077.
    Raises MissingJava; Java is looked for only where a JVM must be started, and then it and Python are set in
    `environment`, the process's, where Spark looks for them.
    """
    from pyspark.sql import SparkSession

    wanted = {**SETTINGS, **settings}
    changeable = {key: value for key, value in wanted.items() if key.startswith(_RUNTIME_PREFIX)}
    remote = master if master.startswith(REMOTE_PREFIX) else environment.get("SPARK_REMOTE", "")
    if remote:
        return _configured(SparkSession.builder.remote(remote), changeable).getOrCreate()
    if _SUBMITTED in environment:
        session = SparkSession.builder.getOrCreate()
        submitted = session.sparkContext.getConf()
        for key, value in changeable.items():
            if not submitted.contains(key):
                session.conf.set(key, value)
        return session
    _prepare(find_java(), environment)
    return _configured(SparkSession.builder.master(master).appName("regulus"), wanted).getOrCreate()


def _configured(builder: "SparkSession.Builder", settings: Mapping[str, str]) -> "SparkSession.Builder":
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _prepare(java: Java, environment: MutableMapping[str, str]) -> None:
    environment["JAVA_HOME"] = str(java.home)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark guesses an address from the host's name; a session on one machine needs none but this.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
