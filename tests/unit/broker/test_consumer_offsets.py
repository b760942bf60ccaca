"""What each group has consumed."""

from collections.abc import Iterator

from regulus.broker.consumer_offsets import NOT_FOUND, ConsumerOffsets
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
