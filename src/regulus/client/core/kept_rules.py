"""Which failed sends are kept, when one is tried again, and when no more: rules without file and clock.

    a failure                                             is kept   counts as an attempt
    no broker or name server reached, a broker has no
    master, or asks for fewer requests                    yes       no
    no answer, a lost answer, a refusal, no such topic    yes       yes
    answer 13: the message breaks a rule of the broker    no        -
    stored, and the answer cannot be read                 no        -
    the producer is shut down                             no        -

What counts may have stored the message, so it is bounded by a number; an outage is bounded by the age alone, for it
says nothing against the message. A topic that is unknown counts: it may be a wrong name as well as a broker that is
away.
"""

from regulus.errors import (
    AnswerUnreadable,
    ClientClosed,
    ClientError,
    ConnectFailed,
    NoBroker,
    NoMaster,
    NoNameServer,
    SendFailed,
    TooManyRequests,
)
from regulus.wire.codes import ResponseCode

JITTER = 0.2
_DOUBLED_MAX = 32


def is_worth_keeping(error: ClientError) -> bool:
    """Whether the message is not stored, as far as is known, and can be."""
    return not (error.code == ResponseCode.MESSAGE_ILLEGAL or is_stored(error) or isinstance(error, ClientClosed))


def is_stored(error: ClientError) -> bool:
    return isinstance(_cause(error), AnswerUnreadable)


def counts(error: ClientError) -> bool:
    """Whether it was an attempt: one that reached a broker that had time for it."""
    cause = _cause(error)
    if cause.code == ResponseCode.SYSTEM_BUSY:
        return False
    return not isinstance(cause, ConnectFailed | NoBroker | NoMaster | NoNameServer | TooManyRequests)


def rest_ms(failures: int, first_ms: int, longest_ms: int, jitter: float) -> int:
    """How long a lane rests after so many failures in a row, at least one; `jitter` is in -1 .. 1."""
    return round(min(first_ms << min(failures - 1, _DOUBLED_MAX), longest_ms) * (1 + JITTER * jitter))


def _cause(error: ClientError) -> ClientError:
    """What the last attempt of a send failed with."""
    cause = error.__cause__ if isinstance(error, SendFailed | TooManyRequests) else None
    return cause if isinstance(cause, ClientError) else error
