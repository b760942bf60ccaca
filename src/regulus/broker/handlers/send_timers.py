"""Sends of messages that are to wait for a time of their own: which are refused, and by what they can be taken back."""

from regulus.broker.handlers.send_refusals import refuse_send
from regulus.broker.outcome import Reply
from regulus.broker.placement import delay_level, deliver_ms
from regulus.broker.send_facts import SendFacts
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.topics import is_retry_topic
from regulus.wire import recall_handle
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import add_recall_handle
from regulus.wire.remoting_command import RemotingCommand


def refuse_timer(request: RemotingCommand, message: MessageExt, facts: SendFacts, now_ms: int) -> Reply | None:
    """Why the message cannot wait as it wants to; None when it can, or does not want to."""
    properties = message.properties
    takes_out = properties.get(names.TIMER_DEL_UNIQUE_KEY)
    if takes_out is not None and not takes_out.startswith(f"{message.topic}+"):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"a message in [{message.topic}] can take out messages to this topic alone")
    if names.TIMER_PROPERTIES.isdisjoint(properties) or delay_level(properties) > 0:
        return None
    if not facts.timer_precision_ms:
        return refuse_send(request, facts, ResponseCode.SYSTEM_ERROR,
                           "messages with a time of their own are not served by this broker (timerWheelEnable=false)")
    due_ms = deliver_ms(properties, now_ms)
    if due_ms < 0:
        given = ", ".join(sorted(names.TIMER_PROPERTIES & properties.keys()))
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the message is illegal: {given} is no whole number")
    if due_ms - now_ms > facts.timer_delay_ms_max:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the message is illegal: it is to wait {due_ms - now_ms} ms, and timerMaxDelaySec allows "
                           f"{facts.timer_delay_ms_max // 1000} s")
    if takes_out is not None and due_ms <= now_ms:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "the message is illegal: the time of the message that it should take out is over")
    return None


def attach_recall_handle(response: RemotingCommand, message: MessageExt, broker_name: str) -> None:
    """`message` waits: say by what it can be taken back. Its time there is one that has the same tick."""
    properties = message.properties
    topic = properties[names.REAL_TOPIC]
    if not is_retry_topic(topic) and names.TIMER_DEL_UNIQUE_KEY not in properties:
        handle = recall_handle.RecallHandle(topic, broker_name, int(properties[names.TIMER_OUT_MS]) + 1,
                                            properties[names.UNIQUE_KEY])
        add_recall_handle(response, recall_handle.encode(handle))
