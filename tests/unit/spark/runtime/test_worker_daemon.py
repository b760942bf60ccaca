import os
import subprocess
import sys
from pathlib import Path

import pytest

from regulus.spark.runtime import worker_daemon

pytestmark = pytest.mark.once


class Replaced(Exception):
    """By another program; its arguments and environment are args."""


@pytest.fixture
def replaced(monkeypatch):
    def execve(program, arguments, environment):
        raise Replaced(arguments, environment)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(os, "environ", dict(os.environ))


def told(worker="pyspark.worker"):
    before = dict(os.environ)
    with pytest.raises(Replaced) as caught:
        worker_daemon.main([worker])
    assert caught.value.args[1] == before
    return caught.value.args[0]


def sparks_daemon(worker="pyspark.worker"):
    return [sys.executable, "-m", "pyspark.daemon", worker]


def test_where_a_thread_runs_sparks_daemon_takes_its_place(replaced, monkeypatch, tmp_path):
    (tmp_path / "1").touch()
    (tmp_path / "2").touch()
    monkeypatch.setattr(worker_daemon, "_THREADS", tmp_path)
    assert told() == sparks_daemon()


def test_where_threads_cannot_be_seen_nothing_is_imported(replaced, monkeypatch, tmp_path):
    monkeypatch.setattr(worker_daemon, "_THREADS", tmp_path / "not there")
    assert told("no.such.worker") == sparks_daemon("no.such.worker")


def test_what_cannot_be_imported_is_left_to_the_worker(replaced):
    assert told("no.such.worker") == sparks_daemon("no.such.worker")


FORKS = """
import gc
import os
import sys

import pyspark.daemon

from regulus.spark.runtime import worker_daemon


def manager():
    import numpy.random

    for _ in range(worker_daemon.FEW + 2):
        if os.fork() == 0:
            of_its_own = len(gc.get_objects())
            print("regulus.spark.store.scan" in sys.modules, "pandas" in sys.modules, of_its_own < 1000,
                  numpy.random.random(), flush=True)
            os._exit(0)
        os.wait()


pyspark.daemon.manager = manager
worker_daemon.main(["pyspark.worker"])
"""


def said(program):
    """What the program prints, when nobody says how many threads numpy has."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment,
                          stdin=subprocess.DEVNULL).stdout


def test_few_workers_have_what_each_needs_more_have_all_and_their_own_garbage_and_random_numbers():
    found = [line.split() for line in said(FORKS).splitlines()]
    assert [imported for *imported, _ in found] == [
        ["True", "False", "True"]] * worker_daemon.FEW + [["True", "True", "True"]] * 2
    assert len({number for *_, number in found}) == len(found)


IMPORTED = """
import sys

import pyspark.daemon

from regulus.spark.runtime import worker_daemon

pyspark.daemon.manager = lambda: print(*sys.modules)
worker_daemon.main(["{module}"])
"""


@pytest.mark.parametrize(("module", "names"), worker_daemon._BY_MODULE.items())
def test_what_a_worker_works_with_starts_no_thread(module, names):
    """Else Spark's daemon would take the place of ours, and nobody would see but by the time it takes."""
    assert {module, *names} <= set(said(IMPORTED.format(module=module)).split())


def commands(_):
    return [Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1] for pid in (os.getpid(), os.getppid())]


@pytest.mark.spark
def test_workers_of_a_session_are_its_forks(spark):
    found = spark.sparkContext.range(2, numSlices=2).map(commands).collect()
    assert found == [[[sys.executable, "-m", "regulus.spark.runtime.worker_daemon", "pyspark.worker"]] * 2] * 2
