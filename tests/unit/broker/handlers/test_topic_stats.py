"""How far the queues of a topic go."""

from regulus.model.topics import TopicConfig
from regulus.wire.bodies import TopicStatsTable
from regulus.wire.codes import RequestCode, ResponseCode


def test_each_queue_that_can_be_written_or_read(rig):
    rig.broker.topics.put(TopicConfig(topic_name="TopicA", read_queue_nums=1, write_queue_nums=3), rig.now_ms)
    rig.send()
    rig.now_ms += 5
    rig.send(queue_id=2)
    table = TopicStatsTable.decode(rig.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "TopicA"}).body).offset_table
    rows = {queue.queue_id: (row.min_offset, row.max_offset, row.last_update_timestamp)
            for queue, row in table.items()}
    assert rows == {0: (0, 1, rig.now_ms - 5), 1: (0, 0, 0), 2: (0, 1, rig.now_ms)}
    assert {queue.broker_name for queue in table} == {"broker-a"}


def test_an_unknown_topic_is_refused(rig):
    assert rig.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "None"}).code == ResponseCode.TOPIC_NOT_EXIST
