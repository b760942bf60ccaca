"""The Python that Spark starts its workers with.

Spark puts zips of its own Python modules, and a jar, before everything else on its workers' path. Of what comes from a
zip Python keeps no compiled form, so each worker compiles Spark's modules anew, and a first read waits for some six
workers one after another. Where pip brought Spark, the same modules also lie there as files: on this machine the
workers start with a script that leaves out the zips, and takes worker_daemon.py for Spark's daemon.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

from regulus.errors import OptionError

SCRIPT = Path(__file__).with_suffix(".sh")
_INTERPRETER = "REGULUS_WORKER_PYTHON"  # the script reads it


def name_python(environment: MutableMapping[str, str], master: str) -> None:
    """Set PYSPARK_PYTHON in `environment`, that of a session at `master`, unless the user did.

    It is this Python alone where executors are processes of their own, where pip did not bring Spark, and where this
    package lies without a program's rights, or where a space in its path would hide it: Spark looks for data sources
    with a Python that it starts by a line split at spaces, and finds none. Raises OptionError where all have one.
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
