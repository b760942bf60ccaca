"""The answer to a request that was done at once."""

from regulus.broker.outcome import Reply
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand


def succeed(request: RemotingCommand, body: bytes = b"", ext: dict[str, str] | None = None) -> Reply:
    return Reply(request.response(ResponseCode.SUCCESS, ext=ext, body=body))
