"""Whole tables of offsets.

GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET, QUERY_CORRECTION_OFFSET, CLONE_GROUP_OFFSET.
"""

from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.stepped import document_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.java_numbers import LONG_MAX
from regulus.model.peer import Peer
from regulus.model.topics import name_fault
from regulus.wire.bodies import QueryCorrectionOffsetBody
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_get_all_consumer_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    def steps() -> Steps:
        body = yield from document_in_steps((broker.consumer_offsets.encoded,), broker.consumer_offsets.document)
        return request.response(ResponseCode.SUCCESS, body=body)
    return broker.long_answers.begin(request, peer, steps())


def handle_get_all_delay_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return succeed(request, broker.delay_schedule.wrapper().encode())


def handle_query_correction_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """For each queue the smallest offset of all groups; LONG_MAX if the compared group itself is the slowest.

    RocketMQ deletes the stored offsets of the filtered groups; here they are only left out, because this is a query.
    """
    header = QueryCorrectionOffsetRequest.decode(request)
    filtered = set((header.filter_groups or "").split(","))
    offsets: dict[int, int] = {}
    for group in broker.consumer_offsets.groups_of(header.topic):
        if group in filtered:
            continue
        for queue_id, offset in broker.consumer_offsets.queues(group, header.topic).items():
            if offset >= broker.store.min_offset(header.topic, queue_id):
                offsets[queue_id] = min(offset, offsets.get(queue_id, LONG_MAX))
    for queue_id, offset in broker.consumer_offsets.queues(header.compare_group, header.topic).items():
        if offsets.get(queue_id, LONG_MAX) > offset:
            offsets[queue_id] = LONG_MAX
    return succeed(request, QueryCorrectionOffsetBody(correction_offsets=offsets).encode())


def handle_clone_group_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Skips topics without configuration, and topics that a connected source group does not subscribe to."""
    header = CloneGroupOffsetRequest.decode(request)
    fault = name_fault(header.dest_group, "group")
    if fault is not None:
        return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
    consumers = broker.clients.consumer_group(header.src_group)
    subscribed = None if header.offline or consumers is None or not consumers.subscriptions else consumers.subscriptions
    for topic in [header.topic] if header.topic else broker.consumer_offsets.topics_of(header.src_group):
        if topic in broker.topics and (subscribed is None or topic in subscribed):
            broker.consumer_offsets.clone(header.src_group, header.dest_group, topic, now_ms)
    return succeed(request)
