"""The two common outcomes of a request that is done at once."""

from regulus.broker.outcome import Reply
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


def succeed(request: RemotingCommand, body: bytes = b"", ext: dict[str, str] | None = None) -> Reply:
    return Reply(request.response(ResponseCode.SUCCESS, ext=ext, body=body))


def refuse(request: RemotingCommand, code: ResponseCode, remark: str) -> Reply:
    """`remark` is what the operator or client gets to read."""
    return Reply(request.response(code, remark))
