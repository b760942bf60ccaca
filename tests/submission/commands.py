"""What the tests submit: commands of `regulus`, one after another in one session, and what each of them said."""

import json
import os
import sys
import traceback

from click.testing import CliRunner

from regulus.cli.main import regulus
from regulus.spark.runtime.session import open_session


def no_java():
    raise AssertionError("there is a server, or a submission that has its JVM already")


def main(commands):
    spark = open_session(no_java, os.environ, "", {})
    said = {}
    for name, words in json.loads(commands).items():
        result = CliRunner().invoke(regulus, words)
        fault = None if isinstance(result.exception, SystemExit) else result.exception
        said[name] = {"status": result.exit_code, "out": result.stdout, "err": result.stderr,
                      "fault": "".join(traceback.format_exception(fault)) if fault else ""}
    print("RESULT " + json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
