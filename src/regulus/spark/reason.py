"""What went wrong, in one sentence, out of what Spark wraps around it."""

import re

_OURS = re.compile(r"^(?:\w+Exception: )?regulus\.errors\.\w+: (.*)", re.MULTILINE)
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*?worker\D+([\d.]+\d).*?driver\D+([\d.]+\d)", re.DOTALL)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '((?:regulus|pyarrow|numpy)[^']*)'")


_FROM_JAVA = "An error occurred while calling"
_JAVA_SAYS = re.compile(r"^(?:: |Caused by: )?(?!org\.apache\.spark)[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)


def java_reason(text: str) -> str | None:
    """What another than Spark says in the text of a Java error, such as a database or its driver."""
    says = _JAVA_SAYS.search(text)
    return says[1].strip() if says else None


def reason(text: str) -> str:
    """The sentence of our own error in the text of Spark's; a known trouble with its remedy; else Spark's first
    line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])
    versions = _VERSIONS.search(text)
    if versions:
        return (f"the executors run Python {versions[1]} and the driver {versions[2]}: set PYSPARK_PYTHON, or "
                "spark.pyspark.python, to the same minor version on both")
    missing = _NO_MODULE.search(text)
    if missing:
        return (f"the executors have no {missing[1].partition('.')[0]}: install the wheel there, or submit with "
                "--py-files or --archives")
    if text.startswith(_FROM_JAVA):
        text = java_reason(text) or text.partition("\n")[2].removeprefix(": ")
    return text.partition("\n")[0]
