"""How far groups have pulled, as long as group and topic are there."""

from regulus.broker.groups.pull_offsets import NOT_PULLED, PullOffsets


def test_what_was_pulled_last_is_known_for_each_queue():
    pulls = PullOffsets()
    pulls.note("G", "T", 0, 5)
    pulls.note("G", "T", 0, 7)
    pulls.note("G", "T", 1, 3)
    assert [pulls.of("G", "T", 0), pulls.of("G", "T", 1), pulls.of("G", "T", 2)] == [7, 3, NOT_PULLED]
    assert pulls.of("H", "T", 0) == pulls.of("G", "U", 0) == NOT_PULLED


def test_a_group_or_topic_that_goes_leaves_nothing_and_others_stay():
    pulls = PullOffsets()
    for group in ("G", "H"):
        for topic in ("T", "U"):
            pulls.note(group, topic, 0, 1)
    pulls.remove_group("G")
    assert [pulls.of("G", "T", 0), pulls.of("G", "U", 0), pulls.of("H", "T", 0)] == [NOT_PULLED, NOT_PULLED, 1]
    pulls.remove_topic("T")
    pulls.remove_topic("T")
    pulls.remove_group("G")
    assert [pulls.of("H", "T", 0), pulls.of("H", "U", 0)] == [NOT_PULLED, 1]
    pulls.note("G", "T", 0, 2)
    assert pulls.of("G", "T", 0) == 2
    pulls.remove_topic("T")
    pulls.remove_group("H")
    assert len(pulls) == 0
