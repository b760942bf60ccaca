"""One run of the fuzzer in a process of its own, which `run` starts with the runtime preloaded.

    python -m tests.fuzz.target [libFuzzer's options] DIRECTORY|FILE...
"""

import os
import sys
from typing import Any, NoReturn

import atheris

from tests.fuzz.doors import knock


def _as_finding(unraisable: Any) -> NoReturn:
    """C code that may not raise has its error printed, and goes on with whatever value: here that ends the run."""
    sys.__excepthook__(unraisable.exc_type, unraisable.exc_value, unraisable.exc_traceback)
    sys.stderr.write(f"an error that could not be raised in {unraisable.object!r}\n")
    sys.stderr.flush()
    os.abort()


if __name__ == "__main__":
    sys.unraisablehook = _as_finding
    atheris.Setup(sys.argv, knock)
    atheris.Fuzz()
