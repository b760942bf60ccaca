"""Rules for failed sends: which are kept, when they are tried again, and when they are given up. No file, no clock.

    a failure                                             is kept   counts as an attempt
    no broker or name server reached, a broker has no
    master, or asks for fewer requests                    yes       no
    no answer, a lost answer, a refusal, no such topic    yes       yes
    answer 13: the message breaks a rule of the broker    no        -
    stored, and the answer cannot be read                 no        -
    cut off by the producer's shutdown                    yes       -
    begun after that                                      no        -

An attempt that counts may have stored the message, so the number of those is limited. An outage says nothing against
the message, so only the message's age limits it. An unknown topic counts: its name may be wrong, or its broker may be
away. The delay of a message runs from the time when it was kept, by this machine's clock.
"""

from regulus.client.core.message_check import TIMER_NUMBER
from regulus.errors import (
    AnswerUnreadable,
    ClientClosed,
    ClientError,
    ConnectFailed,
    NoBroker,
    NoMaster,
    NoNameServer,
    SendCutOff,
    SendFailed,
    TooManyRequests,
)
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.wire.codes import ResponseCode

JITTER = 0.2
_DOUBLED_MAX = 32


def is_worth_keeping(error: ClientError) -> bool:
    """Whether the message is, as far as is known, not stored yet, and another attempt could store it."""
    is_too_late = isinstance(error, ClientClosed) and not isinstance(error, SendCutOff)
    return not (error.code == ResponseCode.MESSAGE_ILLEGAL or is_stored(error) or is_too_late)


def is_stored(error: ClientError) -> bool:
    return isinstance(_cause(error), AnswerUnreadable)


def counts(error: ClientError) -> bool:
    """Whether the failure counts as an attempt: the send reached a broker, and the broker was not too busy for it."""
    cause = _cause(error)
    if cause.code == ResponseCode.SYSTEM_BUSY:
        return False
    return not isinstance(cause, ConnectFailed | NoBroker | NoMaster | NoNameServer | TooManyRequests)


def at_its_time(message: Message, now_ms: int) -> Message:
    """The message as it is kept at `now_ms`: a relative delay becomes a time of delivery, however late it is sent."""
    properties = message.properties
    for name, unit_ms in ((names.TIMER_DELAY_SEC, 1000), (names.TIMER_DELAY_MS, 1)):
        text = properties.get(name, "")
        if TIMER_NUMBER.fullmatch(text):
            moment = {names.TIMER_DELIVER_MS: str(now_ms + int(text) * unit_ms)}
            rest = {other: value for other, value in properties.items() if other not in names.TIMER_PROPERTIES}
            return Message(message.topic, message.body, properties=rest | moment, flag=message.flag)
    return message


def rest_ms(failures: int, first_ms: int, longest_ms: int, jitter: float) -> int:
    """ms that a lane rests after `failures` failures in a row, at least one; `jitter` is in -1 .. 1."""
    return round(min(first_ms << min(failures - 1, _DOUBLED_MAX), longest_ms) * (1 + JITTER * jitter))


def _cause(error: ClientError) -> ClientError:
    """The error of the last attempt of a send."""
    cause = error.__cause__ if isinstance(error, SendFailed | TooManyRequests) else None
    return cause if isinstance(cause, ClientError) else error
