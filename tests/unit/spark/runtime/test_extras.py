"""What is not installed is one sentence with what to type."""

import os
import subprocess
import sys

import pytest

from regulus.errors import MissingExtra
from regulus.spark.runtime import extras
from regulus.spark.runtime.extras import EXTRAS, require_extra

# Packages that are there but cannot be found, as if they were not installed.
HIDDEN = """
import sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
from regulus.cli.main import main
main()
"""


def test_what_is_installed_is_no_matter():
    require_extra("spark", "a job")


def test_what_is_missing_is_named_with_the_line_to_type(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "iceberg", ("pyiceberg", "no_such_package", "nor_this"))
    with pytest.raises(MissingExtra, match=r"^an Iceberg table needs no_such_package, nor_this, which are not "
                                           r"installed: pip install 'regulus-mq\[iceberg\]'$"):
        require_extra("iceberg", "an Iceberg table")


@pytest.mark.parametrize("command", [
    ["demo"], ["job", "audit", "--topic", "t", "--store", "."], ["pipeline", "run"], ["pipeline", "report"],
    ["archive", "status", "--archive", "."], ["archive", "run", "--store", ".", "--archive", "a"],
    ["archive", "compact", "--archive", "."], ["spark", "read", "--topic", "t", "--store", "."],
    ["index", "rebuild", "--store", ".", "--output", "o"],
    ["index", "rebuild", "--store", ".", "--output", "o", "--cores", "0"]], ids=" ".join)
def test_a_command_whose_packages_are_not_installed_is_one_line(command, tmp_path):
    program = HIDDEN.replace("{names}", repr({name for names in EXTRAS.values() for name in names}))
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=60,
                          check=False, cwd=tmp_path, env=os.environ)
    assert done.stderr.startswith("regulus: ")
    assert done.stderr.count("\n") == 1
    assert "pip install 'regulus-mq[" in done.stderr
    assert done.returncode == 1
