"""Sends of messages with a time of their own: reasons for refusals, and handles to recall them."""

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
    """The refusal of a message that cannot wait as it asks to; None if it can, or does not ask to."""
    properties = message.properties
    takes_out = properties.get(names.TIMER_DEL_UNIQUE_KEY)
    if takes_out is not None and not takes_out.startswith(f"{message.topic}+"):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"a message in [{message.topic}] can remove messages of this topic only")
    if names.TIMER_PROPERTIES.isdisjoint(properties) or delay_level(properties) > 0:
        return None
    if not facts.timer_precision_ms:
        return refuse_send(request, facts, ResponseCode.SYSTEM_ERROR,
                           "messages with a time of their own are not served by this broker (timerWheelEnable=false)")
    due_ms = deliver_ms(properties, now_ms)
    if due_ms < 0:
        given = ", ".join(sorted(names.TIMER_PROPERTIES & properties.keys()))
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the message is illegal: {given} is not a whole number")
    if due_ms - now_ms > facts.timer_delay_ms_max:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the message is illegal: it should wait {due_ms - now_ms} ms, and timerMaxDelaySec allows "
                           f"{facts.timer_delay_ms_max // 1000} s")
    if takes_out is not None and due_ms <= now_ms:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "the message is illegal: the time of the message that it should remove is over")
    return None


def attach_recall_handle(response: RemotingCommand, message: MessageExt, broker_name: str) -> None:
    """Add the handle by which a waiting message can be recalled. The handle's time is one with the same tick."""
    properties = message.properties
    topic = properties[names.REAL_TOPIC]
    if not is_retry_topic(topic) and names.TIMER_DEL_UNIQUE_KEY not in properties:
        handle = recall_handle.RecallHandle(topic, broker_name, int(properties[names.TIMER_OUT_MS]) + 1,
                                            properties[names.UNIQUE_KEY])
        add_recall_handle(response, recall_handle.encode(handle))
