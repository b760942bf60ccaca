"""Chooses the Python with which Spark starts its workers.

Spark puts zips of its own Python modules, and a jar, before everything else on its workers' path. Python does not keep
compiled modules of a zip, so each worker compiles Spark's modules again, and a first read waits for some six workers
one after another. If pip installed Spark, the same modules are also there as files. Therefore the workers of this
machine start with a script that leaves out the zips and uses worker_daemon.py as Spark's daemon.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from regulus.errors import OptionError

SCRIPT = Path(__file__).with_suffix(".sh")
_INTERPRETER = "REGULUS_WORKER_PYTHON"  # the script reads it


def name_python(environment: MutableMapping[str, str], master: str) -> None:
    """Set PYSPARK_PYTHON in `environment`, that of a session at `master`, unless the user has set it.

    It is the script, or this Python itself if executors are separate processes, if pip did not install Spark, or if the
    script is not executable or has a space in its path: Spark splits the command with which it looks for data sources
    at spaces, and would not find any. Raises OptionError when this Python's path has a space, too.
    """
    if environment.get("PYSPARK_PYTHON", "") not in ("", str(SCRIPT)):
        return
    import pyspark

    brought_by_pip = environment.get("SPARK_HOME", "") in ("", str(Path(pyspark.__file__).parent))
    if master.partition("[")[0] == "local" and brought_by_pip and os.access(SCRIPT, os.X_OK) and " " not in str(SCRIPT):
        environment["PYSPARK_PYTHON"] = str(SCRIPT)
        environment[_INTERPRETER] = sys.executable
    elif " " in sys.executable:
        raise OptionError(f"Spark finds no data source with a Python whose path has a space, as {sys.executable} has: "
                          "set PYSPARK_PYTHON to a link to it without one")
    else:
        environment["PYSPARK_PYTHON"] = sys.executable
