"""What went wrong, in one sentence, out of what Spark wraps around it."""

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
    """What another than Spark says in the text of a Java error, such as a database or its driver."""
    says = _JAVA_SAYS.search(text)
    return says[1].strip() if says else None


def reason(text: str) -> str:
    """The sentence of our own error in the text of Spark's; a known trouble with its remedy; what a task of Python's
    ended with; else Spark's first line."""
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
    """Our own error in the text of Spark's, so that it is handled as if no Spark had been between; else SparkFailed."""
    ours = _OURS.findall(text)
    kind = getattr(errors, ours[-1][0], None) if ours else None
    if kind is None:
        return SparkFailed(reason(text))
    # Not by its __init__, which makes the sentence that is there already.
    error: RegulusError = kind.__new__(kind, ours[-1][1])
    answered = _ANSWERED.search(ours[-1][1])
    if isinstance(error, BrokerRefused) and answered:
        error.code = int(answered[1])
    return error


def _of_python(line: str) -> str:
    """What the system refused needs no name of a class."""
    says = _FROM_SYSTEM.match(line)
    if says is None:
        return line
    return f"{says[1]}: give the user as whom Spark runs the right to it" if line.startswith(_RIGHTS) else says[1]
