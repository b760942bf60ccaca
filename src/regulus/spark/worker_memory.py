"""What a Python worker of Spark keeps in memory from task to task."""

import gc
from functools import cache


@cache
def keep_imports() -> None:
    """Once per process: what is there now is not looked at when garbage is collected.

    Spark's workers collect behind each task; with all that is imported, that is most of what an empty task takes.
    """
    gc.freeze()
