"""Spark sessions of our own: Java found, settings that the table profits from, no noise."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from regulus.errors import MissingJava
from regulus.spark.runtime.java import Java
from regulus.spark.runtime.worker_python import name_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What we set in our own sessions, and advise for others: the first line moves rows to the JVM faster."""

_COLLECTOR = "-XX:+UseParallelGC"
"""What we start a JVM with: a collector whose stores cost less than G1's, which saves time for each row. Arrow's checks
of each access stay on: what crosses from Python to the JVM is told by them where it is wrong, and read as it is not."""

_USERS_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

REMOTE_PREFIX = "sc://"
_RUNTIME_PREFIX = "spark.sql."          # settings that a session which runs already, or a server, lets us change
_SUBMITTED = "PYSPARK_GATEWAY_PORT"     # spark-submit gives it to the Python program that it starts


def open_session(find_java: Callable[[], Java], environment: MutableMapping[str, str], master: str,
                 settings: Mapping[str, str]) -> "SparkSession":
    """The session that the surroundings ask for.

    Under spark-submit that of the submission, whose own settings win; at a Spark Connect server where `master` or
    SPARK_REMOTE is an address sc://host:port; else a new one at `master`, such as local[2] or spark://host:7077.
    Raises MissingJava, also for one that does not start; Java is looked for only where a JVM must be started, and then
    it and Python are set in `environment`, the process's, where Spark looks for them.
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
    java = find_java()
    _prepare(java, environment, master)
    wanted = {**jvm_settings(environment, wanted, java.options), **wanted}
    with _start_of(java):
        return _configured(SparkSession.builder.master(master).appName("regulus"), wanted).getOrCreate()


@contextmanager
def _start_of(java: Java) -> Iterator[None]:
    """Raises MissingJava when Java ends before Spark begins."""
    from pyspark.errors import PySparkRuntimeError

    try:
        yield
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise MissingJava(f"the Java in {java.home} ended before Spark began, and says above why: set JAVA_HOME to "
                          "another, or look at the options that are given to it (JAVA_TOOL_OPTIONS, "
                          "spark.driver.extraJavaOptions) and at the free memory") from error


def _configured(builder: "SparkSession.Builder", settings: Mapping[str, str]) -> "SparkSession.Builder":
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def jvm_settings(environment: Mapping[str, str], settings: Mapping[str, str],
                 driver_options: str = "") -> dict[str, str]:
    """The options of the JVMs of a session. A collector that the user chooses is the only one: Java refuses two."""
    defaults = Path(environment.get("SPARK_CONF_DIR") or f"{environment.get('SPARK_HOME', '')}/conf",
                    "spark-defaults.conf")
    texts = [environment.get(name, "") for name in _USERS_JAVA_OPTIONS]
    texts += [value for key, value in settings.items() if key.endswith("JavaOptions")]
    texts += [defaults.read_text(encoding="utf-8", errors="replace")] if defaults.is_file() else []
    collector = "" if any("-XX:+Use" in text for text in texts) else _COLLECTOR
    # Spark's "default" options stand before the "extra" ones, which stay the user's.
    options = {"spark.driver.defaultJavaOptions": f"{collector} {driver_options}".strip(),
               "spark.executor.defaultJavaOptions": collector}
    return {key: value for key, value in options.items() if value}


def _prepare(java: Java, environment: MutableMapping[str, str], master: str) -> None:
    environment["JAVA_HOME"] = str(java.home)
    name_python(environment, master)
    # Spark guesses an address from the host's name; a session on one machine needs none but this.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
