"""When a stub is sent again: one table of rules, for the database of the stubs and for Spark alike.

    facts of a stub, as columns
    status, is_manual, send_count, resend_time      its own
    is_behind       it has a place in a queue, and a group that must apply it has not received that place yet
    log_time        when such a group last received it without finishing it; null: no group has
    move_time       when such a group last progressed in that queue; if it never did, the time of the commit
    first_send_time     when the first copy became available to its consumers; null: not known

    due   sends left,  behind                 received           action
          and time
    no    -            -                      -                  WAIT
    yes   -            -                      recently           WAIT: the consumer, or its retries, have it
    yes   no           -                      no, or long ago    MANUAL
    yes   yes          yes                    no, or long ago    POSTPONE: it is backlog; not counted
    yes   yes          yes, for long, and     no, or long ago    CONSUMER_DOWN: likewise, and it is reported
                       nothing moves
    yes   yes          no, or not known       long ago           RESEND_AND_TELL
    yes   yes          no, or not known       no                 RESEND

The conditions use only what columns of SQLAlchemy and of Spark have in common: `|`, `&` and comparisons, which are not
true of null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ResendAction(StrEnum):
    NOTHING = "NOTHING"     # done, or left to a human
    WAIT = "WAIT"
    MANUAL = "MANUAL"
    POSTPONE = "POSTPONE"
    CONSUMER_DOWN = "CONSUMER_DOWN"
    RESEND_AND_TELL = "RESEND_AND_TELL"
    RESEND = "RESEND"


FACTS = ("status", "is_manual", "send_count", "resend_time", "is_behind", "log_time", "move_time", "first_send_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendLimits:
    """The limits at one moment; times in ms since 1970."""

    now_ms: int
    attempts_max: int
    fresh_since_ms: int     # a stub received after this is being worked on
    moves_since_ms: int     # a queue that moved after this is alive
    sent_since_ms: int      # a stub first sent before this is not sent again


def resend_rules(facts: Mapping[str, Any], limits: ResendLimits) -> list[tuple[Any, ResendAction]]:
    """Pairs of condition and action; the first condition that is true decides. RESEND when none is true."""
    return [
        ((facts["status"] != "UNCONFIRMED") | facts["is_manual"], ResendAction.NOTHING),
        (facts["resend_time"] > limits.now_ms, ResendAction.WAIT),
        (facts["log_time"] >= limits.fresh_since_ms, ResendAction.WAIT),
        ((facts["send_count"] >= limits.attempts_max) | (facts["first_send_time"] < limits.sent_since_ms),
         ResendAction.MANUAL),
        (facts["is_behind"] & (facts["move_time"] < limits.moves_since_ms)
         & (facts["first_send_time"] < limits.moves_since_ms), ResendAction.CONSUMER_DOWN),
        (facts["is_behind"], ResendAction.POSTPONE),
        (facts["log_time"] >= 0, ResendAction.RESEND_AND_TELL),
    ]
