"""QUERY_CONSUME_QUEUE: the units of one queue as they stand on disk."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.message_filter import is_wanted
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import QueryConsumeQueueRequest
from regulus.wire.remoting_command import RemotingCommand

COUNT_MAX = 10_000
"""Units of one answer."""


def handle_query_consume_queue(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """With a group, also its subscription; `eval` is then whether the subscription's tags want the unit."""
    header = QueryConsumeQueueRequest.decode(request)
    if (header.topic, header.queue_id) not in broker.store.queues():
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
    max_offset = broker.store.max_offset(header.topic, header.queue_id)
    units = broker.store.queue_units(header.topic, header.queue_id, header.index, min(header.count, COUNT_MAX))
    consumers = broker.clients.consumer_group(header.consumer_group) if header.consumer_group else None
    subscription = consumers.subscriptions.get(header.topic) if consumers else None
    filter_data = None
    if header.consumer_group:
        filter_data = "null" if subscription else f"{header.consumer_group}@{header.topic} is not online!"
    tags_codes = frozenset(subscription.code_set) if subscription and subscription.code_set else None
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription, filter_data=filter_data, max_queue_index=max_offset,
        min_queue_index=broker.store.min_offset(header.topic, header.queue_id),
        queue_data=[ConsumeQueueData(physic_offset=unit.physical_offset, physic_size=unit.size,
                                     tags_code=unit.tags_code,
                                     eval=tags_codes is not None and is_wanted(unit.tags_code, tags_codes))
                    for unit in units])
    return succeed(request, body.encode())
