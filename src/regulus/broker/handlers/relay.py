"""Requests of operators that only the broker's clients can do or answer.

INVOKE_BROKER_TO_RESET_OFFSET, which may push RESET_CONSUMER_CLIENT_OFFSET; INVOKE_BROKER_TO_GET_CONSUMER_STATUS, which
sends GET_CONSUMER_STATUS_FROM_CLIENT; GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY, which are passed on.

Source: Broker2Client, AdminBrokerProcessor.resetOffsetInner, AdminBrokerProcessor.callConsumer.
"""

from collections.abc import Iterator, Mapping

from regulus.broker.groups.clients import Client, ConsumerGroup
from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Notice, Outcome, Relay, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model.message_id import parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.wire.bodies import GetConsumerStatusBody, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from regulus.wire.codes import LanguageCode, RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusFromClientRequest,
    InvokeBrokerToGetConsumerStatusRequest,
    InvokeBrokerToResetOffsetRequest,
    ResetConsumerClientOffsetRequest,
)
from regulus.wire.json_fields import encode_entry, splice
from regulus.wire.remoting_command import RemotingCommand

TARGETS_A_STEP = 32
"""Queues whose offset is searched by time in one step: each reads some twenty records."""
ALL_QUEUES = -1
NO_OFFSET = -1
RESET_VERSION_MIN = 28
"""V3_0_7_SNAPSHOT: older clients know neither 220 nor 221."""
RUNNING_INFO_VERSION_MIN = 62
"""V3_1_8_SNAPSHOT: older clients do not know these requests."""
# Source: Broker2Client.getConsumeStatus, Broker2Client.callClient.
STATUS_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 10_000
_CREDENTIALS = frozenset({"AccessKey", "Signature", "SecurityToken"})


def handle_invoke_broker_to_reset_offset(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                         now_ms: int) -> Outcome:
    """Either the broker sets the offsets, and reports them in the answer to the next pull, or it asks the consumers
    to."""
    header = InvokeBrokerToResetOffsetRequest.decode(request)
    config = broker.topics.get(header.topic)
    if config is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
    in_clients = not broker.config.use_server_side_reset_offset
    if not in_clients and header.group not in broker.subscription_groups:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {header.group} does not exist")
    queue_ids = range(config.write_queue_nums if in_clients else config.read_queue_nums)
    if header.queue_id is not None and header.queue_id > ALL_QUEUES:
        fault = _offset_fault(broker, header, header.queue_id)
        if fault is not None:
            return refuse(request, ResponseCode.SYSTEM_ERROR, fault)
        queue_ids = range(header.queue_id, header.queue_id + 1)
    steps = _reset_in_clients(request, header, queue_ids, broker) if in_clients else \
        _reset(request, header, queue_ids, broker, now_ms)
    return broker.long_answers.begin(request, peer, steps)


def handle_invoke_broker_to_get_consumer_status(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                                now_ms: int) -> Outcome:
    """Asks one client after the other; those that do not answer are left out."""
    header = InvokeBrokerToGetConsumerStatusRequest.decode(request)
    consumers = broker.clients.consumer_group(header.group)
    if consumers is None:
        return refuse(request, ResponseCode.CONSUMER_NOT_ONLINE,
                      f"No Any Consumer online in the consumer group: [{header.group}]")
    clients = [client for client in consumers.clients.values() if header.client_addr in (None, "", client.client_id)]
    for client in clients:
        if client.version < RESET_VERSION_MIN:
            return Reply(_too_old(request, client))
    if not clients:
        return Reply(_status_response(request, {}))
    return _status_relay(request, header, clients, {})


def handle_get_consumer_running_info(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                     now_ms: int) -> Outcome:
    header = GetConsumerRunningInfoRequest.decode(request)
    client = _find(broker, header.consumer_group, header.client_id)
    if client is None:
        return _not_online(request, header.consumer_group, header.client_id)
    return _pass_on(request, RequestCode.GET_CONSUMER_RUNNING_INFO, client, header.consumer_group)


def handle_consume_message_directly(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """The client gets the message as it is stored; without a client id, the first client of the group gets it."""
    header = ConsumeMessageDirectlyRequest.decode(request)
    client = _find(broker, header.consumer_group, header.client_id)
    if client is None:
        return _not_online(request, header.consumer_group, header.client_id or "")
    body = b""
    if header.msg_id:
        try:
            _, physical_offset = parse_offset_message_id(header.msg_id)
        except ValueError as error:
            return refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
        record = broker.store.record_bytes(physical_offset)
        if record is None or broker.store.look_message(physical_offset) is None:
            return refuse(request, ResponseCode.SYSTEM_ERROR, f"no message under the id {header.msg_id}")
        body = bytes(record)
    return _pass_on(request, RequestCode.CONSUME_MESSAGE_DIRECTLY, client, header.consumer_group, body,
                    _flags(broker, header))


# --- reset offset -----------------------------------------------------------------------------------------------------


def _reset(request: RemotingCommand, header: InvokeBrokerToResetOffsetRequest, queue_ids: range,
           broker: BrokerState, now_ms: int) -> Steps:
    """Find the offsets in steps and set all at once. If the client disconnects before, nothing is reset."""
    targets: dict[int, int] = {}
    for queue_id in queue_ids:
        targets[queue_id] = _target(broker, header, queue_id)
        if len(targets) % TARGETS_A_STEP == 0:
            yield
    for queue_id, offset in targets.items():
        broker.consumer_offsets.assign_reset(header.group, header.topic, queue_id, offset, now_ms)
        broker.queue_changed(header.topic, queue_id)
    parts = yield from joined_in_steps(_queue_offsets(broker, header.topic, targets))
    return request.response(ResponseCode.SUCCESS, body=splice(ResetOffsetBody(), "offset_table", parts))


def _queue_offsets(broker: BrokerState, topic: str, offsets: Mapping[int, int]) -> Iterator[bytes]:
    for queue, offset in _by_queue(broker, topic, offsets).items():
        yield encode_entry(queue, offset)


def _offset_fault(broker: BrokerState, header: InvokeBrokerToResetOffsetRequest, queue_id: int) -> str | None:
    first = broker.store.min_offset(header.topic, queue_id)
    end = broker.store.max_offset(header.topic, queue_id)
    if header.offset is None or header.offset == NO_OFFSET or first <= header.offset <= end:
        return None
    return f"Target offset {header.offset} not in consume queue range [{first}-{end}]"


def _target(broker: BrokerState, header: InvokeBrokerToResetOffsetRequest, queue_id: int) -> int:
    """The offset in the request, for its queue. Otherwise the end of the queue, or the first message stored at or after
    the time."""
    if header.queue_id == queue_id and header.offset is not None and header.offset != NO_OFFSET:
        return header.offset
    if header.timestamp < 0:
        return broker.store.max_offset(header.topic, queue_id)
    return broker.store.offset_by_time(header.topic, queue_id, header.timestamp)


def _by_queue(broker: BrokerState, topic: str, offsets: Mapping[int, int]) -> dict[MessageQueue, int]:
    return {MessageQueue(topic, broker.config.broker_name, queue_id): offset for queue_id, offset in offsets.items()}


def _reset_in_clients(request: RemotingCommand, header: InvokeBrokerToResetOffsetRequest, queue_ids: range,
                      broker: BrokerState) -> Steps:
    """Ask all consumers to move to the offsets; without force, never forward."""
    targets: dict[int, int] = {}
    for queue_id in queue_ids:
        current = broker.consumer_offsets.query(header.group, header.topic, queue_id)
        if current < 0:
            return request.response(ResponseCode.SYSTEM_ERROR, f"The consumer group <{header.group}> not exist")
        target = _target(broker, header, queue_id)
        targets[queue_id] = target if header.is_force else min(target, current)
        if len(targets) % TARGETS_A_STEP == 0:
            yield
    consumers = broker.clients.consumer_group(header.group)
    if consumers is None:
        return request.response(ResponseCode.CONSUMER_NOT_ONLINE,
                                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: "
                                f"{header.topic} Timestamp: {header.timestamp}")
    for client in consumers.clients.values():
        if client.version < RESET_VERSION_MIN:
            return _too_old(request, client)
    offset_table = _by_queue(broker, header.topic, targets)
    body = ResetOffsetBody(offset_table=offset_table).encode()
    pushed = _body_for_c(offset_table) if request.language == LanguageCode.CPP else body
    ext = ResetConsumerClientOffsetRequest(topic=header.topic, group=header.group, timestamp=header.timestamp,
                                           is_force=False, queue_id=ALL_QUEUES).ext()
    for channel in consumers.clients:
        broker.notices.append(Notice(channel, Reply(RemotingCommand.request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(ext), pushed, oneway=True))))
    return request.response(ResponseCode.SUCCESS, body=body)


def _body_for_c(offset_table: Mapping[MessageQueue, int]) -> bytes:
    """The table as a list, because the C++ client does not understand a map by queue."""
    return ResetOffsetBodyForC(offset_table=[
        MessageQueueForC(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id, offset=offset)
        for queue, offset in offset_table.items()]).encode()


# --- consumer status --------------------------------------------------------------------------------------------------


def _status_relay(request: RemotingCommand, header: InvokeBrokerToGetConsumerStatusRequest, clients: list[Client],
                  known: dict[str, dict[MessageQueue, int]]) -> Relay:
    client, *others = clients

    def answer(status: RemotingCommand | None) -> RemotingCommand | Relay:
        table = dict(known)
        offsets = None if status is None else _told_offsets(status)
        if offsets is not None:
            table[client.client_id] = offsets
        return _status_relay(request, header, others, table) if others else _status_response(request, table)

    ext = GetConsumerStatusFromClientRequest(topic=header.topic, group=header.group).ext()
    return Relay(channel=client.channel, timeout_ms=STATUS_TIMEOUT_MS, answer=answer,
                 request=RemotingCommand.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext))


def _told_offsets(status: RemotingCommand) -> dict[MessageQueue, int] | None:
    """None when the client refused or sent a malformed body."""
    if status.code != ResponseCode.SUCCESS or not status.body:
        return None
    try:
        return GetConsumerStatusBody.decode(status.body).message_queue_table
    except HeaderError:
        return None


def _status_response(request: RemotingCommand, known: dict[str, dict[MessageQueue, int]]) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=GetConsumerStatusBody(consumer_table=known).encode())


# --- passing on -------------------------------------------------------------------------------------------------------


def _find(broker: BrokerState, group: str, client_id: str | None) -> Client | None:
    consumers: ConsumerGroup | None = broker.clients.consumer_group(group)
    if consumers is None:
        return None
    return consumers.find(client_id) if client_id else next(iter(consumers.clients.values()), None)


def _pass_on(request: RemotingCommand, code: RequestCode, client: Client, group: str, body: bytes = b"",
             more: Mapping[str, str] | None = None) -> Outcome:
    """Send the request to a client, and return the client's answer. The sender's credentials are removed."""
    if client.version < RUNNING_INFO_VERSION_MIN:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"The Consumer <{client.client_id}> Version <{client.version}> too low to finish, "
                      "please upgrade it")

    def answer(response: RemotingCommand | None) -> RemotingCommand:
        if response is None:
            return request.response(ResponseCode.CONSUME_MSG_TIMEOUT,
                                    f"consumer <{group}> <{client.client_id}> Timeout: {CALL_TIMEOUT_MS}ms")
        return request.response(response.code, response.remark, body=response.body)

    ext = {key: value for key, value in request.ext.items() if key not in _CREDENTIALS} | dict(more or {})
    return Relay(channel=client.channel, request=RemotingCommand.request(code, ext, body), answer=answer,
                 timeout_ms=CALL_TIMEOUT_MS)


def _flags(broker: BrokerState, header: ConsumeMessageDirectlyRequest) -> dict[str, str]:
    """Fields for clients of 5.x besides the message."""
    topic = broker.topics.get(header.topic) if header.topic else None
    group = broker.subscription_groups.get(header.consumer_group)
    values = ConsumeMessageDirectlyRequest(
        consumer_group=header.consumer_group, broker_name=broker.config.broker_name,
        topic_sys_flag=topic.topic_sys_flag if topic else None, group_sys_flag=group.group_sys_flag if group else None)
    return values.ext()


def _not_online(request: RemotingCommand, group: str, client_id: str) -> Reply:
    return refuse(request, ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")


def _too_old(request: RemotingCommand, client: Client) -> RemotingCommand:
    return request.response(ResponseCode.SYSTEM_ERROR,
                            f"the client does not support this feature. version={client.version}")
