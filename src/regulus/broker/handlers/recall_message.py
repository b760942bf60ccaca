"""RECALL_MESSAGE takes back a message that waits for its time. Two other requests let slaves copy the state of timers.

Source: RecallMessageProcessor, AdminBrokerProcessor.getTimerCheckPoint, getTimerMetrics.
"""

from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.send_refusals import refuse_put
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model import message_properties as names
from regulus.model import permission
from regulus.model.message import MessageExt
from regulus.model.peer import Peer
from regulus.model.store_result import PutStatus
from regulus.model.topics import is_sendable
from regulus.record import timer_units
from regulus.wire import recall_handle
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import RecallMessageRequest, RecallMessageResponse
from regulus.wire.recall_handle import RecallHandle
from regulus.wire.remoting_command import RemotingCommand

MARKER_TAG = "_RECALL_TAG_"
_MARKER_BODY = b"0"


def handle_recall_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = RecallMessageRequest.decode(request)
    refusal = _refuse_recall(request, header, broker, now_ms)
    if refusal is not None:
        return refusal
    try:
        handle = recall_handle.decode(header.recall_handle)
    except HeaderError as error:
        return refuse(request, ResponseCode.ILLEGAL_OPERATION, str(error))
    group = header.producer_group or ""
    fault = _fault_of(handle, header.topic, group, broker, now_ms)
    if fault:
        return refuse(request, ResponseCode.ILLEGAL_OPERATION, f"recall failed, {fault}")
    marker = _marker(handle, group, peer, broker, now_ms)
    appended = broker.storing.store(marker, now_ms)
    if appended.status is not PutStatus.PUT_OK:
        return refuse_put(request, broker.send_facts, appended)
    response = request.response(ResponseCode.SUCCESS)
    response.ext = {**RecallMessageResponse(handle.unique_key).ext(), names.MSG_REGION: broker.config.region_id}
    return Reply(response, broker.storing.durable_at())


def _refuse_recall(request: RemotingCommand, header: RecallMessageRequest, broker: BrokerState,
                   now_ms: int) -> Reply | None:
    config = broker.config
    if not config.recall_message_enable:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      "recall failed, operation is forbidden (recallMessageEnable=false)")
    if now_ms < config.start_accept_send_request_time_stamp or not permission.is_writable(config.broker_permission):
        return refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if not config.timer_wheel_enable:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      "recall failed, timers are off at this broker (timerWheelEnable=false)")
    if not is_sendable(header.topic):
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"recall failed, messages that wait for the topic[{header.topic}] are the broker's own")
    if broker.topics.get(header.topic) is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist")
    return None


def _fault_of(handle: RecallHandle, topic: str, group: str, broker: BrokerState, now_ms: int) -> str:
    if handle.topic != topic:
        return "topic not match"
    if handle.broker_name != broker.config.broker_name:
        return "broker service not available"
    if not 0 < handle.timestamp - now_ms < broker.config.timer_max_delay_sec * 1000:
        return "timestamp invalid"
    # Either text becomes a property of the marker. A separator inside would add a property, which could remove a
    # message of a topic to which this client may not send.
    for text, what in ((handle.unique_key, "handle"), (group, "producer group")):
        if names.NAME_VALUE_SEPARATOR in text or names.PROPERTY_SEPARATOR in text:
            return f"the {what} has a separator of properties in it"
    return ""


def _marker(handle: RecallHandle, group: str, peer: Peer, broker: BrokerState, now_ms: int) -> MessageExt:
    """A message that waits for the same tick, and removes the other one."""
    properties = {names.TAGS: MARKER_TAG, names.TIMER_DEL_UNIQUE_KEY: f"{handle.topic}+{handle.unique_key}",
                  names.UNIQUE_KEY: handle.unique_key, names.TIMER_DELIVER_MS: str(handle.timestamp),
                  names.PRODUCER_GROUP: group}
    store_host = broker.send_facts.store_host or peer.local
    return MessageExt(handle.topic, _MARKER_BODY, properties, 0, 0, 0, now_ms, peer.remote, store_host, 0)


def handle_get_timer_check_point(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return succeed(request, timer_units.encode_told_check(broker.timers.check()))


def handle_get_timer_metrics(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return succeed(request, broker.timers.counts.wrapper().encode())
