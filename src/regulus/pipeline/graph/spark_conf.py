"""The directory that SPARK_CONF_DIR names for a pipeline's own Spark: settings and the log's noise level.

Settings go by file because there is no other way for all of them: many are static, which a pipeline's `configuration`
may not hold (each flow that finds one fails), and Spark's own command line loses --conf beyond ten.
"""

from collections.abc import Mapping
from pathlib import Path

from regulus.errors import PipelineError
from regulus.spark.runtime.session import SETTINGS

DEFAULTS_FILE = "spark-defaults.conf"
LOG_FILE = "log4j2.properties"

_SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""A run plans some twenty queries, each once: what the second compiler gains is less than the half of all time that it
takes. With one compiler Java would keep 48 MB for code, which those queries fill; then it ends. The size is that of
two. Java obeys the last of options that contradict each other, so a user's own come behind."""

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
# At the end of a run the client lets go of what its closed session held; the server calls that an error.
logger.connect.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.connect.level = off
# Nobody watches the embedded catalog's schema version but itself.
logger.metastore.name = org.apache.hadoop.hive.metastore
logger.metastore.level = off
"""


def settings(storage: Path, cores: int, heap: str, given: Mapping[str, str]) -> dict[str, str]:
    """What a pipeline's own Spark is started with. `given` beats what we would set, but for what makes a run work.

    Raises PipelineError when Derby could not find the catalog again.
    """
    if ";" in str(storage):
        raise PipelineError(f"storage {storage} has a semicolon in its name, at which Derby would cut it off")
    return {
        **SETTINGS,
        "spark.driver.memory": heap,
        "spark.sql.shuffle.partitions": str(cores),
        # All flows at once starve each other, and Spark gives a Python worker ten seconds to come up.
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, cores)),
        # Spark's own default: a broker may have restarted, or the machine been busy.
        "spark.sql.pipelines.maxFlowRetryAttempts": "2",
        **given,
        "spark.master": given.get("spark.master", f"local[{cores}]"),
        # One process, one server, reached by nobody else: any free port of this machine, and a password.
        "spark.plugins": ",".join(filter(None, (given.get("spark.plugins"),
                                                "org.apache.spark.sql.connect.SparkConnectPlugin"))),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        # The tables of the run before must be known to the next one; the catalog in memory knows none of them.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (storage / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL":
            f"jdbc:derby:;databaseName={storage / 'catalog'};create=true",
        "spark.driver.extraJavaOptions": " ".join(filter(None, (
            _SHORT_LIFE, f'"-Dderby.stream.error.file={storage / "catalog.log"}"',
            given.get("spark.driver.extraJavaOptions")))),
    }


def defaults_text(values: Mapping[str, str]) -> str:
    """The text of spark-defaults.conf, which is a Java properties file. Raises PipelineError for a key with a blank."""
    lines = []
    for key, value in values.items():
        if not key or any(sign.isspace() or sign in "=:#!\\" for sign in key):
            raise PipelineError(f"{key!r} cannot be the name of a Spark setting")
        lines.append(f"{key} {_escaped(value)}\n")
    return "".join(lines)


def write_conf(directory: Path, values: Mapping[str, str]) -> None:
    """Raises PipelineError when the directory cannot be written."""
    text = defaults_text(values)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / DEFAULTS_FILE).write_text(text, encoding="latin-1")
        (directory / LOG_FILE).write_text(_LOGGING, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot write {directory}: {error.strerror}; name another place with --storage") from error


def _escaped(value: str) -> str:
    """A value that Java's properties reader gives back as it was: its own signs, line ends and all beyond ASCII."""
    signs = []
    for sign in value:
        if sign == "\\":
            signs.append("\\\\")
        elif " " <= sign <= "~":
            signs.append(sign)
        else:
            code = sign.encode("utf-16-be")
            signs += [f"\\u{code[at]:02x}{code[at + 1]:02x}" for at in range(0, len(code), 2)]
    text = "".join(signs)
    return f"\\{text}" if text.startswith(" ") else text
