"""Forms of single bodies that readers depend on."""

import pytest

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import DataVersion, SubscriptionGroupConfig, TopicConfig
from regulus.wire import bodies

QUEUE = MessageQueue("T", "broker-a", 0)
QUEUE_TEXT = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'


@pytest.mark.parametrize("text", [
    (b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"C"}],'
    b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'),
    (b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"C",'
    b'"zone":"z"}],"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"writeQueueNums":4}]}'),
])
def test_routes_are_read_with_and_without_quoted_ids(text: bytes) -> None:
    route = bodies.TopicRouteData.decode(text)
    assert route.broker_datas == [bodies.BrokerData(cluster="C", broker_name="broker-a",
                                                    broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})]
    assert route.queue_datas == [bodies.QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4,
                                                  perm=6)]


def test_a_route_is_written_as_standard_json_with_all_that_old_clients_want() -> None:
    broker = bodies.BrokerData(cluster="C", broker_name="b", broker_addrs={0: "h:1"})
    route = bodies.TopicRouteData(broker_datas=[broker])
    assert route.encode() == (b'{"brokerDatas":[{"brokerAddrs":{"0":"h:1"},"brokerName":"b","cluster":"C"}],'
                              b'"filterServerTable":{},"queueDatas":[]}')


@pytest.mark.parametrize(("body", "text"), [
    (bodies.ResetOffsetBody(offset_table={QUEUE: 5}), f'{{"offsetTable":{{{QUEUE_TEXT}:5}}}}'),
    (bodies.TopicStatsTable(offset_table={QUEUE: bodies.TopicOffset(max_offset=3)}),
     f'{{"offsetTable":{{{QUEUE_TEXT}:{{"lastUpdateTimestamp":0,"maxOffset":3,"minOffset":0}}}}}}'),
    (bodies.LockBatchResponseBody(lock_ok_mq_set=[QUEUE]), f'{{"lockOKMQSet":[{QUEUE_TEXT}]}}'),
    (bodies.ResetOffsetBodyForC(
        offset_table=[bodies.MessageQueueForC(topic="T", broker_name="b", queue_id=1, offset=2)]),
     '{"offsetTable":[{"brokerName":"b","offset":2,"queueId":1,"topic":"T"}]}'),
    (bodies.ConsumerOffsetSerializeWrapper(offset_table={"T@G": {1: 7, 0: 12}}),
     '{"offsetTable":{"T@G":{"0":12,"1":7}}}'),
    (bodies.ConsumeStatsList(broker_addr="b", consume_stats_list=[{"G": [bodies.ConsumeStats()]}], total_diff=1),
     '{"brokerAddr":"b","consumeStatsList":[{"G":[{"consumeTps":0.0,"offsetTable":{}}]}],"totalDiff":1}'),
    (bodies.GetConsumerStatusBody(consumer_table={"c": {QUEUE: 1}}),
     f'{{"consumerTable":{{"c":{{{QUEUE_TEXT}:1}}}},"messageQueueTable":{{}}}}'),
    (bodies.QueryConsumeTimeSpanBody(consume_time_span_set=[bodies.QueueTimeSpan(message_queue=QUEUE, delay_time=4)]),
     (f'{{"consumeTimeSpanSet":[{{"consumeTimeStamp":0,"delayTime":4,"maxTimeStamp":0,"messageQueue":{QUEUE_TEXT},'
     '"minTimeStamp":0}]}')),
])
def test_the_form_on_the_wire(body: bodies.ResetOffsetBody, text: str) -> None:
    assert body.encode().decode() == text
    assert type(body).decode(text.encode()) == body


def test_running_info_of_a_go_client_is_read() -> None:
    info = bodies.ConsumerRunningInfo.decode(
        b'{"properties":{"PROP_CONSUMEORDERLY":"false"},"subscriptionSet":[],"statusTable":{},"mqTable":{'
        b'{"topic":"T","brokerName":"broker-a","queueId":0}:{"commitOffset":10,"dropped":false}}}')
    assert info.mq_table[QUEUE].commit_offset == 10


def test_single_configs() -> None:
    topic = TopicConfig(topic_name="T", attributes={"message.type": "FIFO"})
    assert bodies.decode_topic_config(bodies.encode_topic_config(topic)) == topic
    group = SubscriptionGroupConfig(group_name="G", retry_max_times=3)
    assert bodies.decode_subscription_group_config(bodies.encode_subscription_group_config(group)) == group
    version = DataVersion(counter=1, timestamp=2)
    assert bodies.encode_data_version(version) == b'{"counter":1,"stateVersion":0,"timestamp":2}'
    assert bodies.decode_data_version(bodies.encode_data_version(version)) == version
    with pytest.raises(HeaderError, match="TopicConfig lacks the member topicName"):
        bodies.decode_topic_config(b"{}")
