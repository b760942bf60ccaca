"""Faults of how Spark's tasks look at a store's files: within little memory, and at ends that disagree."""

from tests.mutants import Mutant

_FILES = "regulus/spark/store_files.py"
_SCAN = "regulus/spark/store_scan.py"
_MEMORY_TESTS = ("tests/unit/spark/test_worker_memory.py",)
_SCAN_TESTS = "tests/unit/spark/test_store_scan.py::"
_BORDERS = (_SCAN_TESTS + "test_records_are_read_over_the_borders_of_what_is_mapped",)

MUTANTS = [
    Mutant(name="all of a log file is mapped", path=_FILES,
           old="end = min(piece.size, max(start + WINDOW_BYTES, within + size))",
           new="end = piece.size", tests=_MEMORY_TESTS),
    Mutant(name="a record that lies across two windows is read in the first", path=_SCAN,
           old="end = row + 1 + int(are_cut[0]) if len(are_cut) else begin_there", new="end = begin_there",
           tests=_BORDERS),
    Mutant(name="a record that is larger than a window is cut short", path=_FILES,
           old="        return self.window(physical_offset, size)\n", new="        return self.window(physical_offset)\n",
           tests=_BORDERS),
    Mutant(name="what cannot be mapped is an error of the system", path=_FILES,
           old="        if error.errno == errno.ENOMEM:", new="        if False:", tests=_MEMORY_TESTS),
]
