import pytest

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark import kafka_partitions
from regulus.spark.kafka_partitions import check_brokers, first_partition, queue_of

A0, B0, B1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0), MessageQueue(
    "orders", "broker-b", 1)


def test_numbers_depend_on_the_name_alone_and_are_kafkas():
    """Written out: they lie in tables, and must never change."""
    assert [first_partition(name) for name in ("broker-a", "broker-b", "node.example")] == [
        0, 711_786_496, 539_164_672]
    numbers = {first_partition(f"broker-{number}") for number in range(100)}
    assert len(numbers) == 100
    assert all(65_536 <= number <= 2**31 - 65_536 and number % 65_536 == 0 for number in numbers)


def test_a_number_without_a_broker_is_that_of_a_partition():
    there = [A0, B0, B1]
    assert queue_of(A0._replace(broker_name=""), there) == A0
    assert queue_of(MessageQueue("orders", "", 711_786_497), there) == B1
    assert queue_of(B1, there) == B1
    for wanted in (MessageQueue("orders", "", 1), MessageQueue("other", "", 0)):
        assert queue_of(wanted, there) == wanted


def test_brokers_with_one_number_are_refused(monkeypatch):
    check_brokers([A0, B0, B1, A0._replace(topic="payments")])
    monkeypatch.setattr(kafka_partitions, "crc32", lambda name: 7)
    check_brokers([A0, B0, B1])
    with pytest.raises(OptionError, match="topic 'orders' at brokers broker-b and broker-c alike"):
        check_brokers([A0, B0, B0._replace(broker_name="broker-c")])
