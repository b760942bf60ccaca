"""Refusals of sends."""

from regulus.broker.outcome import Reply
from regulus.broker.send_facts import SendFacts
from regulus.broker.storing import refusal_of
from regulus.model import message_properties as names
from regulus.model.store_result import Appended, PutStatus
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.QUEUE_DAMAGED: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
}


def refuse_send(request: RemotingCommand, facts: SendFacts, code: int, remark: str) -> Reply:
    return Reply(send_refusal(request, facts, code, remark))


def send_refusal(request: RemotingCommand, facts: SendFacts, code: int, remark: str) -> RemotingCommand:
    """Answers to sends always have region and trace switch, because the Java client reads them without a check."""
    ext = {names.MSG_REGION: facts.stamp[names.MSG_REGION], names.TRACE_ON: facts.stamp[names.TRACE_ON]}
    return request.response(int(code), remark, ext)


def refuse_size(request: RemotingCommand, facts: SendFacts, size: int) -> Reply:
    return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                       f"the message is illegal: its body has {size} bytes, maxMessageSize is {facts.max_message_size}")


def refuse_put(request: RemotingCommand, facts: SendFacts, appended: Appended) -> Reply:
    code = _CODES.get(appended.status, ResponseCode.SYSTEM_ERROR)
    return refuse_send(request, facts, code, refusal_of(appended))
