"""Switches between the two effects of Ctrl-C: the system ends the process, or Python raises KeyboardInterrupt.

Before a command has begun there is nothing to clean up, so the system may end the process. Python would raise wherever
it is at the moment, which shows a traceback of an import, or is lost in a callback.
"""

import signal


def end_at_an_interrupt() -> None:
    """Let Ctrl-C end the process. If our parent process made us ignore interrupts, that stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_at_an_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, for a command that has begun and cleans up after itself."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
