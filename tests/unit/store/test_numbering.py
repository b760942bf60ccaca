"""Which record of the log goes where in a queue that is built anew."""

from collections.abc import Sequence

import pytest

from regulus.errors import StoreNotWritable
from regulus.model.sys_flag import TRANSACTION_PREPARED
from regulus.record.dispatch_request import DispatchRequest
from regulus.store.numbering import HELD_MAX, TOLD_MAX, Numbering

ROTTEN = 1 << 40


def a_request(number: int, queue_offset: int, topic: str = "T", sys_flag: int = 0,
              message_count: int = 1) -> DispatchRequest:
    """The record that is the `number`-th in the log."""
    request = DispatchRequest(100)
    request.topic, request.queue_offset, request.physical_offset = topic, queue_offset, number * 100
    request.sys_flag, request.message_count = sys_flag, message_count
    return request


def numbered(offsets: list[int], known_end: int = 0, is_log_whole: bool = True,
             birth: int = 0, counts: Sequence[int] = (), known_at: int = 1000) -> tuple[dict[int, int], list[str]]:
    """Which number in the log goes to which queue offset, in the order in which they are put; and what is told. The end
    was known before the record `known_at`."""
    placed: dict[int, int] = {}

    def put(request: DispatchRequest) -> None:
        placed[request.physical_offset // 100] = request.queue_offset

    numbering = Numbering({("T", 0): known_end}, {("T", 0): birth * 100}, known_at=known_at * 100,
                          log_start=0 if is_log_whole else 1, put=put)
    for number, offset in enumerate(offsets):
        numbering.take(a_request(number, offset, message_count=counts[number] if counts else 1))
    numbering.end()
    assert [*placed] == sorted(placed)
    return placed, [sentence.removeprefix("queue 0 of T: ") for sentence in numbering.sentences()]


@pytest.mark.parametrize("offsets", [[], [0], [0, 1, 2, 3]])
def test_records_that_follow_are_put_without_a_word(offsets: list[int]) -> None:
    assert numbered(offsets) == (dict(enumerate(offsets)), [])


@pytest.mark.parametrize("said", [0, 1, 2, 4, 5, 77, ROTTEN, -1])
@pytest.mark.parametrize(("place", "known_end"), [(3, 0), (3, 7), (0, 7), (6, 7), (0, 0)])
def test_a_record_between_two_neighbours_goes_between_them(said: int, place: int, known_end: int) -> None:
    """For the last record the known end is one."""
    if said == place:
        return
    offsets = [0, 1, 2, 3, 4, 5, 6]
    offsets[place] = said
    placed, (told,) = numbered(offsets, known_end)
    assert placed == dict(enumerate(range(7)))
    assert f"the record at {place * 100} of the log is damaged" in told
    assert f"it is message {said} and lies where {place} does" in told


def test_several_records_between_two_neighbours_go_between_them() -> None:
    placed, told = numbered([0, 9, 3, ROTTEN, 4, 5])
    assert placed == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert len(told) == 3


@pytest.mark.parametrize("said", [0, 4, 9, ROTTEN, -1])
def test_a_record_for_which_its_neighbours_have_no_room_is_left_out(said: int) -> None:
    """Its topic or queue id is rotten, and it is of another queue."""
    placed, (told,) = numbered([0, 1, 2, said, 3, 4, 5])
    assert placed == {0: 0, 1: 1, 2: 2, 4: 3, 5: 4, 6: 5}
    assert told.startswith(f"the record at 300 of the log says that it is message {said}, and those before and behind")
    placed, (told,) = numbered([0, 1, 2, said, 3])
    assert placed == {0: 0, 1: 1, 2: 2, 4: 3}


def test_records_that_are_gone_leave_a_gap_that_is_told() -> None:
    placed, told = numbered([0, 1, 60, 61, 63, 64])
    assert placed == {0: 0, 1: 1, 2: 60, 3: 61, 4: 63, 5: 64}
    assert told == ["the log has no record of messages 2 to 59; they are passed over",
                    "the log has no record of messages 62 to 62; they are passed over"]


def test_a_topic_that_was_made_anew_begins_at_0_without_a_word() -> None:
    assert numbered([0, 1, 2, 0, 1]) == ({0: 0, 1: 1, 2: 2, 3: 0, 4: 1}, [])
    assert numbered([0, 0, 1, 2]) == ({0: 0, 1: 0, 2: 1, 3: 2}, [])
    assert numbered([0, 1, 2, 0], known_end=1) == ({0: 0, 1: 1, 2: 2, 3: 0}, [])
    assert numbered([0, 1, 2, 0]) == ({0: 0, 1: 1, 2: 2, 3: 0}, [])


def test_a_last_record_that_says_0_hides_nothing_where_the_queue_had_more() -> None:
    placed, told = numbered([0, 1, 2, 3, 0], known_end=4)
    assert placed == {0: 0, 1: 1, 2: 2, 3: 3}
    assert len(told) == 1
    assert "at 400 of the log says that it is message 0" in told[0]


@pytest.mark.parametrize("count", [1, 3])
def test_what_came_after_all_that_was_known_may_be_the_only_one_of_a_topic_made_anew(count: int) -> None:
    assert numbered([0, 1, 2, 3, 0], known_end=4, known_at=4, counts=[1, 1, 1, 1, count]) == \
        ({0: 0, 1: 1, 2: 2, 3: 3, 4: 0}, [])
    assert numbered([0, 1, 2, 3, 0], known_end=3, known_at=3) == ({0: 0, 1: 1, 2: 2, 3: 3, 4: 0}, [])


def test_where_messages_that_were_known_are_gone_the_last_record_is_not_the_first_of_a_new_topic() -> None:
    """It may be one of them."""
    placed, told = numbered([0, 1, 2, 3, 0], known_end=9, known_at=4)
    assert placed == {0: 0, 1: 1, 2: 2, 3: 3}
    assert [sentence[:40] for sentence in told] == ["the record at 400 of the log says that i",
                                                    "the log has no record of messages 4 to 8"]


def test_a_log_that_begins_later_may_begin_with_any_number() -> None:
    assert numbered([50, 51, 52], is_log_whole=False) == ({0: 50, 1: 51, 2: 52}, [])
    assert numbered([50], is_log_whole=False) == ({0: 50}, [])


@pytest.mark.parametrize("known_end", [0, 53])
@pytest.mark.parametrize("said", [0, 7, 49, 52, 53, 77, ROTTEN, -1])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_rotten_number_hides_no_neighbour_where_a_log_begins_later(place: int, said: int, known_end: int) -> None:
    offsets = [50, 51, 52] if known_end else [50, 51, 52, 53, 54]
    if offsets[place] == said or (place, said) == (0, 49):
        return
    offsets[place] = said
    placed, (told,) = numbered(offsets, known_end, is_log_whole=False)
    assert placed == {number: 50 + number for number in range(len(offsets))}
    assert f"it is message {said} and lies where {50 + place} does" in told


COUNTS = 3, 2, 4, 5, 3
"""Of messages in the records of a topic of `queue.type=BatchCQ`."""


@pytest.mark.parametrize("first", [0, 50])
@pytest.mark.parametrize("is_end_known", [True, False])
@pytest.mark.parametrize("said", [2, 7, 49, 77, ROTTEN, -1])
@pytest.mark.parametrize("place", range(5))
def test_records_of_many_messages_leave_room_for_all_of_them(place: int, said: int, is_end_known: bool,
                                                             first: int) -> None:
    offsets = [first + sum(COUNTS[:number]) for number in range(5)]
    if (place >= 3 and not is_end_known) or (place, said, first) == (0, 49, 50):
        return
    wrong = [*offsets]
    wrong[place] = said
    placed, (told,) = numbered(wrong, first + 17 if is_end_known else 0, is_log_whole=not first, counts=COUNTS)
    assert placed == dict(enumerate(offsets))
    assert f"it is message {said} and lies where {offsets[place]} does" in told


@pytest.mark.parametrize(("lost", "is_log_whole"), [(1, True), (2, True), (3, True), (2, False), (3, False)])
def test_where_one_of_many_messages_is_missing_the_others_stay(lost: int, is_log_whole: bool) -> None:
    offsets = [sum(COUNTS[:number]) for number in range(5)]
    upto = offsets[lost] + COUNTS[lost] - 1
    left = [number for number in range(5) if number != lost]
    placed, told = numbered([offsets[number] for number in left], 17, is_log_whole=is_log_whole,
                            counts=[COUNTS[number] for number in left])
    assert [*placed.values()] == [offsets[number] for number in left]
    assert told == [f"the log has no record of messages {offsets[lost]} to {upto}; they are passed over"]


@pytest.mark.parametrize("said", [7, 77, ROTTEN, -1])
def test_behind_a_gap_records_of_many_messages_leave_room_as_well(said: int) -> None:
    placed, told = numbered([0, 5, 9, said, 17], counts=(3, 4, 5, 3, 2))
    assert placed == {0: 0, 1: 5, 2: 9, 3: 14, 4: 17}
    assert [sentence.split(" ")[0] for sentence in told] == ["the", "the"]
    assert told[0] == "the log has no record of messages 3 to 4; they are passed over"
    assert f"it is message {said} and lies where 14 does" in told[1]


def test_where_a_log_begins_later_one_message_between_two_records_may_be_missing() -> None:
    placed, told = numbered([49, 53, 55], is_log_whole=False, counts=(3, 2, 4))
    assert placed == {0: 49, 1: 53, 2: 55}
    assert told == ["the log has no record of messages 52 to 52; they are passed over"]


@pytest.mark.parametrize("said", [0, 11, ROTTEN, -1])
def test_a_record_of_another_queue_hides_no_neighbour_of_many_messages(said: int) -> None:
    placed, (told,) = numbered([5, said, 8, 10], is_log_whole=False, counts=(3, 2, 2, 1))
    assert placed == {0: 5, 2: 8, 3: 10}
    assert told.startswith(f"the record at 100 of the log says that it is message {said}, and those before")


def test_the_only_record_of_many_messages_may_be_the_last_but_one() -> None:
    placed, told = numbered([49], known_end=54, is_log_whole=False, counts=(4,))
    assert placed == {0: 49}
    assert told == ["the log has no record of messages 53 to 53; they are passed over"]


def test_a_record_that_is_missing_moves_no_neighbour_where_a_log_begins_later() -> None:
    placed, told = numbered([49, 51, 52, 53], is_log_whole=False)
    assert placed == {0: 49, 1: 51, 2: 52, 3: 53}
    assert told == ["the log has no record of messages 50 to 50; they are passed over"]


@pytest.mark.parametrize("said", [0, 11, ROTTEN, -1])
def test_a_record_of_another_queue_hides_no_neighbour_where_a_log_begins_later(said: int) -> None:
    placed, (told,) = numbered([5, said, 6, 7], is_log_whole=False)
    assert placed == {0: 5, 2: 6, 3: 7}
    assert told.startswith(f"the record at 100 of the log says that it is message {said}, and those before")


def test_the_only_record_behind_the_log_s_beginning_may_be_the_last_but_one() -> None:
    placed, told = numbered([49], known_end=51, is_log_whole=False)
    assert placed == {0: 49}
    assert told == ["the log has no record of messages 50 to 50; they are passed over"]


def test_the_only_record_behind_the_log_s_beginning_is_the_last_that_is_known() -> None:
    placed, (told,) = numbered([7], known_end=51, is_log_whole=False)
    assert placed == {0: 50}
    assert "it is message 7 and lies where 50 does" in told
    assert numbered([50, 0, 0], known_end=53, is_log_whole=False)[0] == {0: 50, 1: 51, 2: 52}
    assert numbered([77], known_end=51, is_log_whole=False) == ({0: 77}, [])


@pytest.mark.parametrize("is_log_whole", [True, False])
@pytest.mark.parametrize("offsets", [[ROTTEN, 1, 2], [0, ROTTEN, 2], [0, 1, ROTTEN], [1, 2], [0, 2], [0, 1]])
def test_what_lies_before_the_queue_was_last_deleted_is_not_its_own(offsets: list[int], is_log_whole: bool) -> None:
    placed, (told,) = numbered([*range(9), *offsets], known_end=3, is_log_whole=is_log_whole, birth=9)
    is_missing = len(offsets) < 3
    assert placed == {9 + number: offset if is_missing else number for number, offset in enumerate(offsets)}
    assert ("the log has no record" if is_missing else f"it is message {ROTTEN}") in told


def test_the_first_record_behind_a_deletion_counts() -> None:
    """It begins where the log ended then."""
    assert numbered([0, 1], birth=1) == ({1: 1}, ["the log has no record of messages 0 to 0; they are passed over"])


def test_numbers_that_came_before_are_told() -> None:
    placed, (told,) = numbered([0, 1, 2, 3, 4, 2, 3, 4, 5])
    assert placed == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 2, 6: 3, 7: 4, 8: 5}
    assert told.startswith("the record at 500 of the log says that it is message 2, which came before")


def test_what_the_log_lacks_at_the_end_is_told() -> None:
    assert numbered([0, 1], known_end=5)[1] == ["the log has no record of messages 2 to 4; they are passed over"]
    assert numbered([], known_end=5, is_log_whole=False)[1] == []


def test_a_last_record_that_follows_nothing_is_believed_and_told() -> None:
    placed, told = numbered([0, 1, 9])
    assert placed == {0: 0, 1: 1, 2: 9}
    assert told == ["the log has no record of messages 2 to 8; they are passed over"]


def test_no_more_records_are_held_than_that() -> None:
    numbering = Numbering({("T", 0): 0}, {}, known_at=0, log_start=0, put=lambda request: None)
    for number in range(HELD_MAX + 30):
        numbering.take(a_request(number, 1000 + 2 * number))
    assert numbering.held_from == 3000
    sentences = list(numbering.sentences())
    assert len(sentences) == TOLD_MAX + 1
    assert sentences[TOLD_MAX].startswith("10 more places")


def test_halves_and_other_queues_do_not_count() -> None:
    placed: list[int] = []
    numbering = Numbering({("T", 0): 3}, {}, known_at=0, log_start=0,
                          put=lambda request: placed.append(request.queue_offset))
    for request in (a_request(0, 0), a_request(1, 0, sys_flag=TRANSACTION_PREPARED), a_request(2, 7, topic="U"),
                    a_request(3, 1), a_request(4, 2)):
        numbering.take(request)
    numbering.end()
    assert placed == [0, 1, 2]
    assert [*numbering.sentences()] == []


def test_what_finds_no_room_is_still_held() -> None:
    def put(request: DispatchRequest) -> None:
        raise StoreNotWritable("full")

    numbering = Numbering({("T", 0): 0}, {}, known_at=0, log_start=0, put=put)
    numbering.take(a_request(3, 5))
    numbering.take(a_request(4, 7))
    with pytest.raises(StoreNotWritable):
        numbering.take(a_request(5, 2))
    assert numbering.held_from == 300


def test_what_is_believed_at_the_end_and_finds_no_room_is_still_held() -> None:
    def put(request: DispatchRequest) -> None:
        raise StoreNotWritable("full")

    numbering = Numbering({("T", 0): 0}, {}, known_at=0, log_start=0, put=put)
    numbering.take(a_request(3, 5))
    with pytest.raises(StoreNotWritable):
        numbering.end()
    assert numbering.held_from == 300
