"""GET_TOPIC_STATS_INFO: first and last offset of each queue of a topic."""

from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.broker.statistics import TOPIC_PUT_NUMS
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.wire.bodies import TopicOffset, TopicStatsTable
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import GetTopicStatsInfoRequest
from regulus.wire.json_fields import encode_entry, splice
from regulus.wire.remoting_command import RemotingCommand


def handle_get_topic_stats_info(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Covers all queues that can be written or read."""
    topic = GetTopicStatsInfoRequest.decode(request).topic
    config = broker.topics.get(topic)
    if config is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    queue_nums = max(config.read_queue_nums, config.write_queue_nums)
    return broker.long_answers.begin(request, peer, _answer(request, topic, queue_nums, broker))


def _answer(request: RemotingCommand, topic: str, queue_nums: int, broker: BrokerState) -> Steps:
    entries = (encode_entry(MessageQueue(topic, broker.config.broker_name, queue_id),
                            _topic_offset(broker, topic, queue_id)) for queue_id in range(queue_nums))
    parts = yield from joined_in_steps(entries)
    item = broker.statistics.item(TOPIC_PUT_NUMS, topic)
    table = TopicStatsTable(topic_put_tps=item.minute().tps if item else 0.0)
    return request.response(ResponseCode.SUCCESS, body=splice(table, "offset_table", parts))


def _topic_offset(broker: BrokerState, topic: str, queue_id: int) -> TopicOffset:
    min_offset = broker.store.min_offset(topic, queue_id)
    max_offset = broker.store.max_offset(topic, queue_id)
    last = broker.store.store_timestamp(topic, queue_id, max_offset - 1) if max_offset > min_offset else 0
    return TopicOffset(min_offset=min_offset, max_offset=max_offset, last_update_timestamp=max(0, last))
