import pytest

from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.errors import BrokerRefused, NoNameServer, SparkFailed, TopicUnknown
from regulus.spark.runtime.error_reason import error_of, reason

VERSION_MISMATCH = """pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different \
version: 3.10 than that in driver: 3.11, PySpark cannot run with different minor versions."""
VERSION_MEND = ("the executors run Python 3.10 and the driver 3.11: set PYSPARK_PYTHON, or spark.pyspark.python, to "
                "the same minor version on both")

UNREADABLE = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate read partitions: Traceback (most recent call last):
  File "/p/worker.py", line 1, in main
    process()
    ~~~~~~~^^
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/p/store_files.py", line 9, in topics
    os.scandir(path)
PermissionError: [Errno 13] Permission denied: '/s/commitlog'
 SQLSTATE: 38000
\tat org.apache.spark.x(Y.scala:1)
"""
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
    (UNREADABLE, "Permission denied: '/s/commitlog': give the user as whom Spark runs the right to it"),
    (UNREADABLE.replace("PermissionError: [Errno 13] Permission denied: '/s/commitlog'", "ValueError: no number"),
     "ValueError: no number"),
    ("An exception was thrown from the Python worker:\n" + UNREADABLE.replace("denied: '/s/commitlog'", "denied"),
     "Permission denied: give the user as whom Spark runs the right to it"),
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


@pytest.mark.parametrize(("line", "kind", "status"), [
    ("TopicUnknown: the cluster has no topic 'order'", TopicUnknown, ExitCode.NOT_FOUND),
    ("NoNameServer: no name server answers: h:1", NoNameServer, ExitCode.NOT_REACHABLE),
    ("BrokerRefused: h:1 answered 16: no right", BrokerRefused, ExitCode.REFUSED),
    ("OfANewerVersion: something", SparkFailed, ExitCode.FAILED),
])
def test_an_error_of_ours_is_the_same_as_without_spark(line, kind, status):
    error = error_of(f"[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback:\nregulus.errors.{line}\n SQLSTATE: 38000")
    assert type(error) is kind
    assert str(error) == line.partition(": ")[2]
    assert exit_code(error) is status
