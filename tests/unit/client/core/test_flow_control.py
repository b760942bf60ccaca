import pytest

from regulus.client.core.flow_control import MIB, FlowLimits
from regulus.client.core.process_queue import ProcessQueue
from regulus.model.message import MessageExt


def queue_with(offsets, body=b"x") -> ProcessQueue:
    queue = ProcessQueue()
    queue.put([MessageExt("T", body, {}, queue_offset=offset) for offset in offsets])
    return queue


@pytest.mark.parametrize(("queue", "exceeded"), [
    (queue_with(range(1000)), None),
    (queue_with(range(1001)), "count"),
    (queue_with((0, 2000)), None),
    (queue_with((0, 2001)), "span"),
    (queue_with(range(100), b"x" * MIB), None),
    (queue_with(range(101), b"x" * MIB), "size"),
], ids=["1000 messages", "1001 messages", "span 2000", "span 2001", "100 MiB", "101 MiB"])
def test_a_queue_pauses_above_a_limit_and_not_at_it(queue, exceeded):
    assert FlowLimits().exceeded(queue) == exceeded


def test_size_is_compared_in_whole_mebibytes():
    queue = queue_with([0], b"x" * (MIB * 2 - 1))
    assert FlowLimits(size_max_mib=1).exceeded(queue) is None


def test_the_room_that_is_left_ends_where_pulling_pauses():
    limits = FlowLimits(size_max_mib=1)
    assert limits.size_left(queue_with([])) == 2 * MIB
    assert limits.size_left(queue_with([0], b"x" * (2 * MIB - 1))) == 1
    assert limits.size_left(queue_with([0], b"x" * (3 * MIB))) == 1


def test_limits_of_a_topic_are_shared_by_its_queues():
    limits = FlowLimits().shared_by(4, topic_count_max=10, topic_size_max_mib=-1)
    assert (limits.count_max, limits.size_max_mib) == (2, 100)
    least = FlowLimits().shared_by(100, topic_count_max=10, topic_size_max_mib=1)
    assert (least.count_max, least.size_max_mib) == (1, 1)
    assert FlowLimits().shared_by(0, topic_count_max=10, topic_size_max_mib=-1).count_max == 10


def test_a_queue_pauses_at_its_share_of_what_all_may_cache():
    limits = FlowLimits().part_of(8, 4)
    assert limits.exceeded(queue_with([0], b"x" * (2 * MIB - 1))) is None
    assert limits.exceeded(queue_with([0], b"x" * 2 * MIB)) == "share"
    assert limits.size_left(queue_with([0], b"x" * MIB)) == MIB
    assert limits.size_left(queue_with([0], b"x" * 3 * MIB)) == 1


def test_without_a_limit_of_all_a_queue_has_its_own_alone():
    assert FlowLimits().part_of(-1, 4) == FlowLimits()


def test_a_share_is_never_so_small_that_an_empty_queue_pauses():
    assert FlowLimits().part_of(0, 1).exceeded(queue_with([])) is None
    assert FlowLimits().part_of(1, 1 << 30).exceeded(queue_with([])) is None


def test_the_share_outlives_the_limits_of_a_topic():
    limits = FlowLimits().part_of(8, 4).shared_by(2, topic_count_max=10, topic_size_max_mib=50)
    assert (limits.count_max, limits.size_max_mib, limits.share) == (5, 25, 2 * MIB)
