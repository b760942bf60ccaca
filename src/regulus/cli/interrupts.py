"""Whether Ctrl-C ends the process as the system does it, or raises KeyboardInterrupt.

As long as nothing has begun there is nothing to tidy up. Python would raise wherever it is just then: a traceback out
of an import, or nothing at all out of a callback.
"""

import signal


def end_at_an_interrupt() -> None:
    """Whoever started us may have had interrupts ignored; that stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_an_interrupt() -> None:
    """For a command that has begun, and tidies up behind itself."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
