"""Java's archive of Spark's classes (class data sharing), with which Spark starts a third to a half faster.

A JVM writes it at its end if its options say so. It fits one Java and one Spark. If it does not fit, because something
is before Spark on the class path, Java continues without it and without a message.
"""

from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_WITHOUT_WARNINGS = "-Xlog:disable -Xlog:all=error:stderr"


def archive_of(home: Path, cache: Path) -> Path:
    """The path of the archive of this Java and the present Spark, written or not. Raises OSError if there is no
    Java."""
    java = f"{home}\n{(home / 'bin' / 'java').stat().st_mtime_ns}"
    return cache / f"spark-{version('pyspark')}-{sha256(java.encode()).hexdigest()[:16]}.jsa"


def used(archive: Path) -> str:
    """Options of a JVM that loads its classes from the archive."""
    return f'"-XX:SharedArchiveFile={archive}" {_WITHOUT_WARNINGS}'


def written(archive: Path) -> str:
    """Options of a JVM that writes the archive."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_WITHOUT_WARNINGS}'
