"""BULK_PULL: reads many messages of a queue for a reader that is not a consumer.

The answer is slices of the log without decoding, like that of a pull. The request is never held and changes no group.
"""

from regulus.broker.filters.message_filter import expression_filter
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model import permission
from regulus.model.message_filter import Filter
from regulus.model.peer import Peer
from regulus.model.store_result import GetStatus
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import BulkPullRequest, BulkPullResponse
from regulus.wire.headers.bulk_pull import BOUNDS_OF_ALL, QUEUE_BOUNDS
from regulus.wire.remoting_command import RemotingCommand

BULK_SIZE_MAX = 4 << 20
"""Bytes of one answer, whatever the request says; a single larger message is returned all the same."""

BULK_COUNT_MAX = 16_384
"""Messages of one answer: this many are sliced before another request gets its turn."""

BOUNDS_COUNT_MAX = 1024
"""Queues whose bounds one answer contains."""

_PASSED_OVER = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING,
                GetStatus.OFFSET_FOUND_NULL)
"""Statuses after which reading continues at their next offset; for the others no message was looked at."""


def handle_bulk_pull(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = BulkPullRequest.decode(request)
    if not permission.is_readable(broker.config.broker_permission):
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"broker {broker.config.broker_name} may not be read: set brokerPermission to allow it")
    topic = broker.topics.get(header.topic)
    if topic is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
    if not permission.is_readable(topic.perm):
        return refuse(request, ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
    if not 0 <= header.queue_id < topic.read_queue_nums or header.queue_offset < 0:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"queueId {header.queue_id} or queueOffset {header.queue_offset} is illegal: topic "
                      f"{header.topic} has {topic.read_queue_nums} queues")
    try:
        message_filter = expression_filter(header.expression)
    except HeaderError as error:
        return refuse(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    if header.size_max < 1 and header.queue_offset_end == BOUNDS_OF_ALL:
        stop = min(topic.read_queue_nums, header.queue_id + BOUNDS_COUNT_MAX)
        return _state(request, header, broker, _bounds(header.topic, range(header.queue_id, stop), broker))
    return _read(request, header, message_filter, broker)


def _bounds(topic: str, queue_ids: range, broker: BrokerState) -> bytes:
    store = broker.store
    return b"".join(QUEUE_BOUNDS.pack(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))
                    for queue_id in queue_ids)


def _state(request: RemotingCommand, header: BulkPullRequest, broker: BrokerState, body: bytes = b"") -> Outcome:
    topic, queue_id = header.topic, header.queue_id
    ext = BulkPullResponse(next_offset=header.queue_offset, min_offset=broker.store.min_offset(topic, queue_id),
                           max_offset=broker.store.max_offset(topic, queue_id),
                           topic_epoch=broker.topics.epochs.of(topic))
    return Reply(request.response(ResponseCode.SUCCESS, ext=ext.ext(), body=body))


def _read(request: RemotingCommand, header: BulkPullRequest, message_filter: Filter,
          broker: BrokerState) -> Outcome:
    store = broker.store
    count = min(header.queue_offset_end - header.queue_offset, BULK_COUNT_MAX)
    if header.size_max < 1 or count < 1:
        return _state(request, header, broker)
    found = store.get_message(header.topic, header.queue_id, header.queue_offset, count,
                              min(header.size_max, BULK_SIZE_MAX), message_filter)
    next_offset = found.next_begin_offset if found.status in _PASSED_OVER else header.queue_offset
    ext = BulkPullResponse(next_offset=next_offset, min_offset=found.min_offset, max_offset=found.max_offset,
                           topic_epoch=broker.topics.epochs.of(header.topic))
    return Reply(request.response(ResponseCode.SUCCESS, found.status.name, ext.ext(), found.buffers))
