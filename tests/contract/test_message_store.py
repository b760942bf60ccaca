"""What each message store owes the broker: one suite, run over the file store and the store in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores import NOW, a_message, small_config

from regulus.broker.message_store import MessageStore
from regulus.model.java_hash import tags_code
from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING, Filter
from regulus.model.store_result import GetStatus, PutStatus
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import MemoryStore

Store = FileMessageStore | MemoryStore
FOREVER = 2**62


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    file_store = FileMessageStore(small_config(tmp_path, mapped_file_size_commit_log=8 << 20,
                                               mapped_file_size_consume_queue=20_000))
    file_store.open()
    yield file_store
    file_store.close()


def append(store: Store, count: int, topic: str = "TopicA", queue_id: int = 0) -> list[MessageExt]:
    messages = [a_message(topic, f"body {number}".encode(), queue_id, TAGS=f"T{number % 2}", KEYS=f"k{number} shared",
                          UNIQ_KEY=f"{topic}-{queue_id}-{number}") for number in range(count)]
    for number, message in enumerate(messages):
        assert store.append(message, NOW + number * 10).status is PutStatus.PUT_OK
    store.dispatch(10_000)
    return messages


def read(store: Store, offset: int, count_max: int = 32, bytes_max: int = 1 << 20,
         wanted: Filter = EVERYTHING) -> tuple[GetStatus, int, list[bytes]]:
    result = store.get_message("TopicA", 0, offset, count_max, bytes_max, wanted)
    found = [message.body for buffer in result.buffers for message in message_record.decode_all(buffer)]
    assert (len(found), sum(map(len, result.buffers))) == (result.message_count, result.size)
    assert (result.min_offset, result.max_offset) == (store.min_offset("TopicA", 0), store.max_offset("TopicA", 0))
    return result.status, result.next_begin_offset, found


def test_it_is_a_message_store(store: Store) -> None:
    promised: MessageStore = store
    assert promised.queues() == []


def test_an_append_fills_in_what_only_the_store_knows(store: Store) -> None:
    first, second = a_message(), a_message(body=b"second")
    appended = store.append(first, NOW)
    assert (appended.status, appended.start, appended.end, appended.queue_offset) == (
        PutStatus.PUT_OK, 0, first.store_size, 0)
    appended = store.append(second, NOW + 1)
    assert (appended.start, appended.queue_offset) == (first.store_size, 1)
    assert (second.physical_offset, second.queue_offset, second.store_timestamp) == (first.store_size, 1, NOW + 1)
    assert store.commit_log_max_offset() == appended.end


def test_queues_count_for_themselves(store: Store) -> None:
    append(store, 3)
    append(store, 2, queue_id=1)
    append(store, 1, topic="TopicB")
    assert store.queues() == [("TopicA", 0), ("TopicA", 1), ("TopicB", 0)]
    assert [sorted(store.queue_ids(topic)) for topic in ("TopicA", "TopicB", "TopicC")] == [[0, 1], [0], []]
    assert all(store.has_queue(*queue) for queue in store.queues())
    assert not store.has_queue("TopicA", 2)
    assert [store.max_offset(*queue) for queue in store.queues()] == [3, 2, 1]
    assert store.max_offset("TopicC", 0) == store.min_offset("TopicC", 0) == 0


def test_what_is_not_dispatched_is_not_seen(store: Store) -> None:
    store.append(a_message(), NOW)
    assert store.dispatch_behind_bytes() == store.commit_log_max_offset()
    assert store.max_offset("TopicA", 0) == 0
    assert [tuple(arrival)[:3] for arrival in store.dispatch(1)] == [("TopicA", 0, 0)]
    assert store.dispatch_behind_bytes() == 0


def test_arrivals_of_wanted_queues_only(store: Store) -> None:
    for queue_id in (0, 1):
        store.append(a_message(queue_id=queue_id, colour="red"), NOW)
    arrivals = store.dispatch(10, {("TopicA", 1)}, True)
    assert [(arrival.queue_id, arrival.properties) for arrival in arrivals] == [(1, {"colour": "red"})]


def test_messages_come_back_in_order(store: Store) -> None:
    messages = append(store, 40)
    status, next_offset, found = read(store, 0)
    assert (status, next_offset) == (GetStatus.FOUND, 32)
    assert found + read(store, 32)[2] == [message.body for message in messages]


def test_limits(store: Store) -> None:
    size = append(store, 9)[0].store_size
    assert read(store, 2, count_max=3)[1] == 5
    assert read(store, 0, bytes_max=size * 2)[1] == 2
    assert read(store, 0, bytes_max=1)[1] == 1


def test_filter(store: Store) -> None:
    append(store, 10)
    wanted = Filter(frozenset({tags_code("T1")}))
    assert read(store, 0, wanted=wanted) == (GetStatus.FOUND, 10, [b"body %d" % number for number in (1, 3, 5, 7, 9)])
    assert read(store, 0, count_max=2, wanted=wanted)[1] == 4
    assert read(store, 0, wanted=Filter(frozenset({7}))) == (GetStatus.NO_MATCHED_MESSAGE, 10, [])


class KeysBelow(Filter):
    """Messages whose first key is k0 to k<limit - 1>; remembers whose properties it saw."""

    def __init__(self, tags_codes: frozenset[int] | None, limit: int) -> None:
        super().__init__(tags_codes, reads_properties=True, names=("KEYS",))
        self.limit = limit
        self.seen: list[str] = []

    def matches(self, values: list[str | None]) -> bool:
        assert values[0] is not None
        key = values[0].split()[0]
        self.seen.append(key)
        return int(key[1:]) < self.limit


def test_a_filter_may_look_at_properties(store: Store) -> None:
    append(store, 10)
    assert read(store, 0, wanted=KeysBelow(None, 3)) == (GetStatus.FOUND, 10, [b"body 0", b"body 1", b"body 2"])
    assert read(store, 3, wanted=KeysBelow(None, 3)) == (GetStatus.NO_MATCHED_MESSAGE, 10, [])
    assert read(store, 0, count_max=2, wanted=KeysBelow(None, 9))[1] == 2
    both = KeysBelow(frozenset({tags_code("T1")}), 6)
    assert read(store, 0, wanted=both) == (GetStatus.FOUND, 10, [b"body 1", b"body 3", b"body 5"])
    assert both.seen == ["k1", "k3", "k5", "k7", "k9"]


def test_offsets_outside(store: Store) -> None:
    assert read(store, 0) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, [])
    append(store, 3)
    assert [read(store, offset)[:2] for offset in (-1, 3, 4)] == [
        (GetStatus.OFFSET_TOO_SMALL, 0), (GetStatus.OFFSET_OVERFLOW_ONE, 3), (GetStatus.OFFSET_OVERFLOW_BADLY, 3)]


@pytest.mark.parametrize("message", [
    a_message(topic="t" * 256), a_message(K="v" * 40_000)], ids=["topic", "properties"])
def test_what_breaks_a_limit_is_illegal(store: Store, message: MessageExt) -> None:
    appended = store.append(message, NOW)
    assert appended.status is PutStatus.MESSAGE_ILLEGAL
    assert appended.remark
    assert store.commit_log_max_offset() == 0


def test_a_batch(store: Store) -> None:
    append(store, 1)
    batch = [a_message(body=b"%d" % number) for number in range(3)]
    appended = store.append_batch(batch, NOW)
    assert appended.starts == tuple(message.physical_offset for message in batch)
    assert (appended.start, appended.queue_offset) == (appended.starts[0], 1)
    store.dispatch(10)
    assert read(store, 1)[2] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("batch", [
    [], [a_message(), a_message(topic="Other")], [a_message(sys_flag=4)], [a_message(), a_message(K="v" * 40_000)]],
    ids=["empty", "two queues", "transaction", "properties"])
def test_a_batch_is_stored_whole_or_not_at_all(store: Store, batch: list[MessageExt]) -> None:
    assert store.append_batch(batch, NOW).status is PutStatus.MESSAGE_ILLEGAL
    assert store.commit_log_max_offset() == 0


def test_prepared_messages_are_in_the_log_only(store: Store) -> None:
    offsets = [store.append(a_message(sys_flag=flag), NOW).queue_offset for flag in (4, 0, 12, 8)]
    assert offsets == [0, 0, 0, 1]
    store.dispatch(10)
    assert store.max_offset("TopicA", 0) == 2


def test_a_delayed_message_carries_its_delivery_time(store: Store) -> None:
    store.append(a_message("SCHEDULE_TOPIC_XXXX", TAGS="T", DELAY="3"), NOW)
    assert store.dispatch(1)[0].tags_code == NOW + 10_000
    assert store.queue_units("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0].tags_code == NOW + 10_000


def test_units(store: Store) -> None:
    messages = append(store, 5)
    units = store.queue_units("TopicA", 0, 1, 3)
    assert [(unit.queue_offset, unit.physical_offset, unit.size) for unit in units] == [
        (number, messages[number].physical_offset, messages[number].store_size) for number in (1, 2, 3)]
    assert store.queue_units("TopicA", 0, 5, 3) == store.queue_units("TopicB", 0, 0, 3) == []


def test_records_by_offset(store: Store) -> None:
    message = append(store, 3)[1]
    found = store.look_message(message.physical_offset)
    assert found is not None
    assert (found.body, found.queue_offset) == (message.body, 1)
    head = store.look_head(message.physical_offset)
    assert head is not None
    assert (head.body, head.properties, head.queue_offset) == (b"", message.properties, 1)
    data = store.record_bytes(message.physical_offset)
    assert data is not None
    assert bytes(data) == message_record.encode(message)
    for offset in (-1, message.physical_offset + 1, store.commit_log_max_offset()):
        assert store.look_message(offset) is None
        assert store.look_head(offset) is None


def test_times(store: Store) -> None:
    assert store.earliest_store_timestamp() == -1
    append(store, 3)
    assert store.earliest_store_timestamp() == NOW
    assert [store.store_timestamp("TopicA", 0, offset) for offset in (0, 2, 3)] == [NOW, NOW + 20, -1]
    times = (NOW - 1, NOW, NOW + 5, NOW + 10, NOW + 20, NOW + 25)
    assert [store.offset_by_time("TopicA", 0, time) for time in times] == [0, 0, 1, 1, 2, 3]
    assert [store.offset_by_time("TopicA", 0, time, True) for time in times] == [0, 0, 0, 1, 2, 2]


def test_keys(store: Store) -> None:
    messages = append(store, 5)
    for key, expected in (("k3", messages[3:4]), ("TopicA-0-2", messages[2:3]), ("shared", messages), ("none", [])):
        result = store.query_message("TopicA", key, 32, 0, FOREVER)
        assert [bytes(buffer) for buffer in result.buffers] == [message_record.encode(message) for message in expected]
    assert len(store.query_message("TopicA", "shared", 2, 0, FOREVER).buffers) == 2
    assert result.index_last_update_physical_offset == messages[4].physical_offset


def test_hits_are_read_page_by_page_though_their_times_are_the_same(store: Store) -> None:
    messages = append(store, 5)
    found: list[int] = []
    before = FOREVER
    while page := store.query_message("TopicA", "shared", 2, 0, FOREVER, before).buffers:
        offsets = [message_record.decode(data).physical_offset for data in page]
        assert len(offsets) <= 2
        found[:0] = offsets
        before = offsets[0]
    assert found == [message.physical_offset for message in messages]


def test_a_deleted_topic_begins_anew(store: Store) -> None:
    append(store, 3)
    end = store.commit_log_max_offset()
    store.delete_topic("TopicA")
    assert store.queues() == []
    assert store.append(a_message(), NOW).queue_offset == 0
    assert store.commit_log_min_offset() == 0
    assert store.commit_log_max_offset() > end


def test_what_is_not_visible_yet_goes_with_its_topic(store: Store) -> None:
    for number in range(3):
        store.append(a_message(body=b"old %d" % number), NOW)
    store.delete_topic("TopicA")
    for number in range(2):
        assert store.append(a_message(body=b"new %d" % number), NOW).queue_offset == number
    store.dispatch(1000)
    assert read(store, 0) == (GetStatus.FOUND, 2, [b"new 0", b"new 1"])


def test_the_log_is_searched_for_a_text(store: Store) -> None:
    wanted = []
    for number in range(20):
        message = a_message(body=b"b" * 100, **({"MARK": str(number)} if number % 3 else {"OTHER": "MARK"}))
        store.append(message, NOW)
        if number % 3:
            wanted.append(message)
    found = list(store.messages_holding(b"MARK\x01", 0))
    assert [each.properties["MARK"] for each in found] == [each.properties["MARK"] for each in wanted]
    assert [each.physical_offset for each in found] == [each.physical_offset for each in wanted]
    start = wanted[7].physical_offset
    assert len(list(store.messages_holding(b"MARK\x01", start))) == len(wanted) - 7
    assert list(store.messages_holding(b"MARK\x01", store.commit_log_max_offset())) == []


def test_a_search_goes_on_in_the_next_file(tmp_path: Path) -> None:
    store = FileMessageStore(small_config(tmp_path))
    store.open()
    places = []
    for number in range(30):
        message = a_message(body=b"b" * 700, MARK=str(number))
        assert store.append(message, NOW).status is PutStatus.PUT_OK
        places.append(message.physical_offset)
    assert places[-1] > 4096 * 3
    assert [each.physical_offset for each in store.messages_holding(b"MARK\x01", 0)] == places
    store.close()
