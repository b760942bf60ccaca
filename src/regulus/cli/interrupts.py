"""Whether Ctrl-C ends the process as the system does it, or raises KeyboardInterrupt.

As long as nothing has begun there is nothing to tidy up. Python would raise wherever it is just then: a traceback out
of an import, or nothing at all out of a callback.
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager

TYPE_CHECKING = False       # see regulus.cli.entry
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


def end_at_an_interrupt() -> None:
    """Whoever started us may have had interrupts ignored; that stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_an_interrupt() -> None:
    """For a command that has begun, and tidies up behind itself."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupts_kept_from_spark() -> Iterator[None]:
    """Around a session, from before its start: Spark would take the signal, also where it was ignored.

    Spark's own handler asks Java to end the jobs, over the connection that it has just interrupted. And what was under
    way there is logged with a trace, on the way to an end that one word tells.
    """
    import logging
    import threading
    from types import SimpleNamespace

    from pyspark.core import context

    if threading.current_thread() is not threading.main_thread():
        yield       # nobody handles a signal there
        return
    before = signal.getsignal(signal.SIGINT)
    came = threading.Event()

    def say_and_raise(number: int, frame: FrameType | None) -> None:
        came.set()
        logging.disable(logging.CRITICAL)
        sys.stderr.write("regulus: interrupted\n")
        raise KeyboardInterrupt

    if callable(before):
        signal.signal(signal.SIGINT, say_and_raise)
    sparks = context.signal
    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    except Exception:
        if came.is_set():
            raise KeyboardInterrupt from None       # of the connection that was cut off: what follows from it
        raise
    finally:
        context.signal = sparks
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)
