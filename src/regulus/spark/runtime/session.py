"""Opens Spark sessions: finds Java, sets what makes the table faster, and silences progress bars and warnings."""

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
"""Settings of our own sessions, also recommended for others: the first line moves rows to the JVM faster."""

_COLLECTOR = "-XX:+UseParallelGC"
"""The collector of JVMs that we start: its stores cost less than G1's, which saves time for each row. Arrow's checks of
each access stay on, because without them wrong data from Python would be read as if they were right."""

_USERS_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

REMOTE_PREFIX = "sc://"
_RUNTIME_PREFIX = "spark.sql."          # settings that can be changed in a running session or at a server
_SUBMITTED = "PYSPARK_GATEWAY_PORT"     # spark-submit sets it for the Python program that it starts


def open_session(find_java: Callable[[], Java], environment: MutableMapping[str, str], master: str,
                 settings: Mapping[str, str]) -> "SparkSession":
    """Open the session that fits the environment.

    Under spark-submit it is that of the submission, whose own settings have precedence. If `master` or SPARK_REMOTE is
    an address sc://host:port, it is one at that Spark Connect server; else a new one at `master`, such as local[2] or
    spark://host:7077. Java is looked for only if a JVM must be started. Then Java and Python are set in `environment`,
    that of the process, where Spark looks for them. Raises MissingJava, also for a Java that does not start.
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
    """The options of a session's JVMs. Ours names no collector if the user chooses one, because Java refuses two."""
    defaults = Path(environment.get("SPARK_CONF_DIR") or f"{environment.get('SPARK_HOME', '')}/conf",
                    "spark-defaults.conf")
    texts = [environment.get(name, "") for name in _USERS_JAVA_OPTIONS]
    texts += [value for key, value in settings.items() if key.endswith("JavaOptions")]
    texts += [defaults.read_text(encoding="utf-8", errors="replace")] if defaults.is_file() else []
    collector = "" if any("-XX:+Use" in text for text in texts) else _COLLECTOR
    # Spark puts the "default" options before the "extra" ones, which are left to the user.
    options = {"spark.driver.defaultJavaOptions": f"{collector} {driver_options}".strip(),
               "spark.executor.defaultJavaOptions": collector}
    return {key: value for key, value in options.items() if value}


def _prepare(java: Java, environment: MutableMapping[str, str], master: str) -> None:
    environment["JAVA_HOME"] = str(java.home)
    name_python(environment, master)
    # Spark guesses an address from the host's name, which may be wrong; a session on one machine needs only this one.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
