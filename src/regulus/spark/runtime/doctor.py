"""Says what the Spark table needs and which of that is there: on this machine, and on the executors of a session."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from regulus import __version__
from regulus.errors import MissingJava
from regulus.record import message_columns
from regulus.spark.runtime.error_reason import reason
from regulus.spark.runtime.extras import install_line
from regulus.spark.runtime.java import JavaPlaces, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_VERSION_MIN = (4, 2)
_PACKAGES = ("pyspark", "pyarrow", "numpy")


@dataclass(frozen=True, slots=True)
class Finding:
    """`mend` is empty when all is well."""

    what: str
    found: str
    mend: str = ""


def examine(places: JavaPlaces) -> list[Finding]:
    return [*_packages(), _java(places), _decoder()]


def _packages() -> Iterator[Finding]:
    for name in _PACKAGES:
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(name, "not installed", install_line("spark"))
            continue
        is_old = name == "pyspark" and tuple(int(part) for part in found.split(".")[:2]) < SPARK_VERSION_MIN
        yield Finding(name, found, 'pip install "pyspark>=4.2": older ones lack what the table uses' if is_old else "")


def _java(places: JavaPlaces) -> Finding:
    try:
        java = find_java(places)
    except MissingJava as error:
        return Finding("java", "none", str(error))
    instead = f", in place of {java.passed_over}" if java.passed_over else ""
    return Finding("java", f"{java.version} at {java.home} ({java.why}{instead})")


def _decoder() -> Finding:
    if str(message_columns.__file__).endswith(".py"):
        return Finding("decoder", "interpreted: two to five times as slow as the compiled one",
                       "install a wheel, or reinstall where a C compiler is")
    return Finding("decoder", "compiled")


# --- executors -------------------------------------------------------------------------------------------------------

_PROBE_SCHEMA = "host string, python string, regulus string, build string, pyarrow string, store string"
PROBE_TASKS_MAX = 64        # tasks that ask; a cluster with more executors is asked in part


def examine_executors(spark: "SparkSession", store_path: str = "") -> list[Finding]:
    """What the Python workers of a session have, as far as its first tasks reach; one finding for each thing and
    machine.

    With `store_path` also whether the workers see that directory, which a table over `storePath` needs.
    """
    from pyspark.errors import PySparkException

    try:
        tasks = min(PROBE_TASKS_MAX, int(spark.conf.get("spark.default.parallelism", "2") or 2))
        probed = spark.range(0, tasks, 1, tasks).mapInArrow(_probe(store_path), _PROBE_SCHEMA).distinct().collect()
    except PySparkException as error:
        return [Finding("executors", "no Python task ran", reason(str(error)))]
    return [finding for row in sorted(probed) for finding in _executor_findings(row, store_path)]


def _executor_findings(row: Any, store_path: str) -> Iterator[Finding]:
    where = f"on {row.host}"
    yield Finding(f"python {where}", row.python)
    if not row.regulus:
        yield Finding(f"regulus {where}", "not installed",
                      "install the wheel there, or give --py-files with a zip of the package and call "
                      "regulus.spark.source.register(spark)")
    elif row.regulus != __version__:
        yield Finding(f"regulus {where}", row.regulus, f"the driver has {__version__}: install the same version")
    else:
        yield Finding(f"regulus {where}", f"{row.regulus}, decoder {row.build}")
    yield Finding(f"pyarrow {where}", row.pyarrow)
    if store_path:
        mend = "" if row.store else "a store directory must be visible on every executor: share it, or read live"
        yield Finding(f"{store_path} {where}", "seen" if row.store else "no directory 'commitlog' in it", mend)


def _probe(store_path: str) -> Any:
    """The task. Local to a function, so that it travels by value and runs where this package is missing."""
    def probe(batches: Any) -> Any:
        import platform
        import socket
        from importlib import import_module
        from pathlib import Path

        import pyarrow

        def found(name: str) -> Any:
            try:
                return import_module(name)
            except ImportError:
                return None

        for _ in batches:
            pass
        package, decoder = found("regulus"), found("regulus.record.message_columns")
        build = "compiled" if decoder is not None and not str(decoder.__file__).endswith(".py") else "interpreted"
        row = {"host": socket.gethostname(), "python": platform.python_version(),
               "regulus": package.__version__ if package is not None else "", "build": build,
               "pyarrow": pyarrow.__version__,
               "store": "seen" if store_path and (Path(store_path) / "commitlog").is_dir() else ""}
        yield pyarrow.RecordBatch.from_pylist([row])

    return probe
