"""The directory that SPARK_CONF_DIR names for a pipeline's own Spark: its settings and the levels of its log.

Settings are in a file because no other way works for all of them: many are static, which a pipeline's `configuration`
must not have (each flow that finds one fails), and Spark's own command line loses more than ten --conf.
"""

from collections.abc import Mapping
from pathlib import Path

from regulus.errors import PipelineError
from regulus.spark.runtime.session import SETTINGS

DEFAULTS_FILE = "spark-defaults.conf"
LOG_FILE = "log4j2.properties"

_SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Java options for a short run. It plans some twenty queries, each once, so the second compiler would take half of the
time and save less than that. With one compiler Java reserves 48 MB for code, which those queries fill, and then it
ends; therefore the size is that of two compilers. Of contradictory options Java uses the last, so the user's follow."""

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
    """The settings of a pipeline's own Spark. `given` overrides ours, except those without which a run does not work.

    Raises PipelineError when Derby could not find the catalog again.
    """
    if ";" in str(storage):
        raise PipelineError(f"storage {storage} has a semicolon in its name, at which Derby would cut it off")
    return {
        **SETTINGS,
        "spark.driver.memory": heap,
        "spark.sql.shuffle.partitions": str(cores),
        # Too many flows at once slow each other down, and Spark gives a Python worker only ten seconds to start.
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, cores)),
        # Spark's own default: a broker may have restarted, or the machine may have been busy.
        "spark.sql.pipelines.maxFlowRetryAttempts": "2",
        **given,
        "spark.master": given.get("spark.master", f"local[{cores}]"),
        # No other process may reach the server: it has any free port of this machine, and a password.
        "spark.plugins": ",".join(filter(None, (given.get("spark.plugins"),
                                                "org.apache.spark.sql.connect.SparkConnectPlugin"))),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        # A run must know the tables of the run before, which a catalog in memory does not.
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
    """Write the directory's files. Raises PipelineError when it cannot be written."""
    text = defaults_text(values)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / DEFAULTS_FILE).write_text(text, encoding="latin-1")
        (directory / LOG_FILE).write_text(_LOGGING, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot write {directory}: {error.strerror}; name another place with --storage") from error


def _escaped(value: str) -> str:
    """Escape a value for Java's properties reader: its special characters, line ends, and all beyond ASCII."""
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
