"""What is kept of pops in order is bounded, and goes with its topic and its group."""

import pytest

from regulus.broker.pop import orders as pop_orders
from regulus.broker.pop.orders import STALE_WAKES_MAX, UNUSED_MS_MAX, PopOrders
from regulus.errors import HeaderError
from regulus.wire import encoded_table, fastjson
from regulus.wire.codes import RequestCode as Code
from regulus.wire.headers import DeleteSubscriptiongroupRequest, DeleteTopicInBrokerRequest, PopMessageRequest
from tests.unit.broker.pop_rig import NOW, Rig, bodies


def test_times_of_one_queue_do_not_grow_with_its_pops_and_changes():
    orders = PopOrders()
    for step in range(10_000):
        now_ms = NOW + step
        orders.begin("T", "G", 0, [0], None, 3_600_000, now_ms)
        orders.change("T", "G", 0, 0, now_ms, now_ms + 3_600_000, now_ms + 7_200_000, now_ms)
    assert len(orders._wakes) == 1
    for step in range(10_000):
        orders.begin("T", "G", 0, [0], None, 3_000_000 - step, NOW)
    assert len(orders._wakes) <= STALE_WAKES_MAX + 3


def test_a_queue_is_looked_at_again_when_its_last_time_has_come():
    orders = PopOrders()
    orders.begin("T", "G", 0, [0], None, 1_000, NOW)
    assert orders.wait_ms(NOW) == 1_000
    orders.change("T", "G", 0, 0, NOW, NOW + 1_000, NOW + 5_000, NOW)
    assert orders.take_free(NOW + 1_000) == []
    assert orders.wait_ms(NOW + 1_000) == 4_000
    orders.change("T", "G", 0, 0, NOW, NOW + 5_000, NOW + 2_000, NOW + 1_000)
    assert orders.take_free(NOW + 2_000) == [("T", 0)]
    assert orders.take_free(NOW + 9_000) == []
    assert orders.wait_ms(NOW + 9_000) is None


def test_an_ack_of_the_message_that_blocks_longest_frees_the_queue_at_the_time_of_the_next_one():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5, 6], None, 600_000, NOW)
    assert orders.change("T", "G", 0, 5, NOW, NOW + 600_000, NOW + 5_000, NOW)
    orders.ack("T", "G", 0, 6, NOW, NOW + 600_000)
    assert orders.wait_ms(NOW) == 5_000
    assert orders.take_free(NOW + 4_999) == []
    assert orders.take_free(NOW + 5_000) == [("T", 0)]


def test_a_pop_that_is_held_gets_what_is_left_as_soon_as_nothing_blocks_it():
    """Not when what was acknowledged would have been visible."""
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send("a", "b")
    header = {"consumer_group": "G", "topic": "T", "queue_id": -1, "max_msg_nums": 2, "invisible_time": 200_000,
              "born_time": NOW, "init_mode": 0, "order": True}
    (_, first), (_, second) = rig.taken(rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=0).ext()))
    assert rig.change(first, 5_000).code == 0
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=100_000).ext()) is None
    rig.ack(second)
    rig.run_to(NOW + 4_900)
    assert not rig.broker.notices
    rig.run_to(NOW + 5_100)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a", "b"]      # the group's offset is before both


@pytest.mark.parametrize("queue_id", [0, -1])
def test_a_pop_that_is_held_goes_on_where_the_group_is_set_back(queue_id):
    """Also one that waits for all queues."""
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send("a")
    header = {"consumer_group": "G", "topic": "T", "queue_id": queue_id, "max_msg_nums": 2, "invisible_time": 200_000,
              "born_time": NOW, "init_mode": 0, "order": True}
    rig.taken(rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=0).ext()))
    assert rig.ask(Code.POP_MESSAGE, PopMessageRequest(**header, poll_time=100_000).ext()) is None
    rig.broker.consumer_offsets.assign_reset("G", "T", 0, 0, NOW)
    rig.broker.queue_changed("T", 0)
    rig.run_to(NOW + 50)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]


def test_in_order_a_receipt_counts_that_tells_when_its_message_is_visible():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5, 6], None, 10_000, NOW)
    assert orders.ack("T", "G", 0, 5, NOW, NOW + 10_001) is None
    assert not orders.change("T", "G", 0, 5, NOW, NOW + 9_999, NOW + 60_000, NOW)
    assert orders.change("T", "G", 0, 5, NOW, NOW + 10_000, NOW + 60_000, NOW)
    assert orders.ack("T", "G", 0, 5, NOW, NOW + 10_000) is None        # the old one
    assert not orders.change("T", "G", 0, 5, NOW, NOW + 10_000, NOW + 70_000, NOW)
    assert orders.ack("T", "G", 0, 5, NOW, NOW + 60_000) == 6


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
                                   '{"T@G":{"0":{"o":[1],"popTime":1e999}}}',
                                   '{"T@G":{"0":{"o":[-5],"popTime":1}}}', '{"T@G":{"0":{"o":[5,-7],"popTime":1}}}',
                                   '{"T@G":{"0":{"o":[5,2,1],"popTime":1}}}', '{"T@G":{"0":{"o":[5,0],"popTime":1}}}'])
def test_a_document_that_is_none_is_refused(table):
    with pytest.raises(HeaderError):
        PopOrders().load(f'{{"table":{table}}}')


# --- what counts, and how long a queue is blocked --------------------------------------------------------------------


def test_a_repeated_attempt_keeps_the_counts_of_the_first_one():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5, 6], "a", 1_000, NOW)
    assert orders.begin("T", "G", 0, [5, 6], "b", 1_000, NOW + 1_000) == ({5: 1, 6: 1}, 1)
    assert orders.begin("T", "G", 0, [5, 6], "b", 1_000, NOW + 1_100) == ({5: 1, 6: 1}, 1)
    assert orders.begin("T", "G", 0, [5, 6, 7], "c", 1_000, NOW + 3_000) == ({5: 2, 6: 2}, 0)


def test_a_queue_is_blocked_until_the_last_of_its_messages_is_visible():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5, 6], None, 10_000, NOW)
    assert orders.change("T", "G", 0, 5, NOW, NOW + 10_000, NOW + 2_000, NOW)
    assert orders.is_blocked("T", "G", 0, None, NOW + 9_999)
    assert not orders.is_blocked("T", "G", 0, None, NOW + 10_000)


def test_what_was_acknowledged_or_is_visible_again_takes_no_other_time():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5, 6], None, 10_000, NOW)
    orders.ack("T", "G", 0, 5, NOW, NOW + 10_000)
    assert not orders.change("T", "G", 0, 5, NOW, NOW + 10_000, NOW + 60_000, NOW + 1_000)
    assert not orders.change("T", "G", 0, 6, NOW, NOW + 10_000, NOW + 60_000, NOW + 10_000)
    assert not orders.change("T", "G", 0, 7, NOW, NOW + 10_000, NOW + 60_000, NOW + 1_000)
    assert orders.change("T", "G", 0, 6, NOW, NOW + 10_000, NOW + 60_000, NOW + 9_999)


# --- what is saved ---------------------------------------------------------------------------------------------------


def test_each_deed_is_worth_saving():
    orders = PopOrders()
    changes = [orders.changes]
    orders.begin("T", "G", 0, [5, 6], None, 10_000, NOW)
    changes.append(orders.changes)
    orders.change("T", "G", 0, 6, NOW, NOW + 10_000, NOW + 60_000, NOW)
    changes.append(orders.changes)
    orders.ack("T", "G", 0, 5, NOW, NOW + 10_000)
    changes.append(orders.changes)
    orders.clear("T", "G", 0)
    changes.append(orders.changes)
    orders.clear("T", "G", 0)
    assert [*changes, orders.changes] == [0, 1, 2, 3, 4, 4]


def test_a_document_has_what_is_out_as_rocketmq_writes_it_and_gives_it_back():
    orders = PopOrders()
    orders.begin("T", "G", 3, [5, 7, 9], "a", 1_000, NOW)
    orders.begin("T", "G", 3, [5, 7, 9], "b", 10_000, NOW + 1_000)
    orders.ack("T", "G", 3, 7, NOW + 1_000, NOW + 11_000)
    orders.change("T", "G", 3, 9, NOW + 1_000, NOW + 11_000, NOW + 30_000, NOW + 1_500)
    written = text(orders)
    assert fastjson.loads(written) == {"table": {"T@G": {"3": {
        "popTime": NOW + 1_000, "i": 10_000, "o": [5, 2, 4], "l": NOW + 1_000, "cm": 2, "a": "b",
        "ot": {"9": NOW + 30_000}, "oc": {"5": 1, "7": 1, "9": 1}}}}}
    again = PopOrders()
    again.load(written)
    assert text(again) == written
    assert not again.is_blocked("T", "G", 3, "b", NOW + 1_500)      # the attempt that was not answered
    assert again.take_free(NOW + 29_999) == []
    assert again.take_free(NOW + 30_000) == [("T", 3)]
    assert again.ack("T", "G", 3, 5, NOW + 1_000, NOW + 11_000) == 9


def test_of_many_queues_only_those_that_changed_are_written_anew(monkeypatch):
    orders = PopOrders()
    for queue_id in range(100):
        orders.begin("T", "G", queue_id, [5, 6], None, 10_000, NOW)
    text(orders)
    written = []
    monkeypatch.setattr(pop_orders, "_written", lambda order: written.append(order.offsets) or "7")
    orders.begin("T", "G", 3, [8], None, 10_000, NOW)
    orders.ack("T", "G", 4, 5, NOW, NOW + 10_000)
    orders.change("T", "G", 5, 6, NOW, NOW + 10_000, NOW + 60_000, NOW)
    orders.clear("T", "G", 6)
    assert list(orders.encoded.changed) == ["T@G"]
    queues = fastjson.loads(text(orders))["table"]["T@G"]
    assert [queue_id for queue_id, order in queues.items() if order == 7] == ["3", "4", "5"]
    assert (len(queues), written) == (99, [[8], [5, 6], [5, 6]])


def test_what_is_out_by_a_saved_document_is_forgotten_a_day_behind_its_last_pop():
    orders = PopOrders()
    orders.begin("T", "G", 0, [5], None, 1_000, NOW)
    again = PopOrders()
    again.load(text(orders))
    again.forget_unused(NOW + UNUSED_MS_MAX)
    assert "popTime" in text(again)
    again = PopOrders()
    again.load(text(orders))
    again.forget_unused(NOW + UNUSED_MS_MAX + 1)
    assert "popTime" not in text(again)
