"""Many messages of a queue at a time."""

from dataclasses import replace

import pytest

from regulus.broker.handlers import bulk_pull as handler
from regulus.broker.handlers.bulk_pull import BULK_COUNT_MAX
from regulus.model import permission
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import BulkPullRequest, BulkPullResponse
from regulus.wire.headers.bulk_pull import BOUNDS_OF_ALL, QUEUE_BOUNDS


def bulk_pull(rig, start, end, size_max=1 << 20, *, topic="TopicA", queue_id=0, expression=None):
    header = BulkPullRequest(topic=topic, queue_id=queue_id, queue_offset=start, queue_offset_end=end,
                             size_max=size_max, expression=expression)
    return rig.ask(RequestCode.BULK_PULL, header.ext())


def offsets(answer):
    return [message.queue_offset for message in message_record.decode_all(answer.body)] if answer.body else []


@pytest.fixture
def filled(rig):
    for number in range(10):
        rig.send(body=b"x" * 100, properties={"TAGS": f"Tag{number % 2}"})
    return rig


def test_a_range_of_a_queue(filled):
    answer = bulk_pull(filled, 2, 7)
    place = BulkPullResponse.decode(answer)
    assert offsets(answer) == [2, 3, 4, 5, 6]
    assert (place.next_offset, place.min_offset, place.max_offset) == (7, 0, 10)
    assert place.topic_epoch == filled.now_ms


def test_the_size_bounds_an_answer_but_never_to_nothing(filled):
    record = len(bulk_pull(filled, 0, 1).body)
    answer = bulk_pull(filled, 0, 10, 2 * record + 1)
    assert offsets(answer) == [0, 1]
    assert BulkPullResponse.decode(answer).next_offset == 2
    assert offsets(bulk_pull(filled, 0, 10, 1)) == [0]


def test_no_size_asks_for_the_state_of_the_queue(filled):
    answer = bulk_pull(filled, 3, 10, 0)
    place = BulkPullResponse.decode(answer)
    assert (answer.body, place.next_offset, place.max_offset) == (b"", 3, 10)


def test_the_state_of_all_queues_from_one_on(filled, monkeypatch):
    filled.send(body=b"y", queue_id=2)
    nums = filled.broker.topics.get("TopicA").read_queue_nums
    assert nums > 3

    def bounds(queue_id):
        return list(QUEUE_BOUNDS.iter_unpack(bulk_pull(filled, 0, BOUNDS_OF_ALL, 0, queue_id=queue_id).body))

    assert bounds(0) == [(0, 10), (0, 0), (0, 1)] + [(0, 0)] * (nums - 3)
    assert bounds(2) == bounds(0)[2:]
    monkeypatch.setattr(handler, "BOUNDS_COUNT_MAX", 2)
    assert bounds(1) == [(0, 0), (0, 1)]
    assert bulk_pull(filled, 0, BOUNDS_OF_ALL, 0, queue_id=nums).code == ResponseCode.INVALID_PARAMETER


def test_tags_are_chosen_by_the_broker(filled):
    answer = bulk_pull(filled, 0, 10, expression="Tag1")
    assert offsets(answer) == [1, 3, 5, 7, 9]
    assert BulkPullResponse.decode(answer).next_offset == 10


@pytest.mark.parametrize("start", [10, 12])
def test_nothing_behind_the_end(filled, start):
    answer = bulk_pull(filled, start, start + 5)
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    assert BulkPullResponse.decode(answer).next_offset == start


def test_no_more_than_a_turn_allows(filled):
    asked = []
    get_message = filled.store.get_message

    def watched(topic, queue_id, queue_offset, count_max, bytes_max, message_filter):
        asked.append((count_max, bytes_max))
        return get_message(topic, queue_id, queue_offset, count_max, bytes_max, message_filter)

    filled.store.get_message = watched
    bulk_pull(filled, 0, 1 << 40, (1 << 31) - 1)
    assert asked == [(BULK_COUNT_MAX, 4 << 20)]


@pytest.mark.parametrize(("change", "code"), [
    ({"topic": "none"}, ResponseCode.TOPIC_NOT_EXIST), ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
    ({"queue_id": -1}, ResponseCode.INVALID_PARAMETER),
])
def test_what_is_not_there_is_refused(filled, change, code):
    assert bulk_pull(filled, 0, 1, **change).code == code


def test_a_topic_that_may_not_be_read(filled):
    topic = replace(filled.broker.topics.get("TopicA"), perm=permission.WRITE)
    filled.broker.topics.put(topic, filled.now_ms)
    assert bulk_pull(filled, 0, 1).code == ResponseCode.NO_PERMISSION


def test_a_topic_made_again_has_another_epoch(filled):
    first = BulkPullResponse.decode(bulk_pull(filled, 0, 1)).topic_epoch
    filled.broker.topics.delete("TopicA", filled.now_ms)
    filled.send()
    assert BulkPullResponse.decode(bulk_pull(filled, 0, 1)).topic_epoch > first
