import re
import subprocess
import sys

import pytest

from regulus.errors import TaskOutOfMemory
from regulus.spark.runtime.worker_memory import told_of_memory
from regulus.spark.store.files import StoreFiles
from tests.unit.spark.conftest import order

_PROGRAM = """
import gc
from regulus.spark.runtime.worker_memory import keep_imports
gc.collect()
before = len(gc.get_objects())
keep_imports()
kept = gc.get_freeze_count()
later = [[] for _ in range(1000)]
keep_imports()
assert kept >= before > 1000, (kept, before)
assert len(gc.get_objects()) >= 1000 and gc.get_freeze_count() <= kept
"""


def test_what_is_imported_is_not_looked_at_again():
    """In a process of its own: it is for the process as a whole, and for good."""
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)


_LIMITED = """
import resource, sys
import pyarrow, numpy
import regulus.spark.readers.batch
from regulus.errors import TaskOutOfMemory
from regulus.spark.options import parse_options
from regulus.spark.store.plan import plan

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]), -1))
options = parse_options({"storePath": sys.argv[1], "topic": "orders", "columns": "queue_offset"})
try:
    print(sum(batch.num_rows for part in plan(options, 1)
              for batch in regulus.spark.readers.batch.read_part(options, ("queue_offset",), part)))
except TaskOutOfMemory as error:
    print(error)
"""


def read_limited(root, room: int) -> str:
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(root), str(room)], check=True, timeout=120,
                          capture_output=True, text=True)
    return done.stdout.strip()


def test_a_log_file_that_is_larger_than_a_task_may_be_is_read(make_store):
    """Its files are sparse: it takes no room to have one of a GiB."""
    root = make_store([order(number) for number in range(20)])
    (file,) = [path for path in (root / "commitlog").iterdir() if path.name == f"{0:020}"]
    for path in (root / "commitlog").iterdir():
        if path != file:
            path.unlink()
    with file.open("r+b") as log:
        log.truncate(1 << 30)
    kept = StoreFiles(str(root))
    rows = sum(end - low for low, end in (queue.bounds(kept.log) for queue in kept.queues("orders")))
    assert read_limited(root, 192 << 20) == str(rows)


def test_what_limits_the_memory_of_a_task_is_told_in_a_sentence(make_store):
    root = make_store([order(number) for number in range(20)])
    with min((root / "commitlog").iterdir()).open("r+b") as log:
        log.truncate(1 << 30)
    for path in sorted((root / "commitlog").iterdir())[1:]:
        path.unlink()
    told = read_limited(root, 24 << 20)
    assert "\n" not in told
    assert re.search(r"32 MiB of \S+/commitlog/0{20} cannot be mapped, because the process may have \d+ MiB in all, as "
                     r"spark\.executor\.pyspark\.memory or ulimit -v says: make that larger", told)


def test_memory_that_runs_out_anywhere_else_is_told_as_well():
    def batches():
        yield 1
        raise MemoryError("malloc of size 5 failed")

    read = told_of_memory(batches())
    assert next(read) == 1
    with pytest.raises(TaskOutOfMemory, match=r"no memory for the task's next rows \(malloc of size 5 failed\), "
                                              "because the machine has no more"):
        next(read)
