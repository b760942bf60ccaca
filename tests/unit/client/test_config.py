import pytest

from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig
from regulus.errors import ConfigError


@pytest.mark.parametrize(("make", "key"), [
    (lambda: ProducerConfig(send_msg_timeout=0), "send_msg_timeout"),
    (lambda: ProducerConfig(compress_level=10), "compress_level"),
    (lambda: ProducerConfig(poll_name_server_interval=0), "poll_name_server_interval"),
    (lambda: PushConsumerConfig(consume_thread_max=0), "consume_thread_max"),
    (lambda: PushConsumerConfig(pull_batch_size=1025), "pull_batch_size"),
    (lambda: PushConsumerConfig(consumer_timeout_when_suspend=15_000), "consumer_timeout_when_suspend"),
    (lambda: PushConsumerConfig(allocate_message_queue_strategy="BEST"), "AVG_BY_CIRCLE"),
    (lambda: ClientConfig(access_key="me"), "secret_key"),
    (lambda: ClientConfig(back_pressure_for_async_send_num=-1), "back_pressure_for_async_send_num"),
    (lambda: ProducerConfig(back_pressure_for_async_send_size=-1), "back_pressure_for_async_send_size"),
    (lambda: ProducerConfig(retry_times_when_send_async_failed=-1), "retry_times_when_send_async_failed"),
])
def test_a_wrong_setting_is_refused_by_name(make, key):
    with pytest.raises(ConfigError, match=key):
        make()


def test_defaults_are_rocketmqs():
    producer, consumer = ProducerConfig(), PushConsumerConfig()
    assert (producer.send_msg_timeout, producer.retry_times_when_send_failed) == (3000, 2)
    assert (producer.compress_msg_body_over_howmuch, producer.max_message_size) == (4096, 4_194_304)
    assert producer.retry_times_when_send_async_failed == 2
    assert (consumer.consume_thread_max, consumer.pull_batch_size, consumer.pull_threshold_for_queue) == (20, 32, 1000)
    assert (consumer.consume_timeout, consumer.max_reconsume_times) == (900_000, -1)
    assert (consumer.pull_threshold_size_for_queue, consumer.consume_concurrently_max_span) == (100, 2000)
    assert (consumer.rebalance_interval, consumer.heartbeat_broker_interval) == (20_000, 30_000)
    assert (consumer.persist_consumer_offset_interval, consumer.suspend_current_queue_time_millis) == (5_000, 1_000)
