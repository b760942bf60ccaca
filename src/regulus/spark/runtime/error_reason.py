"""Extracts the reason of an error, in one sentence, from the text that Spark wraps around it."""

import re

from regulus import errors
from regulus.errors import BrokerRefused, RegulusError, SparkFailed

_OURS = re.compile(r"^(?:\w+Exception: )?regulus\.errors\.(\w+): (.*)", re.MULTILINE)
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*?worker\D+([\d.]+\d).*?driver\D+([\d.]+\d)", re.DOTALL)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '((?:regulus|pyarrow|numpy)[^']*)'")
_PYTHON_SAYS = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+(?:: .*)?)$", re.MULTILINE)
_FROM_SYSTEM = re.compile(r"^\w+: \[Errno \d+\] (.*)")
_RIGHTS = "PermissionError: "
_ANSWERED = re.compile(r"answered (\d+): ")

_FROM_JAVA = "An error occurred while calling"
_JAVA_SAYS = re.compile(r"^(?:: |Caused by: )?(?!org\.apache\.spark)[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)


def java_reason(text: str) -> str | None:
    """The message in the text of a Java error that is not from Spark but, for example, from a database driver."""
    says = _JAVA_SAYS.search(text)
    return says[1].strip() if says else None


def reason(text: str) -> str:
    """The reason in the text of Spark's error. The first of these that is found: the sentence of our own error, a known
    fault with its remedy, the last error of a Python task, and Spark's first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1][1])
    versions = _VERSIONS.search(text)
    if versions:
        return (f"the executors run Python {versions[1]} and the driver {versions[2]}: set PYSPARK_PYTHON, or "
                "spark.pyspark.python, to the same minor version on both")
    missing = _NO_MODULE.search(text)
    if missing:
        return (f"the executors have no {missing[1].partition('.')[0]}: install the wheel there, or submit with "
                "--py-files or --archives")
    python = _PYTHON_SAYS.findall(text)
    if python:
        return _of_python(python[-1])
    if text.startswith(_FROM_JAVA):
        text = java_reason(text) or text.partition("\n")[2].removeprefix(": ")
    return text.partition("\n")[0]


def error_of(text: str) -> RegulusError:
    """Our own error from the text of Spark's, so that callers handle it as if raised directly; else SparkFailed."""
    ours = _OURS.findall(text)
    kind = getattr(errors, ours[-1][0], None) if ours else None
    if kind is None:
        return SparkFailed(reason(text))
    # Without its __init__, which would make the sentence that the text already is.
    error: RegulusError = kind.__new__(kind, ours[-1][1])
    answered = _ANSWERED.search(ours[-1][1])
    if isinstance(error, BrokerRefused) and answered:
        error.code = int(answered[1])
    return error


def _of_python(line: str) -> str:
    """The text of a Python error; an error of the system loses its class and number."""
    says = _FROM_SYSTEM.match(line)
    if says is None:
        return line
    return f"{says[1]}: give the user as whom Spark runs the right to it" if line.startswith(_RIGHTS) else says[1]
