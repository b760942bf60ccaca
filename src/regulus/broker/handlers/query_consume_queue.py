"""QUERY_CONSUME_QUEUE: the units of one queue as they are on disk."""

from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.model.store_result import QueueUnit
from regulus.wire.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody, SubscriptionData
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import QueryConsumeQueueRequest
from regulus.wire.json_fields import splice
from regulus.wire.remoting_command import RemotingCommand

COUNT_MAX = 10_000
"""Units of one answer, at most."""


def handle_query_consume_queue(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """With a group, also its subscription and filter; `eval` then says whether the subscription's tags match the
    unit."""
    header = QueryConsumeQueueRequest.decode(request)
    if not broker.store.has_queue(header.topic, header.queue_id):
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
    consumers = broker.clients.consumer_group(header.consumer_group) if header.consumer_group else None
    subscription = consumers.subscriptions.get(header.topic) if consumers else None
    return broker.long_answers.begin(request, peer, _answer(request, header, subscription, broker))


def _answer(request: RemotingCommand, header: QueryConsumeQueueRequest, subscription: SubscriptionData | None,
            broker: BrokerState) -> Steps:
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription, filter_data=_filter_data(header, subscription, broker),
        max_queue_index=broker.store.max_offset(header.topic, header.queue_id),
        min_queue_index=broker.store.min_offset(header.topic, header.queue_id))
    wanted = Filter(subscription.code_set) if subscription and subscription.code_set else None
    units = broker.store.queue_units(header.topic, header.queue_id, header.index, min(header.count, COUNT_MAX))
    parts = yield from joined_in_steps(_data(unit, wanted).encode() for unit in units)
    return request.response(ResponseCode.SUCCESS, body=splice(body, "queue_data", parts))


def _filter_data(header: QueryConsumeQueueRequest, subscription: SubscriptionData | None,
                 broker: BrokerState) -> str | None:
    """The stored text of a SQL92 subscription; "null" for one by tags."""
    group = header.consumer_group
    if not group:
        return None
    if subscription is None:
        return f"{group}@{header.topic} is not online!"
    data = broker.consumer_filters.find(header.topic, group)
    return data.text() if data is not None else "null"


def _data(unit: QueueUnit, wanted: Filter | None) -> ConsumeQueueData:
    return ConsumeQueueData(physic_offset=unit.physical_offset, physic_size=unit.size, tags_code=unit.tags_code,
                            eval=wanted is not None and wanted.takes(unit.tags_code))
