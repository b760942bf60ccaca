"""What is kept of pops in order is bounded, and goes with its topic and its group."""

import pytest

from regulus.broker.pop_orders import STALE_WAKES_MAX, UNUSED_MS_MAX, PopOrders
from regulus.errors import HeaderError
from regulus.wire import encoded_table
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import DeleteSubscriptiongroupRequest, DeleteTopicInBrokerRequest, PopMessageRequest
from tests.unit.broker.pop_rig import NOW, Rig


def test_times_of_one_queue_do_not_grow_with_its_pops_and_changes():
    orders = PopOrders()
    for step in range(10_000):
        now_ms = NOW + step
        orders.begin("T", "G", 0, [0], None, 3_600_000, now_ms)
        orders.change("T", "G", 0, 0, now_ms, now_ms + 7_200_000, now_ms)
    assert len(orders._wakes) == 1
    for step in range(10_000):
        orders.begin("T", "G", 0, [0], None, 3_000_000 - step, NOW)
    assert len(orders._wakes) <= STALE_WAKES_MAX + 3


def test_a_queue_is_looked_at_again_when_its_last_time_has_come():
    orders = PopOrders()
    orders.begin("T", "G", 0, [0], None, 1_000, NOW)
    assert orders.wait_ms(NOW) == 1_000
    orders.change("T", "G", 0, 0, NOW, NOW + 5_000, NOW)
    assert orders.take_free(NOW + 1_000) == []
    assert orders.wait_ms(NOW + 1_000) == 4_000
    orders.change("T", "G", 0, 0, NOW, NOW + 2_000, NOW + 1_000)
    assert orders.take_free(NOW + 2_000) == [("T", 0)]
    assert orders.take_free(NOW + 9_000) == []
    assert orders.wait_ms(NOW + 9_000) is None


def test_what_nobody_popped_for_a_day_is_forgotten_and_what_is_out_is_not():
    rig = Rig()
    orders = rig.broker.pop_orders
    orders.begin("T", "G", 0, [0], None, 1_000, NOW)
    orders.begin("T", "G", 1, [0], None, 2 * UNUSED_MS_MAX, NOW)
    rig.run_to(NOW + 100)
    assert text(orders).count("popTime") == 2
    rig.now_ms = NOW + UNUSED_MS_MAX + 1
    rig.broker._tick_pops(rig.now_ms)
    assert text(orders).count("popTime") == 1
    assert orders.is_blocked("T", "G", 1, None, rig.now_ms)


def text(orders: PopOrders) -> str:
    return encoded_table.text(orders.document())


@pytest.mark.parametrize("what", ["topic", "group"])
def test_what_is_out_goes_with_its_topic_and_its_group(what):
    rig = Rig()
    rig.send("a")
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(
        consumer_group="G", topic="T", queue_id=0, max_msg_nums=1, invisible_time=30_000, poll_time=0, born_time=NOW,
        init_mode=0, order=True).ext()).code == 0
    assert rig.broker.pop_orders.is_blocked("T", "G", 0, None, NOW)
    before = rig.broker.pop_orders.changes
    if what == "topic":
        rig.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic="T").ext())
    else:
        rig.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptiongroupRequest(group_name="G", clean_offset=True).ext())
    assert not rig.broker.pop_orders.is_blocked("T", "G", 0, None, NOW)
    assert rig.broker.pop_orders.changes > before


def test_an_ack_that_leaves_a_queue_blocked_wakes_nobody():
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send("a", "b")
    header = {"consumer_group": "G", "topic": "T", "queue_id": 0, "max_msg_nums": 2, "invisible_time": 30_000,
              "born_time": NOW, "init_mode": 0, "order": True}
    popped = rig.taken(rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=0).ext()))
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=20_000).ext()) is None
    rig.ack(popped[1][1])
    assert not rig.broker.held_requests.has_ready
    rig.ack(popped[0][1])
    assert rig.broker.held_requests.has_ready


@pytest.mark.parametrize("table", ["[7]", "7", '{"T@G":7}', '{"T@G":{"x":{}}}', '{"T@G":{"0":{"o":[]}}}',
                                   '{"T@G":{"0":{"o":[1e999],"popTime":1}}}',
                                   '{"T@G":{"0":{"o":[1],"popTime":1e999}}}'])
def test_a_document_that_is_none_is_refused(table):
    with pytest.raises(HeaderError):
        PopOrders().load(f'{{"table":{table}}}')
