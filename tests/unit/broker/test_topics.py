"""The broker's topics."""

from regulus.broker.config import BrokerConfig
from regulus.broker.topics import Topics, batch_topics_in
from regulus.model.topics import TopicConfig
from regulus.wire import encoded_table


def test_the_topics_that_a_broker_lives_on_are_there_from_the_start():
    topics = Topics(BrokerConfig(broker_name="b1", broker_cluster_name="C1"))
    expected = {"TBW102": (8, 7), "SELF_TEST_TOPIC": (1, 6), "BenchmarkTest": (1024, 6), "C1": (16, 7), "b1": (1, 7),
                "OFFSET_MOVED_EVENT": (1, 6), "SCHEDULE_TOPIC_XXXX": (18, 6), "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
                "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6), "TRANS_CHECK_MAX_TIME_TOPIC": (1, 6),
                "C1_REPLY_TOPIC": (1, 6), "rmq_sys_wheel_timer": (1, 6), "rmq_sys_REVIVE_LOG_C1": (8, 6),
                "rmq_sys_SYNC_BROKER_MEMBER_b1": (1, 6)}
    found = {name: (topics.get(name).write_queue_nums, topics.get(name).perm) for name in topics.names()}
    assert found == expected
    assert all(topics.is_system(name) for name in expected)


def test_settings_decide_on_some_of_them():
    topics = Topics(BrokerConfig(auto_create_topic_enable=False, trace_topic_enable=True, cluster_topic_enable=False))
    assert "TBW102" not in topics
    assert "RMQ_SYS_TRACE_TOPIC" in topics
    assert topics.get("DefaultCluster").perm == 1


def test_a_change_is_counted_and_dated():
    topics = Topics(BrokerConfig())
    topics.put(TopicConfig(topic_name="T"), 5)
    assert (topics.changes, topics.data_version.counter, topics.data_version.timestamp) == (1, 1, 5)
    assert topics.delete("T", 6)
    assert not topics.delete("T", 7)
    assert (topics.changes, topics.data_version.timestamp) == (2, 6)
    assert "T" not in topics.facts


def test_what_is_there_is_not_made_again():
    topics = Topics(BrokerConfig())
    topics.create_if_absent("%RETRY%G", 1, 1)
    topics.create_if_absent("%RETRY%G", 9, 2)
    assert topics.get("%RETRY%G").write_queue_nums == 1
    assert topics.changes == 1
    assert topics.create_if_absent("%RETRY%G", 9, 3, order=True).order
    assert topics.create_if_absent("%RETRY%G", 9, 4).order


def test_counts_outlive_a_change_of_the_topic():
    topics = Topics(BrokerConfig())
    topics.put(TopicConfig(topic_name="T"), 1)
    topics.facts["T"].other_nums = 3
    topics.put(TopicConfig(topic_name="T", perm=4), 2)
    assert topics.facts["T"].put_nums == 3
    assert topics.facts["T"].refusal_code == 16


def test_topics_are_saved_and_loaded():
    topics = Topics(BrokerConfig())
    topics.put(TopicConfig(topic_name="T", read_queue_nums=2, order=True, attributes={"message.type": "FIFO"}), 9)
    again = Topics(BrokerConfig())
    again.load(encoded_table.text(topics.document()))
    assert again.table == topics.table
    assert again.data_version == topics.data_version
    assert set(again.facts) == set(again.table)


def test_a_narrowed_table_leaves_the_kept_one_alone():
    topics = Topics(BrokerConfig())
    table = topics.wrapper(perm_mask=4 | 1).topic_config_table
    assert (table["TBW102"].perm, table["BenchmarkTest"].perm) == (5, 4)
    assert topics.get("TBW102").perm == 7


def test_which_queues_a_topic_has():
    topics = Topics(BrokerConfig())
    topics.put(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=1), 5)
    assert [topics.has_queue("T", queue_id) for queue_id in range(4)] == [True, True, True, False]
    assert not topics.has_queue("Unknown", 0)
    assert topics.has_queue("SCHEDULE_TOPIC_XXXX", 99)


def test_the_store_hears_of_topics_that_keep_batches_however_they_come():
    heard = []
    topics = Topics(BrokerConfig(), keep_batches=heard.append)
    topics.put(TopicConfig(topic_name="B", attributes={"queue.type": "BatchCQ"}), 1)
    topics.put(TopicConfig(topic_name="T", attributes={"queue.type": "SimpleCQ"}), 1)
    assert heard == ["B"]
    saved = encoded_table.text(topics.document())
    assert batch_topics_in(saved) == ["B"]
    Topics(BrokerConfig(), keep_batches=heard.append).load(saved)
    Topics(BrokerConfig(), keep_batches=heard.append).follow(saved, 2)
    assert heard == ["B"] * 3


def test_the_number_of_a_master_s_topic_counts_whichever_document_comes_first():
    master = Topics(BrokerConfig())
    master.put(TopicConfig(topic_name="Orders"), 7)
    numbers, topics = (encoded_table.text(each) for each in (master.epochs.document(), master.document()))
    slave = Topics(BrokerConfig())
    assert slave.epochs.follow(numbers) == ["Orders"]
    slave.follow(topics, 1000)
    assert slave.epochs.of("Orders") == 7
    assert slave.epochs.follow(numbers) == []


def test_a_slave_loses_the_topics_that_its_master_lost_and_no_topic_of_its_own():
    master, slave = Topics(BrokerConfig(broker_name="a")), Topics(BrokerConfig(broker_name="b"))
    for name in ("Orders", "Gone"):
        master.put(TopicConfig(topic_name=name), 7)
    assert slave.follow(encoded_table.text(master.document()), 1000) == []
    master.delete("Gone", 8)
    changes = slave.changes
    assert slave.follow(encoded_table.text(master.document()), 1001) == ["Gone"]
    assert ("Gone" in slave, "Orders" in slave, "b" in slave) == (False, True, True)
    assert slave.changed_since(changes) == {"Gone"}     # or it would be in the saved table still
    assert (slave.epochs.of("Gone"), slave.epochs.is_deleted("Gone")) == (0, True)
    assert slave.data_version == master.data_version
