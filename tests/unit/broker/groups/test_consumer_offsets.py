"""What each group has consumed."""

from collections.abc import Iterator

import pytest

from regulus.broker.groups.consumer_offsets import NOT_FOUND, Ahead, ConsumerOffsets
from regulus.wire import encoded_table


def committed() -> ConsumerOffsets:
    offsets = ConsumerOffsets()
    offsets.commit("G", "T", 0, 5)
    offsets.commit("G", "T", 3, 7)
    offsets.commit("G", "U", 0, 1)
    offsets.commit("H", "T", 0, 2)
    return offsets


def test_the_last_commit_counts():
    offsets = committed()
    offsets.commit("G", "T", 0, 4)
    assert offsets.query("G", "T", 0) == 4
    assert offsets.query("G", "T", 1) == NOT_FOUND
    assert offsets.query("X", "T", 0) == NOT_FOUND


def test_who_committed_what():
    offsets = committed()
    assert sorted(offsets.topics_of("G")) == ["T", "U"]
    assert sorted(offsets.groups_of("T")) == ["G", "H"]
    assert offsets.queues("G", "T") == {0: 5, 3: 7}


def test_who_committed_what_is_told_without_a_look_at_the_others():
    class Unwalked(dict[str, dict[int, int]]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all were walked")

        keys = items = values = __iter__    # type: ignore[assignment]

    offsets = committed()
    offsets.table = Unwalked(offsets.table)
    assert offsets.topics_of("G") == ["T", "U"]
    assert offsets.groups_of("T") == ["G", "H"]
    offsets.remove_topic("T")
    offsets.remove_group("G")
    assert offsets.topics_of("G") == offsets.topics_of("H") == offsets.groups_of("T") == []


def test_who_committed_what_is_known_after_a_start():
    again = ConsumerOffsets()
    again.commit("Before", "T", 0, 1)
    again.load(encoded_table.text(committed().document()))
    assert sorted(again.topics_of("G")) == ["T", "U"]
    assert sorted(again.groups_of("T")) == ["G", "H"]
    again.remove_group("H")
    again.clone("G", "H", "U")
    again.clone("G", "H", "U")
    assert again.topics_of("H") == ["U"]
    assert again.groups_of("U") == ["G", "H"]


def test_offsets_can_be_taken_over_and_removed():
    offsets = committed()
    offsets.clone("G", "Copy", "T")
    offsets.commit("G", "T", 0, 9)
    assert offsets.queues("Copy", "T") == {0: 5, 3: 7}
    offsets.commit("AG", "T", 0, 8)
    offsets.commit("G", "AT", 0, 6)
    offsets.remove_group("G")
    assert offsets.topics_of("G") == []
    assert offsets.table == {"T@H": {0: 2}, "T@Copy": {0: 5, 3: 7}, "T@AG": {0: 8}}
    offsets.commit("H", "TT", 0, 1)
    offsets.remove_topic("T")
    assert offsets.groups_of("T") == []
    assert offsets.table == {"TT@H": {0: 1}}


def test_a_reset_is_pending_until_it_is_taken():
    offsets = committed()
    offsets.assign_reset("G", "T", 0, 1)
    assert offsets.query("G", "T", 0) == 1
    assert offsets.pending_reset("G", "T", 0) == 1
    assert offsets.pending_reset("G", "T", 3) is None
    assert offsets.take_reset("G", "T", 0) == 1
    assert offsets.take_reset("G", "T", 0) is None
    assert offsets.pending_reset("G", "T", 0) is None


def test_offsets_are_saved_and_loaded():
    offsets = committed()
    again = ConsumerOffsets()
    again.load(encoded_table.text(offsets.document()))
    assert again.table == {"T@G": {0: 5, 3: 7}, "U@G": {0: 1}, "T@H": {0: 2}}


def test_what_changes_between_two_documents_is_in_the_second():
    offsets = committed()
    offsets.document()
    offsets.remove_topic("U")
    offsets.clone("G", "Copy", "T")
    offsets.assign_reset("H", "T", 0, 1)
    again = ConsumerOffsets()
    again.load(encoded_table.text(offsets.document()))
    assert again.table == offsets.table == {"T@G": {0: 5, 3: 7}, "T@H": {0: 1}, "T@Copy": {0: 5, 3: 7}}


def test_a_file_of_4_9_is_read():
    offsets = ConsumerOffsets()
    offsets.load('{\n\t"offsetTable":{\n\t\t"%RETRY%g1@g1":{0:3\n\t\t},\n\t\t"TopicA@g1":{0:12,1:9\n\t\t}\n\t}\n}')
    assert offsets.table == {"%RETRY%g1@g1": {0: 3}, "TopicA@g1": {0: 12, 1: 9}}


def test_the_version_moves_with_every_five_hundredth_commit():
    offsets = ConsumerOffsets()
    for number in range(1000):
        offsets.commit("G", "T", 0, number, 77)
    assert (offsets.data_version.counter, offsets.data_version.timestamp) == (2, 77)


# --- a master and its slave ------------------------------------------------------------------------------------------


class Pair:
    """A master's offsets, and those of its slave."""

    def __init__(self, is_ours: bool = True) -> None:
        self.master, self.slave, self.is_ours = ConsumerOffsets(), ConsumerOffsets(), is_ours
        self.slave.be_copy()

    def exchange(self) -> None:
        """As the slave does it each round."""
        for ahead in self.follow():
            if self.is_ours:
                self.master.catch_up(ahead, 0)
            else:
                self.master.commit(*ahead[:4])
            self.slave.told(ahead)
        self.follow()

    def follow(self) -> list[Ahead]:
        numbers = encoded_table.text(self.master.set_backs.document()) if self.is_ours else None
        return self.slave.follow(encoded_table.text(self.master.document()), numbers, 0)

    def at_both(self, queue_id: int = 0) -> tuple[int, int]:
        return self.master.query("G", "T", queue_id), self.slave.query("G", "T", queue_id)


@pytest.fixture(params=[True, False], ids=["ours", "rocketmq"])
def pair(request: pytest.FixtureRequest) -> Pair:
    """Both know 100 of queue 0."""
    pair = Pair(request.param)
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    return pair


def test_what_was_committed_at_the_slave_reaches_the_master(pair: Pair) -> None:
    pair.slave.commit("G", "T", 0, 150)
    pair.slave.commit("G", "T", 1, 7)
    pair.exchange()
    assert (pair.at_both(0), pair.at_both(1)) == ((150, 150), (7, 7))
    pair.master.commit("G", "T", 0, 160)
    pair.exchange()
    assert pair.at_both() == (160, 160)


def test_what_a_master_took_meanwhile_is_not_taken_back() -> None:
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    pair.slave.commit("G", "T", 0, 150)
    ahead = pair.follow()
    pair.master.commit("G", "T", 0, 170)
    for each in ahead:
        pair.master.catch_up(each, 0)
    assert pair.master.query("G", "T", 0) == 170


def test_offsets_that_a_killed_master_had_not_saved_come_back_from_the_slave() -> None:
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    saved = encoded_table.text(pair.master.document())
    pair.master.commit("G", "T", 0, 150)
    pair.exchange()
    pair.master = ConsumerOffsets()
    pair.master.load(saved)
    pair.exchange()
    assert pair.at_both() == (150, 150)


def test_who_goes_back_at_the_master_goes_back_at_the_slave(pair: Pair) -> None:
    pair.master.commit("G", "T", 0, 20)
    pair.exchange()
    assert pair.at_both() == (20, 20)


@pytest.mark.parametrize("reset_to", [20, 120])
def test_a_reset_counts_for_more_than_what_was_committed_at_the_slave_before(reset_to: int) -> None:
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    pair.slave.commit("G", "T", 0, 150)
    pair.master.assign_reset("G", "T", 0, reset_to)
    pair.exchange()
    assert pair.at_both() == (reset_to, reset_to)


def test_a_reset_between_two_documents_of_one_round_is_not_undone() -> None:
    """The numbers are older than the offsets."""
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    numbers = encoded_table.text(pair.master.set_backs.document())
    pair.master.assign_reset("G", "T", 0, 20)
    for ahead in pair.slave.follow(encoded_table.text(pair.master.document()), numbers, 0):
        pair.master.catch_up(ahead, 0)
        pair.slave.told(ahead)
    pair.exchange()
    assert pair.at_both() == (20, 20)


def test_what_is_committed_while_the_master_is_told_is_told_the_next_time() -> None:
    pair = Pair(is_ours=False)
    pair.slave.commit("G", "T", 0, 150)
    [ahead] = pair.follow()
    pair.slave.commit("G", "T", 0, 160)
    pair.slave.told(ahead)
    assert [each.consumer_offset for each in pair.follow()] == [160]


def test_offsets_of_one_that_clones_smaller_ones_are_set_back() -> None:
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.master.commit("H", "T", 0, 10)
    pair.exchange()
    pair.master.clone("H", "G", "T")
    pair.exchange()
    assert pair.at_both() == (10, 10)


def test_a_group_that_was_deleted_and_used_anew_begins_anew() -> None:
    """It is there again before the slave hears that it was gone."""
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    pair.master.remove_group("G", 1000)
    pair.master.commit("G", "T", 0, 5)
    pair.exchange()
    assert pair.at_both() == (5, 5)
    pair.slave.commit("G", "T", 0, 7)
    pair.exchange()
    assert pair.at_both() == (7, 7)


def test_what_was_committed_at_the_slave_for_a_group_that_was_deleted_is_not_taken() -> None:
    pair = Pair()
    pair.master.commit("G", "T", 0, 100)
    pair.exchange()
    pair.slave.commit("G", "T", 0, 150)
    pair.master.remove_group("G", 1000)
    pair.exchange()
    assert pair.master.query("G", "T", 0) == NOT_FOUND
    pair.master.commit("G", "T", 0, 5)
    pair.exchange()
    assert pair.at_both() == (5, 5)


@pytest.mark.parametrize("is_told_at_once", [True, False])
def test_a_group_that_begins_at_the_slave_after_another_was_deleted_is_taken(is_told_at_once: bool) -> None:
    pair = Pair()
    pair.master.commit("H", "T", 0, 1)
    pair.master.remove_group("H", 1000)
    pair.exchange()
    pair.slave.commit("G", "T", 0, 9)
    if not is_told_at_once:
        assert [each.consumer_offset for each in pair.follow()] == [9]
    pair.exchange()
    assert pair.at_both() == (9, 9)
    pair.slave.commit("G", "T", 0, 12)
    pair.exchange()
    assert pair.at_both() == (12, 12)


def test_who_goes_back_at_the_slave_does_not_undo_who_goes_back_at_the_master() -> None:
    """Each did it once, and the two did not hear of one another."""
    pair = Pair()
    pair.master.commit("G", "T", 0, 100, 1000)
    pair.exchange()
    for consumer_offset in (50, 120):
        pair.slave.commit("G", "T", 0, consumer_offset, 2000)
    pair.master.commit("G", "T", 0, 10, 2001)
    pair.exchange()
    assert pair.at_both() == (10, 10)


def test_offsets_of_a_clone_begin_with_the_last_deletion() -> None:
    offsets = committed()
    offsets.remove_group("H", 1000)
    offsets.clone("G", "Copy", "T")
    assert offsets.set_backs.table == {"T@Copy": {0: 1000, 3: 1000}}


def test_offsets_behind_the_end_of_their_queue_are_lowered_to_it() -> None:
    offsets = committed()
    offsets.lower_to(lambda topic, queue_id: 4 if topic == "T" else 1, 1000)
    assert offsets.table == {"T@G": {0: 4, 3: 4}, "U@G": {0: 1}, "T@H": {0: 2}}
    assert sorted(offsets.set_backs.table) == ["T@G"]       # or slaves would tell the larger ones


def test_a_topic_or_group_that_goes_takes_its_pulls_along_where_nothing_was_committed() -> None:
    offsets = ConsumerOffsets()
    offsets.pulls.note("G", "T", 0, 5)
    offsets.pulls.note("G", "U", 0, 5)
    offsets.remove_topic("T")
    assert [offsets.pulls.of("G", topic, 0) for topic in ("T", "U")] == [NOT_FOUND, 5]
    offsets.remove_group("G")
    assert len(offsets.pulls) == 0
