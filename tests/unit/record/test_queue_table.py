import pytest

from regulus.errors import CorruptRecord
from regulus.record import queue_table
from regulus.record.queue_table import bounds
from regulus.record.synced_mark import SyncedMark

MARK = SyncedMark(4096, 120, 1_700_000_000_000, 2_368_364_337)
QUEUES = [("TopicA", 0, 3, 40), ("TopicA", 7, 0, 1), ("TopicB", 0, 0, 25)]
WHOLE = queue_table.encode(4216, MARK, 4096, [("20231114221320000", 4000)], QUEUES, [("TopicA", 7)])


def test_a_table_comes_back() -> None:
    table = queue_table.decode(WHOLE)
    assert (table.position, table.mark, table.faulty) == (4216, MARK, [("TopicA", 7)])
    assert table.index == {"20231114221320000": 4000}
    assert [(topic, queue_id, *bounds(text)) for topic, queues in table.queues.items()
            for queue_id, text in queues.items()] == QUEUES


def test_what_is_no_whole_table_is_told() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(CorruptRecord):
            queue_table.decode(WHOLE[:size])
    body = WHOLE.index(b"\n")
    for place in range(body, len(WHOLE)):
        with pytest.raises(CorruptRecord):
            queue_table.decode(WHOLE[:place] + bytes((WHOLE[place] ^ 1,)) + WHOLE[place + 1:])


def test_topics_of_which_a_queue_was_deleted_are_not_in_it_any_more() -> None:
    gone = queue_table.encode_gone("TopicA", 0, 500)
    assert set(queue_table.decode(WHOLE + gone).queues) == {"TopicB"}
    assert queue_table.decode(WHOLE + gone).births == {("TopicA", 0): 500}
    assert queue_table.decode(WHOLE + gone[:-1]).births == {}
    assert set(queue_table.decode(WHOLE + gone[:10]).queues) == {"TopicA", "TopicB"}


def test_where_the_log_begins_is_what_was_said_last() -> None:
    assert queue_table.decode(WHOLE).log_start == 4096
    later = queue_table.encode_log_start(8192)
    assert queue_table.decode(WHOLE + later).log_start == 8192
    assert queue_table.decode(WHOLE + later[:-1]).log_start == 4096
    assert set(queue_table.decode(WHOLE + later).queues) == {"TopicA", "TopicB"}


def test_a_line_that_was_added_behind_one_that_was_cut_short_is_passed_over() -> None:
    cut = queue_table.encode_log_start(4096)[:-2]
    for line in (queue_table.encode_gone("TopicB", 0, 500), queue_table.encode_log_start(8192)):
        table = queue_table.decode(WHOLE + cut + line)
        assert (table.log_start, set(table.queues)) == (4096, {"TopicA", "TopicB"})


@pytest.mark.parametrize("number", ["\u00b2", "\u0663", "9" * 40, "-1", ""])
def test_a_line_with_what_is_no_number_is_passed_over(number: str) -> None:
    lines = f"born 0 {number} TopicB\nborn {number} 5 TopicB\nlog {number}\n".encode()
    assert queue_table.decode(WHOLE + lines).births == {}
    assert queue_table.decode(WHOLE + lines).log_start == 4096
