"""The points at which a process may be killed: before, during and after each step of an outbox, its relay and its
consumers.

A step that is a transaction is *during* when all its statements were carried out and none is committed. The windows are
those of docs/reliability.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from regulus.errors import ConfigError


class Step(StrEnum):
    """In the order in which a message passes them; only some messages pass those after C8."""

    P1 = "P1"       # the stub is stored with its business data
    P2 = "P2"       # a relay claims it: the send is counted, the next one moved on
    P3 = "P3"       # the message is sent
    P4 = "P4"       # the position where it is stored is written down
    C1 = "C1"       # a consumer receives it
    C2 = "C2"       # the receipt is written down, and the watermark
    C3 = "C3"       # the claim is requested; without claims it is won at once, and a coroutine does not request it
    C4 = "C4"       # the judge decides: stub, group or inbox
    C5 = "C5"       # the effect
    C6 = "C6"       # effect and confirmation are committed
    C7 = "C7"       # the receipt is removed: in the transaction of C6, and so before its commit
    C8 = "C8"       # the listener answers, and the consumer notes it
    KEY = "KEY"                 # the claim is kept, or given back
    SEND_BACK = "SEND_BACK"     # a message that failed goes back to its broker
    OFFSET = "OFFSET"           # the group's offset is stored at the broker
    TELL = "TELL"               # a consumer with its own database confirms to that of the stub
    CONFIRM = "CONFIRM"         # ... where the stub is confirmed
    PARK = "PARK"               # the stub of a dead letter is left to a human
    REVIEW = "REVIEW"           # a relay decides about stubs that were sent and are due again


class Moment(StrEnum):
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """One point. `where`: the exact place. `windows`: the failure windows that a kill there shows."""

    step: Step
    moment: Moment
    where: str
    windows: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.moment.value} {self.step.value}"


_BEFORE, _DURING, _AFTER = Moment

POINTS = (
    CrashPoint(Step.P1, _BEFORE, "outbox.add is called", ("W1",)),
    CrashPoint(Step.P1, _DURING, "business and stub are written, and not committed", ("W1",)),
    CrashPoint(Step.P1, _AFTER, "they are committed", ("W2",)),
    CrashPoint(Step.P2, _BEFORE, "the relay looks for what is due", ("W2",)),
    CrashPoint(Step.P2, _DURING, "it has counted the send, and not committed that", ("W2", "W6")),
    CrashPoint(Step.P2, _AFTER, "that is committed", ("W2", "W6")),
    CrashPoint(Step.P3, _BEFORE, "the producer is called", ("W2",)),
    CrashPoint(Step.P3, _DURING, "the request has left, and no answer has come", ("W3", "W5")),
    CrashPoint(Step.P3, _AFTER, "the answer has come", ("W4", "W5", "W22")),
    CrashPoint(Step.P4, _BEFORE, "the place is known, and not written", ("W4", "W22")),
    CrashPoint(Step.P4, _DURING, "it is written, and not committed", ("W4", "W5", "W22")),
    CrashPoint(Step.P4, _AFTER, "it is committed"),
    CrashPoint(Step.C1, _BEFORE, "messages have come, and no listener has them", ("W8",)),
    CrashPoint(Step.C1, _AFTER, "the listener is called", ("W8",)),
    CrashPoint(Step.C2, _BEFORE, "the receipt's transaction has begun", ("W8",)),
    CrashPoint(Step.C2, _DURING, "the receipt is written, and not committed but on PostgreSQL", ("W8",)),
    CrashPoint(Step.C2, _AFTER, "it is committed", ("W9",)),
    CrashPoint(Step.C3, _BEFORE, "nothing is claimed", ("W9",)),
    CrashPoint(Step.C3, _AFTER, "the claim is won or lost", ("W10",)),
    CrashPoint(Step.C4, _BEFORE, "the transaction of the effect has begun", ("W10",)),
    CrashPoint(Step.C4, _AFTER, "the judge has decided", ("W10",)),
    CrashPoint(Step.C5, _BEFORE, "the effect is ours to make", ("W10",)),
    CrashPoint(Step.C5, _DURING, "the effect has carried out its first statement", ("W11",)),
    CrashPoint(Step.C5, _AFTER, "the effect has returned", ("W11",)),
    CrashPoint(Step.C7, _BEFORE, "nothing is said of the delivery", ("W12",)),
    CrashPoint(Step.C7, _AFTER, "its row of the ledger is written, and the receipt gone, but for the commit", ("W12",)),
    CrashPoint(Step.C6, _BEFORE, "effect and confirmation are written, and not committed", ("W12",)),
    CrashPoint(Step.C6, _AFTER, "they are committed", ("W12", "W13")),
    CrashPoint(Step.C8, _BEFORE, "the listener is about to answer", ("W13", "W14")),
    CrashPoint(Step.C8, _AFTER, "the consumer knows the answer, and the broker does not", ("W14",)),
    CrashPoint(Step.KEY, _BEFORE, "the outcome is certain, and the claim as it was", ("W15",)),
    CrashPoint(Step.KEY, _AFTER, "the claim is kept or given back", ("W16",)),
    CrashPoint(Step.SEND_BACK, _BEFORE, "the message is to go back", ("W17",)),
    CrashPoint(Step.SEND_BACK, _AFTER, "the broker has it again, and the offset is not stored", ("W17",)),
    CrashPoint(Step.OFFSET, _BEFORE, "the offset is to be stored", ("W14",)),
    CrashPoint(Step.OFFSET, _AFTER, "it is stored"),
    CrashPoint(Step.TELL, _BEFORE, "the effect is committed, and the stub's database does not know it", ("W13",)),
    CrashPoint(Step.TELL, _AFTER, "the stub's database is told, or a message to it is stored", ("W13",)),
    CrashPoint(Step.CONFIRM, _BEFORE, "the confirmation has come to the stub's database", ("W13",)),
    CrashPoint(Step.CONFIRM, _DURING, "it is written, and not committed", ("W13",)),
    CrashPoint(Step.CONFIRM, _AFTER, "it is committed", ("W13",)),
    CrashPoint(Step.PARK, _BEFORE, "the dead letter has come to its listener", ("W18",)),
    CrashPoint(Step.PARK, _DURING, "stub and alarm are written, and not committed", ("W18",)),
    CrashPoint(Step.PARK, _AFTER, "they are committed", ("W18",)),
    CrashPoint(Step.REVIEW, _BEFORE, "the relay looks for what is due again", ("W26",)),
    CrashPoint(Step.REVIEW, _DURING, "what follows for those that are due is written, and not committed", ("W26",)),
    CrashPoint(Step.REVIEW, _AFTER, "it is committed", ("W26",)),
)
"""All points, in the order in which one message passes them."""

_BY_NAME = {str(point): point for point in POINTS}


def named(name: str) -> CrashPoint:
    """The point with this name, such as `before P2`. Raises ConfigError."""
    if name not in _BY_NAME:
        raise ConfigError(f"there is no crash point {name!r}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def of_steps(*steps: Step | str) -> tuple[CrashPoint, ...]:
    """The points of some steps, in their order."""
    wanted = {Step(step) for step in steps}
    return tuple(point for point in POINTS if point.step in wanted)


def of_window(window: str) -> tuple[CrashPoint, ...]:
    """The points that show a failure window, such as `W10`; none for one that killing a process cannot show."""
    return tuple(point for point in POINTS if window in point.windows)
