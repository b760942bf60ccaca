"""Why a call of a listener failed, as it travels with the message."""

import traceback

from regulus.model.failure_causes import RECONSUME_LATER, STACK_LENGTH_MAX, Cause

FRAMES_MAX = 20
"""Frames of a stack that are written, the innermost ones."""

NO_CAUSE = Cause("")
LATER = Cause(RECONSUME_LATER)


def cause_of(error: BaseException | None, odd_answer: str) -> Cause:
    """The cause of a call that raised, or gave an answer that is not a status, or else returned that it failed.
    Raises whatever the exception's own methods raise."""
    if error is None:
        return Cause(f"{RECONSUME_LATER}: the listener {odd_answer}") if odd_answer else LATER
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    return Cause(text, "".join(traceback.format_tb(error.__traceback__, -FRAMES_MAX))[-STACK_LENGTH_MAX:])
