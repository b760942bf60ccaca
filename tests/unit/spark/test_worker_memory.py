import subprocess
import sys

_PROGRAM = """
import gc
from regulus.spark.worker_memory import keep_imports
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
