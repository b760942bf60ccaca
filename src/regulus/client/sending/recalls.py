"""Takes back messages that wait for their time. Source: DefaultMQProducerImpl.recallMessage."""

from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.core.routes import Route
from regulus.errors import AnswerUnreadable, BrokerRefused, HeaderError, MessageIllegal, NoMaster
from regulus.wire import recall_handle
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import RecallMessageRequest, RecallMessageResponse
from regulus.wire.recall_handle import RecallHandle
from regulus.wire.remoting_command import RemotingCommand


def read(text: str, topic: str) -> RecallHandle:
    """Raises MessageIllegal for what is no handle of the topic."""
    try:
        handle = recall_handle.decode(text)
    except HeaderError:
        raise MessageIllegal(f"{text[:100]!r} is no recall handle; the result of a send has one, when the message "
                             "waits for its time") from None
    if handle.topic != topic:
        raise MessageIllegal(f"the recall handle is of a message to {handle.topic}, not to {topic}")
    return handle


async def recall(instance: ClientInstance, route: Route, group: str, text: str, timeout_ms: int) -> str:
    """The id of the message. Raises as `Producer.recall`."""
    handle = read(text, route.topic)
    address = route.master(handle.broker_name)
    if address is None:
        raise NoMaster(f"broker {handle.broker_name}, where the message waits, has no master")
    header = RecallMessageRequest(producer_group=group, topic=handle.topic, recall_handle=text)
    request = RemotingCommand.request(RequestCode.RECALL_MESSAGE, header.ext())
    answer = await instance.connections.request(address, request, timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark, address)
    try:
        return RecallMessageResponse.decode(answer).msg_id
    except HeaderError as error:
        raise AnswerUnreadable(f"{address} took the message back and its answer cannot be read: {error}") from error
