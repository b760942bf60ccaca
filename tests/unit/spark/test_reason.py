import pytest

from regulus.spark.reason import reason

VERSION_MISMATCH = """pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different \
version: 3.10 than that in driver: 3.11, PySpark cannot run with different minor versions."""
VERSION_MEND = ("the executors run Python 3.10 and the driver 3.11: set PYSPARK_PYTHON, or spark.pyspark.python, to "
                "the same minor version on both")

ABORTED = "An error occurred while calling o1.load.\n: org.apache.spark.SparkException: Job aborted\n\tat x"


@pytest.mark.parametrize(("text", "sentence"), [
    ("[PYTHON_DATA_SOURCE_ERROR] Failed.\nTraceback ...:\nregulus.errors.OptionError: unknown option 'x'\n",
     "unknown option 'x'"),
    (VERSION_MISMATCH, VERSION_MEND),
    ("...\nModuleNotFoundError: No module named 'regulus.spark'\n...",
     "the executors have no regulus: install the wheel there, or submit with --py-files or --archives"),
    ("An error occurred while calling o1.load.\n: org.postgresql.util.PSQLException: ERROR: no such role\n\tat x\n",
     "ERROR: no such role"),
    (f"{ABORTED}\nCaused by: java.sql.SQLException: gone away\n\tat y", "gone away"),
    (ABORTED, "org.apache.spark.SparkException: Job aborted"),
    ("something else\nthat nobody reads", "something else"),
])
def test_one_sentence(text, sentence):
    assert reason(text) == sentence


def test_the_reason_is_ours_where_there_is_one():
    wrapped = """[PYTHON_DATA_SOURCE_ERROR] Failed to create an instance: Traceback (most recent call last):
  File "/somewhere/options.py", line 90, in _known_values
regulus.errors.OptionError: unknown option 'tag': did you mean 'tags'?
 SQLSTATE: 38000"""
    assert reason(wrapped) == "unknown option 'tag': did you mean 'tags'?"
    assert reason("[UNRESOLVED_COLUMN] no column `x`\nat ...") == "[UNRESOLVED_COLUMN] no column `x`"
