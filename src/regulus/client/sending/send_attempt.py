"""One attempt of a send: one request to one broker, and a report of its outcome to the choice of queues."""

from collections.abc import Callable

from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.core.fault_isolation import AttemptOutcome
from regulus.client.send_result import SendResult
from regulus.client.sending.outgoing import Outgoing
from regulus.client.sending.send_queues import SendQueues
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    HeaderError,
    MessageIllegal,
    NoMaster,
    RequestTimeout,
    RequestTooLarge,
)
from regulus.model.message_queue import MessageQueue


async def attempt(running: Callable[[], ClientInstance], queues: SendQueues, outgoing: Outgoing, address: str | None,
                  queue: MessageQueue, timeout_ms: int, begun_ms: int) -> SendResult:
    """Send one request and return its result.

    Raises BrokerRefused, ConnectFailed, ConnectionLost, RequestTimeout, NoMaster, AnswerUnreadable; MessageIllegal.
    """
    broker_name = queue.broker_name
    if address is None:
        queues.report(broker_name, AttemptOutcome.CLIENT_FAULT, begun_ms)
        raise NoMaster(f"broker {broker_name} has no master")
    try:
        answer = await running().connections.request(address, outgoing.command(queue), timeout_ms)
    except (ConnectFailed, ConnectionLost, RequestTimeout):
        queues.report(broker_name, AttemptOutcome.TRANSPORT_FAULT, begun_ms)
        running().doubt_route(outgoing.topic)
        raise
    except RequestTooLarge as error:
        raise MessageIllegal(f"the message does not fit: {error}") from error
    try:
        result = outgoing.result(answer, queue)
    except HeaderError as error:
        raise AnswerUnreadable(f"{address} stored the message and its answer cannot be read: {error}") from error
    if result is None:
        queues.refused(broker_name, answer.code, begun_ms)
        raise BrokerRefused(answer.code, answer.remark, address)
    queues.succeeded(broker_name, begun_ms)
    return result
