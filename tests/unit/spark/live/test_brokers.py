"""What running brokers tell of their queues."""

import asyncio

import pytest

from regulus.client.sync import Admin
from regulus.errors import ClientError, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.options import parse_options
from regulus.spark.read_plan import Gap, ReadRange, UnitRange
from tests.unit.pipeline.clusters import two_brokers
from tests.unit.spark.conftest import send_orders
from tests.waiting import wait_until

Q0, Q1 = (MessageQueue("orders", "broker-a", number) for number in range(2))


@pytest.fixture
def brokers(regulus_server):
    send_orders(regulus_server, range(1000))
    options = parse_options({"nameServer": regulus_server.name_server_address, "topic": "orders",
                             "maxBytesPerPartition": "40k", "consumerGroup": "billing"})
    with LiveBrokers(options) as brokers:
        yield brokers


def test_queues_and_their_state(brokers):
    assert brokers.queues() == [Q0, Q1]
    states = brokers.states([Q0, Q1])
    assert [state[:2] for state in states.values()] == [(0, 500), (0, 500)]
    assert states[Q0].topic_epoch == states[Q1].topic_epoch > 0


def test_times(brokers):
    stored = brokers.marks({Q0: 0, Q1: 500})
    assert list(stored) == [Q0]
    assert brokers.offsets_at({Q0: stored[Q0].store_time, Q1: 4_000_000_000_000}) == {Q0: 0, Q1: 500}


def test_a_group_that_is_new_is_made_when_its_progress_is_published(brokers, regulus_server):
    assert brokers.group_offsets([Q0, Q1]) == {Q0: None, Q1: None}
    brokers.publish("billing", {Q0: 7, Q1: 9})
    assert brokers.group_offsets([Q0, Q1]) == {Q0: 7, Q1: 9}
    with Admin(regulus_server.name_server_address) as admin:
        assert admin.progress("billing", "orders").lag == 1000 - 16


def test_partitions_are_the_same_whoever_plans_them(brokers):
    ranges = [UnitRange("orders", 1, 0, 500, "broker-a"), UnitRange("orders", 0, 0, 500, "broker-a")]
    parts = brokers.partitions(ranges, [], cores=None)
    assert parts == brokers.partitions(ranges[::-1], [], cores=None)
    assert len(parts) > 2
    units = [unit for part in parts for unit in part.units]
    assert units[0][:3] == ("orders", 0, 0)
    assert units[-1][:4] == ("orders", 1, units[-1].start, 500)
    assert sum(part.rows for part in parts) == 1000
    known = dict.fromkeys((Q0, Q1), 400)
    assert len(brokers.partitions(ranges, [], cores=None, sizes=known)) == 10


def test_gaps_go_to_the_first_task(brokers):
    gap = Gap(Q0, 1, 2, "so")
    assert brokers.partitions([], [gap], cores=2) == [ReadRange((), (gap,))]
    first, *_ = brokers.partitions([UnitRange("orders", 0, 0, 10, "broker-a")], [gap], cores=2)
    assert first == ReadRange((UnitRange("orders", 0, 0, 10, "broker-a"),), (gap,))


def test_credentials_that_are_not_there_are_refused():
    options = parse_options({"nameServer": "a:1", "topic": "orders", "credentials": "env:NOT_THERE_42"})
    with pytest.raises(OptionError, match="NOT_THERE_42"):
        LiveBrokers(options)


def test_a_broker_that_goes_while_the_queues_are_asked_for_is_missed(tmp_path):
    """It is there before, and of its queues nothing is told."""
    with two_brokers(tmp_path, "orders") as (first, second):
        options = parse_options({"nameServer": first.name_server_address, "topic": "orders",
                                 "expectedBrokers": "broker-a,broker-b"})

        class Parted(LiveBrokers):
            async def _queues_of(self, topic):
                # It says goodbye to its name server, and the route of a moment later is without it.
                await asyncio.get_running_loop().run_in_executor(None, second.stop)
                return await super()._queues_of(topic)

        with LiveBrokers(options) as brokers:
            assert [queue.broker_name for queue in brokers.queues()] == ["broker-a", "broker-b"]
        with Parted(options) as brokers, pytest.raises(ClientError, match="expected brokers are away: broker-b"):
            brokers.queues()


@pytest.mark.parametrize(("reads", "writes", "perm", "unread"), [
    (1, 2, 6, "orders/broker-a/1"), (1, 1, 6, "orders/broker-a/1"), (2, 2, 2, "orders/broker-a/0, orders/broker-a/1"),
    (3, 3, 6, None)], ids=["fewer to read", "fewer", "only written", "more"])
def test_messages_that_nobody_can_read_are_missed_by_who_wants_all(regulus_server, reads, writes, perm, unread):
    send_orders(regulus_server, range(4))
    where = regulus_server.name_server_address
    with Admin(where) as admin:
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=reads, write_queue_nums=writes, perm=perm))
        wait_until(lambda: len(admin.queues("orders")) == (reads if perm == 6 else 0), "the route")
    named = parse_options({"nameServer": where, "topic": "orders", "expectedBrokers": "broker-a"})
    with LiveBrokers(named) as brokers:
        if unread is None:
            assert len(brokers.queues()) == reads
        else:
            with pytest.raises(ClientError, match=f"'orders' have messages and cannot be read, .*: {unread}: let the"):
                brokers.queues()
