"""How sends are refused."""

from regulus.broker.outcome import Reply
from regulus.broker.send_facts import SendFacts
from regulus.broker.storing import refusal_of
from regulus.errors import HeaderError
from regulus.model import message_properties as names
from regulus.model.store_result import Appended, PutStatus
from regulus.wire import message_batch
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import decode_send_message_request
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
    """Answers to sends carry region and trace switch in any case: the Java client reads them unasked.

    When the message is a writer's, no later one of that writer is taken before it was.
    """
    for properties in _sent_properties(request):
        facts.sink_marks.refused(properties)
    ext = {names.MSG_REGION: facts.stamp[names.MSG_REGION], names.TRACE_ON: facts.stamp[names.TRACE_ON]}
    return request.response(int(code), remark, ext)


def _sent_properties(request: RemotingCommand) -> list[dict[str, str]]:
    """The properties of the messages that a request sends; none of what cannot be read."""
    try:
        header = decode_send_message_request(request)
        return [each.properties for each in message_batch.decode(request.body)] if header.batch else [header.properties]
    except HeaderError:
        return []


def refuse_size(request: RemotingCommand, facts: SendFacts, size: int) -> Reply:
    return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                       f"the message is illegal: its body has {size} bytes, maxMessageSize is {facts.max_message_size}")


def refuse_put(request: RemotingCommand, facts: SendFacts, appended: Appended) -> Reply:
    code = _CODES.get(appended.status, ResponseCode.SYSTEM_ERROR)
    return refuse_send(request, facts, code, refusal_of(appended))
