"""Converts response codes of brokers and name servers to those of RocketMQ 5 clients. Source: ResponseBuilder."""

from regulus.errors import CallRefused
from regulus.wire.codes import ResponseCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand

MESSAGE_SIZE_MAX = 1024
"""Characters of a status message, the rest is cut off: the remark of an answer may contain a stack trace."""

_CODES = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
}


def status(code: int, message: str = "") -> messages.Status:
    """A status for a client. Without a message it has the name of the code."""
    return messages.Status(code=int(code), message=message[:MESSAGE_SIZE_MAX] or _name(code))


def code_of(answer: RemotingCommand) -> int:
    """The status code for an answer; INTERNAL_SERVER_ERROR for a code that has no counterpart."""
    return int(_CODES.get(answer.code, Code.INTERNAL_SERVER_ERROR))      # type: ignore[call-overload]


def checked(answer: RemotingCommand) -> RemotingCommand:
    """Return the answer if it is a success. Raises CallRefused with its remark otherwise."""
    if answer.code != ResponseCode.SUCCESS:
        raise CallRefused(code_of(answer), answer.remark or f"the broker answers {answer.code}")
    return answer


def common(codes: list[int]) -> int:
    """The code of a whole response: that of all its entries, or MULTIPLE_RESULTS if they differ."""
    if not codes:
        return int(Code.INTERNAL_SERVER_ERROR)
    return codes[0] if len(set(codes)) == 1 else int(Code.MULTIPLE_RESULTS)


def _name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return str(code)
