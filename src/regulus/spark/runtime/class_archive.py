"""Java's archive of Spark's classes (class data sharing), with which Spark starts a third to a half quicker.

A JVM that was asked to writes it at its end. It fits one Java and one Spark; where it does not fit, because something
stands before Spark on the class path, Java goes on without it and says nothing.
"""

from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_WITHOUT_WARNINGS = "-Xlog:disable -Xlog:all=error:stderr"


def archive_of(home: Path, cache: Path) -> Path:
    """Where the archive of this Java and the present Spark is, if it was written. Raises OSError for no Java."""
    java = f"{home}\n{(home / 'bin' / 'java').stat().st_mtime_ns}"
    return cache / f"spark-{version('pyspark')}-{sha256(java.encode()).hexdigest()[:16]}.jsa"


def used(archive: Path) -> str:
    """Options of a JVM that takes its classes from there."""
    return f'"-XX:SharedArchiveFile={archive}" {_WITHOUT_WARNINGS}'


def written(archive: Path) -> str:
    """Options of a JVM that writes it."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_WITHOUT_WARNINGS}'
