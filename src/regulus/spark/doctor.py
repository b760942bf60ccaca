"""Says what the Spark table needs and what of it is there."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from regulus.errors import MissingJava
from regulus.record import message_columns
from regulus.spark.java import JavaPlaces, find_java

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
            yield Finding(name, "not installed", 'pip install "regulus[spark]"')
            continue
        is_old = name == "pyspark" and tuple(int(part) for part in found.split(".")[:2]) < SPARK_VERSION_MIN
        yield Finding(name, found, 'pip install "pyspark>=4.2": older ones lack what the table uses' if is_old else "")


def _java(places: JavaPlaces) -> Finding:
    try:
        java = find_java(places)
    except MissingJava as error:
        return Finding("java", "none", str(error))
    return Finding("java", f"{java.version} at {java.home} ({java.why})")


def _decoder() -> Finding:
    if str(message_columns.__file__).endswith(".py"):
        return Finding("decoder", "interpreted: two to five times as slow as the compiled one",
                       "install a wheel, or reinstall where a C compiler is")
    return Finding("decoder", "compiled")
