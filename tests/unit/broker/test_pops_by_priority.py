"""In which order a topic of messages with a priority is popped, and who starves."""

from collections import Counter

import pytest

from regulus.model.message import MessageExt
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from tests.unit.broker.pop_rig import HOST, Rig, bodies

QUEUES = 4


def rig_of(kind: str = "PRIORITY", factor: str | None = None, **fields: object) -> Rig:
    rig = Rig(**fields)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=QUEUES, write_queue_nums=QUEUES,
                                      attributes={"message.type": kind}), rig.now_ms)
    attributes = {} if factor is None else {"priority.factor": factor}
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", attributes=attributes), rig.now_ms)
    return rig


def fill(rig: Rig, count: int) -> None:
    """So many messages in each queue, named by it."""
    for queue_id in range(QUEUES):
        for _ in range(count):
            rig.broker.storing.store(MessageExt("T", str(queue_id).encode(), {"UNIQ_KEY": "K"}, queue_id, 0, 0,
                                                rig.now_ms, HOST, HOST, 0), rig.now_ms)
    rig.settle()


def popped(rig: Rig, pops: int, count: int = 1, **fields: object) -> list[str]:
    return [body for _ in range(pops) for body in bodies(rig.pop(count, **fields))]


def least(found: list[str]) -> int:
    """How often the queue came that came least."""
    counts = Counter(found)
    return min(counts[str(queue_id)] for queue_id in range(QUEUES))


@pytest.mark.parametrize("count", [1, 3, 32])
def test_the_last_queue_comes_first(count):
    rig = rig_of()
    fill(rig, 2)
    assert "".join(popped(rig, 8, count)) == "33221100"


def test_what_is_more_urgent_and_comes_later_overtakes():
    rig = rig_of()
    fill(rig, 2)
    assert "".join(popped(rig, 5)) == "33221"
    fill(rig, 1)
    assert "".join(popped(rig, 7)) == "3211000"


@pytest.mark.parametrize("kind", ["NORMAL", "MIXED"])
def test_other_topics_are_popped_from_any_queue_on(kind):
    rig = rig_of(kind)
    fill(rig, 50)
    assert least(popped(rig, 80)) > 10


def test_one_queue_and_a_group_in_order_are_popped_as_ever():
    rig = rig_of()
    fill(rig, 20)
    assert popped(rig, 2, queue_id=1) == ["1", "1"]
    firsts = set()
    for number in range(20):
        group = f"O{number}"
        rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name=group), rig.now_ms)
        firsts.update(popped(rig, 1, group=group, order=True))
    assert firsts == {"0", "1", "2", "3"}


def test_with_a_factor_of_0_a_group_pops_from_any_queue_on():
    rig = rig_of(factor="0")
    fill(rig, 50)
    assert least(popped(rig, 80)) > 10


@pytest.mark.parametrize(("factor", "pops"), [("80", 400), ("99", 1_600)])
def test_below_100_every_queue_has_its_share_of_the_rest(factor, pops):
    """Each of the others a quarter of the pops that do not go by priority."""
    rig = rig_of(factor=factor)
    fill(rig, pops)
    found = Counter(popped(rig, pops, invisible=600_000))
    share = pops * (100 - int(factor)) / 100 / QUEUES
    assert all(0.2 * share < found[str(queue_id)] < 2 * share for queue_id in range(QUEUES - 1)), found


def failed_once(rig: Rig) -> None:
    """One message of each queue that is to be tried again; nothing else is there."""
    fill(rig, 1)
    assert len(rig.pop(32, invisible=1_000)) == QUEUES
    rig.run_to(rig.now_ms + 3_000)
    assert len(rig.shown("%RETRY%G_T")) == QUEUES


def test_what_is_tried_again_waits_for_all_others():
    rig = rig_of()
    failed_once(rig)
    fill(rig, 20)
    found = [(message.body, message.reconsume_times) for _ in range(84) for message, _ in rig.pop(1)]
    assert [times for _, times in found] == [0] * 80 + [1] * QUEUES


def test_a_setting_has_it_looked_for_first():
    rig = rig_of(pop_from_retry_probability_for_priority=20)
    failed_once(rig)
    fill(rig, 100)
    found = [message.reconsume_times for _ in range(100) for message, _ in rig.pop(1)]
    assert sum(found) == QUEUES


def test_pops_that_do_not_go_by_priority_look_for_it_as_those_of_other_topics_do():
    """Whatever their factor: RocketMQ's look for nothing where it is 20 or more."""
    rig = rig_of(factor="50")
    failed_once(rig)
    fill(rig, 200)
    found = [message.reconsume_times for _ in range(150) for message, _ in rig.pop(1)]
    assert sum(found) == QUEUES


def test_what_is_tried_again_and_what_is_a_dead_letter_keeps_its_priority():
    rig = rig_of()
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=1), rig.now_ms)
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "A", "_SYS_MSG_PRIORITY_": "3"}, 3, 0, 0, rig.now_ms,
                                        HOST, HOST, 0), rig.now_ms)
    rig.settle()
    for _ in range(2):
        ((message, _),) = rig.pop(1, invisible=1_000)
        assert message.priority == 3
        rig.run_to(rig.now_ms + 3_000)
    (retry,), (dead,) = rig.shown("%RETRY%G_T"), rig.shown("%DLQ%G")
    assert (retry.priority, dead.priority) == (3, 3)
