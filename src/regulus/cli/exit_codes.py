"""The exit status of a command: 0 for success, and otherwise a number for the kind of failure."""

from enum import IntEnum

from regulus.errors import (
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    DatabaseRefused,
    DatabaseUnanswered,
    JobRefused,
    MessageIllegal,
    NoNameServer,
    NoRoute,
    OptionError,
    RegulusError,
    ReliabilityRefused,
    RequestTimeout,
    SinkRefused,
    StubMissing,
    TopicMissing,
    TopicUnknown,
)
from regulus.wire.codes import ResponseCode


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_REACHABLE = 4
    REFUSED = 5
    CAUSE_FOUND = 6
    """`regulus why` found a cause."""
    INTERRUPTED = 130
    """The status that shells give to a process that SIGINT ended."""
    NO_READER = 141
    """The status that shells give to a process that SIGPIPE ended: the reader of our output has gone."""


_NOT_FOUND = frozenset({
    NoRoute.code, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, ResponseCode.CONSUMER_NOT_ONLINE})
_NOT_REACHABLE = frozenset({ConnectFailed.code, ConnectionLost.code, RequestTimeout.code, NoNameServer.code})


def exit_code(error: RegulusError) -> ExitCode:
    """The status of a command that ended with this error."""
    match error:
        case TopicMissing() | TopicUnknown() | StubMissing():
            return ExitCode.NOT_FOUND
        case ConfigError() | OptionError() | MessageIllegal():
            return ExitCode.USAGE
        case ClientError() if error.code in _NOT_FOUND:
            return ExitCode.NOT_FOUND
        case ClientError() if error.code in _NOT_REACHABLE:
            return ExitCode.NOT_REACHABLE
        case ClientError() if error.code != ClientError.code:
            return ExitCode.REFUSED
        case DatabaseUnanswered():
            return ExitCode.NOT_REACHABLE
        case JobRefused() | SinkRefused() | ReliabilityRefused() | DatabaseRefused():
            return ExitCode.REFUSED
    return ExitCode.FAILED
