"""Settings are checked when they are made."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.errors import ConfigError


@pytest.mark.parametrize("settings", [
    {"broker_name": ""}, {"broker_cluster_name": "a b"}, {"flush_disk_type": "SOMETIMES"},
    {"broker_id": 1}, {"broker_id": -1}, {"listen_port": 70_000}, {"default_topic_queue_nums": 0},
    {"max_message_size": 0}, {"max_message_size": 1 << 31}, {"message_delay_level": "1 second"},
    {"broker_ip1": "localhost"}, {"broker_ip1": "10.0.0.300"}])
def test_a_wrong_setting_is_named(settings):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(**settings)
    assert any(word in str(caught.value) for word in (
        "brokerName", "brokerClusterName", "flushDiskType", "brokerId", "listenPort",
        "defaultTopicQueueNums", "maxMessageSize", "messageDelayLevel", "brokerIP1"))


def test_the_ladder_is_read_once():
    assert BrokerConfig(message_delay_level="10ms 1s 2m").delay_ladder_ms == (10, 1000, 120_000)


def test_sync_flush():
    assert BrokerConfig(flush_disk_type="SYNC_FLUSH").sync_flush
    assert not BrokerConfig().sync_flush
