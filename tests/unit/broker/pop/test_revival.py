"""What was popped comes again, whatever stands in the revive topic and whatever the store can do."""

from dataclasses import replace

import pytest

from regulus.broker.pop import revival as pop_revival
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.store_result import Appended, PutStatus, QueueUnit
from regulus.model.topics import TIMER_TOPIC, SubscriptionGroupConfig, TopicConfig
from regulus.record.pop_record import REVIVE_GROUP, CheckpointKey, PopCheckpoint, decode_checkpoint
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import DeleteSubscriptiongroupRequest, DeleteTopicInBrokerRequest
from tests.unit.broker.pop_rig import HOST, NOW, Rig, bodies

HOSTILE = [b"", b"null", b"[" * 100_000, b'{"so":1e999,"n":1,"t":"T","c":"G","q":0,"pt":1,"it":1}',
           b'{"so":1,"n":1e999,"t":"T","c":"G","q":0,"pt":1,"it":1}',
           b'{"so":1,"n":4611686018427387904,"t":"T","c":"G","q":0,"pt":1,"it":1}',
           b'{"so":9223372036854775807,"n":2,"t":"T","c":"G","q":0,"pt":1,"it":1}',
           b'{"so":0,"n":1,"t":"T","c":"G","q":2147483648,"pt":1,"it":1}',
           b'{"so":0,"n":1,"t":"../T","c":"G","q":0,"pt":1,"it":1}', b'{"so":0,"n":1,"bm":Infinity}']


def checkpoint(offset: int, pop_time: int = NOW - 20_000, invisible: int = 10_000, **fields: object) -> PopCheckpoint:
    return PopCheckpoint(key=CheckpointKey("T", "G", 0, offset, pop_time), broker_name="broker-a",
                         invisible_time=invisible, offsets=(offset,), **fields)


def left(rig: Rig) -> list[str]:
    """All that pops give now."""
    found: list[str] = []
    while popped := rig.pop(invisible=3_600_000):
        found += bodies(popped)
    return sorted(found)


def test_a_revive_queue_with_more_checkpoints_than_are_kept_is_revived_to_its_end(monkeypatch):
    """Also acks count that lie behind those that are not kept yet; none of them is known in memory."""
    monkeypatch.setattr(pop_revival, "PENDING_MAX", 3)
    monkeypatch.setattr(pop_revival, "READ_AT_ONCE_MAX", 1)
    monkeypatch.setattr(pop_revival, "READ_PER_TICK_MAX", 2)
    rig = Rig()
    rig.send(*[f"m{number:03}" for number in range(160)])
    popped = [rig.pop(count=2, invisible=10_000) for _ in range(80)]
    rig.run_to(NOW + 5_000)
    for _, (_, handle) in popped:
        rig.ack(handle)
    rig.run_to(NOW + 7_000)
    rig = rig.restarted(is_killed=True)
    assert left(rig) == []
    rig.run_to(NOW + 20_000)
    assert left(rig) == [f"m{number:03}" for number in range(0, 160, 2)]
    topic = rig.broker.pop_flights.revive_topic
    for queue_id in range(8):
        done = rig.broker.consumer_offsets.query(REVIVE_GROUP, topic, queue_id)
        assert done == rig.store.max_offset(topic, queue_id) - 1


def test_what_is_read_in_one_look_grows_with_no_queue(monkeypatch):
    """A queue that is full of what is not due is not read again and again."""
    monkeypatch.setattr(pop_revival, "PENDING_MAX", 8)
    rig = Rig()
    for number in range(600):
        rig.note(checkpoint(number, NOW, 60_000).encode())
    rig.run_to(NOW + 10_000)
    looks = []
    monkeypatch.setattr(rig.store, "look_message", lambda place: looks.append(place))
    rig.broker.pop_revival.tick(HOST, rig.now_ms, is_v2=False)
    assert len(looks) == 0


def test_a_full_queue_in_which_nothing_is_due_lets_the_broker_rest(monkeypatch):
    monkeypatch.setattr(pop_revival, "PENDING_MAX", 2)
    rig = Rig()
    for number in range(3):
        rig.note(checkpoint(number, NOW, 60_000).encode())
    rig.run_to(NOW + 1_000)
    assert rig.broker.pop_revival.tick(HOST, rig.now_ms, is_v2=False) == pop_revival.POLL_MS


def test_a_damaged_revive_queue_stops_no_other_and_no_tick():
    rig = Rig()
    rig.send(*[f"m{number}" for number in range(16)])
    for _ in range(16):
        rig.pop(count=1, invisible=10_000)
    topic = rig.broker.pop_flights.revive_topic
    rig.run_to(NOW + 9_500)
    kept = len(rig.shown(topic, 3))
    assert kept
    rig.store.damaged[topic, 3] = "queue 3 is torn"
    rig.run_to(NOW + 12_000)
    assert rig.told() == {pop_revival.DAMAGED: ["queue 3 is torn"]}
    assert len(left(rig)) == 16 - kept
    rig.store.damaged.clear()
    rig.run_to(NOW + 13_000)
    assert len(left(rig)) == kept


def test_a_damaged_queue_of_messages_keeps_only_them():
    rig = Rig()
    rig.send("a")
    rig.send("b", queue_id=1)
    rig.pop(queue_id=0, invisible=10_000)
    rig.pop(queue_id=1, invisible=10_000)
    rig.store.damaged["T", 0] = "queue 0 is torn"
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop(queue_id=1)) == ["b"]
    ((kind, (place,)),) = rig.told().items()
    assert (kind, place) == (pop_revival.PUT_BACK, "offset 0 of T, queue 0: queue 0 is torn")
    rig.store.damaged.clear()
    rig.run_to(NOW + 12_000 + 10_000)
    assert bodies(rig.pop(queue_id=0)) == ["a"]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda each: repr(each[:60]))
@pytest.mark.parametrize("tag", ["ck", "ack", "bAck"])
def test_a_record_that_nobody_of_us_wrote_is_told_and_stops_nothing(body, tag):
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    for queue_id in range(8):
        rig.note(body, queue_id, tag)
    rig.run_to(NOW + 12_000)
    assert pop_revival.UNREADABLE in rig.told()
    assert left(rig) == ["a"]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda each: repr(each[:60]))
def test_a_start_passes_by_a_record_that_nobody_of_us_wrote(body):
    rig = Rig()
    rig.send("a")
    rig.broker.documents()
    rig.note(body)
    rig.pop(invisible=10_000)
    rig = rig.restarted(is_killed=True)
    assert rig.pop() == []


def large(room: int) -> dict[str, str]:
    """Properties with so many bytes left."""
    bare = len(names.format({"UNIQ_KEY": "a", "X": ""}).encode()) + len("X") + 2
    return {"UNIQ_KEY": "a", "X": "x" * (names.PROPERTIES_SIZE_MAX - bare - room)}


@pytest.mark.parametrize("room", [0, 3, 20, 60, 120])
def test_a_message_without_room_for_a_receipt_is_a_dead_letter_and_not_lost(room):
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", large(room), 0, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.settle()
    assert bodies(rig.pop(invisible=10_000)) == ["a"]
    rig.run_to(NOW + 12_000)
    assert rig.pop() == []
    (letter,) = rig.shown("%DLQ%G")
    assert letter.body == b"a"


def test_a_message_with_room_for_its_receipt_comes_again():
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", large(300), 0, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.settle()
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]


class Choosy(MemoryStore):
    """Takes what waits, and no message of these topics."""

    def __init__(self) -> None:
        super().__init__()
        self.illegal: tuple[str, ...] = ()

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if message.topic.startswith(self.illegal):
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark="too large")
        return super().append(message, now_ms)


def test_a_message_that_no_topic_takes_waits_longer_and_is_told():
    store = Choosy()
    rig = Rig(store)
    rig.send("a")
    rig.pop(invisible=10_000)
    store.illegal = ("%",)
    rig.run_to(NOW + 12_000)
    assert rig.told() == {pop_revival.REFUSED: ["offset 0 of T, queue 0"]}
    store.illegal = ()
    rig.run_to(NOW + 30_000)
    assert left(rig) == ["a"]


def test_what_is_gone_is_told(monkeypatch):
    rig = Rig()
    rig.send("a", "b")
    place = rig.store.queue_units("T", 0, 0, 1)[0].physical_offset
    rig.pop(invisible=10_000)
    look = rig.store.look_message
    monkeypatch.setattr(rig.store, "look_message", lambda where: None if where == place else look(where))
    rig.run_to(NOW + 12_000)
    assert rig.told() == {pop_revival.GONE: ["offset 0 of T, queue 0"]}
    assert left(rig) == ["b"]


def test_no_revive_queue_waits_for_the_rest_of_another(monkeypatch):
    monkeypatch.setattr(pop_revival, "REVIVED_PER_TICK_MAX", 1)
    rig = Rig()
    rig.send(*[f"m{number:02}" for number in range(41)])
    for number in range(40):
        rig.note(checkpoint(number).encode(), queue_id=0)
    rig.note(checkpoint(40).encode(), queue_id=1)
    rig.pop(count=32)
    rig.pop(count=32)
    rig.run_to(NOW + 500, step=250)      # the timers have passed it
    revived = []
    for _ in range(16):
        rig.broker.pop_revival.tick(HOST, rig.now_ms, is_v2=False)
        rig.settle()
        revived = [message.body.decode() for message in rig.shown("%RETRY%G_T")]
    assert "m40" in revived


def test_a_checkpoint_that_came_twice_lets_no_other_be_passed_over():
    """What is done is counted up to the first that is not."""
    rig = Rig()
    rig.send("a", "b")
    first, second = checkpoint(0, NOW, 60_000).encode(), checkpoint(1, NOW, 60_000).encode()
    for body in (first, second, first):
        rig.note(body)
    rig.run_to(NOW + 1_000)
    topic = rig.broker.pop_flights.revive_topic
    assert rig.broker.consumer_offsets.query(REVIVE_GROUP, topic, 0) == -1


def test_what_came_again_comes_no_second_time_by_a_start_that_does_not_know_it():
    """The log says so: the saved offsets are older."""
    rig = Rig()
    rig.send("a", "b", "c")
    (_, handle), *_ = rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 9_500)
    rig.ack(handle)
    rig.run_to(NOW + 12_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"b", b"c"]
    topic = rig.broker.pop_flights.revive_topic
    for queue_id in range(8):
        rig.broker.consumer_offsets.commit(REVIVE_GROUP, topic, queue_id, -1)
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 14_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"b", b"c"]
    assert max(rig.broker.consumer_offsets.queues(REVIVE_GROUP, topic).values()) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_put_back_is_not_lost_by_a_start_that_reads_its_first_time_too(count):
    """Both have the same key where it is the first message of its pop, and both are read before one is decided."""
    store = Choosy()
    rig = Rig(store)
    rig.send(*"ab"[:count])
    rig.pop(queue_id=0, invisible=10_000)
    store.illegal = ("%",)
    rig.run_to(NOW + 12_000)
    assert pop_revival.REFUSED in rig.told()
    store.illegal = ()
    rig.run_to(NOW + 19_500)                # the second time is in the queue, and not over
    topic = rig.broker.pop_flights.revive_topic
    for queue_id in range(8):
        rig.broker.consumer_offsets.commit(REVIVE_GROUP, topic, queue_id, -1)
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 60_000)
    assert {message.body.decode() for message in rig.shown("%RETRY%G_T")} == set("ab"[:count])


class Picky(MemoryStore):
    """Takes no copy of messages with these bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[bytes, PutStatus] = {}

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if message.topic.startswith("%") and message.body in self.refused:
            return Appended(self.refused[message.body])
        return super().append(message, now_ms)


def test_what_was_put_back_comes_though_the_rest_of_its_pop_still_waits():
    store = Picky()
    rig = Rig(store)
    rig.send("a", "b")
    rig.pop(queue_id=0, invisible=10_000)
    store.refused = {b"a": PutStatus.MESSAGE_ILLEGAL, b"b": PutStatus.SERVICE_NOT_AVAILABLE}
    rig.run_to(NOW + 21_500)                # the second time of the first one is in the queue
    assert set(rig.told()) == {pop_revival.REFUSED}
    store.refused.clear()
    rig.run_to(NOW + 40_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"b", b"a"]


def test_of_a_pop_of_which_the_store_took_some_only_the_rest_comes_after_a_kill():
    store = Full()
    rig = Rig(store)
    rig.send("a", "b", "c")
    rig.pop(queue_id=0, invisible=10_000)
    store.room = 1
    rig.run_to(NOW + 12_000)
    store.room = 1 << 20
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 14_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a", b"b", b"c"]


def test_a_log_that_was_cut_loses_no_checkpoint_to_the_count_of_before():
    rig = Rig()
    rig.send("a")
    rig.broker.subscription_groups.find("G", NOW)
    topic = rig.broker.pop_flights.revive_topic
    rig.note(b"{}")
    rig.broker.consumer_offsets.commit(REVIVE_GROUP, topic, 0, 7)       # of which only the first is there
    rig = rig.restarted()
    rig.note(checkpoint(0).encode())
    rig.run_to(NOW + 1_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


def test_a_message_comes_to_a_topic_that_a_start_knows():
    """Where topics are saved, it waits until its retry topic is."""
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    rig.broker.settings.is_kept = True
    rig.run_to(NOW + 12_000)
    assert "%RETRY%G_T" in rig.broker.topics.unsaved
    assert rig.shown("%RETRY%G_T") == []
    rig.broker.settings_saved(rig.broker.settings.count)
    rig.run_to(NOW + 13_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


def test_a_checkpoint_whose_file_is_not_there_is_found_by_a_start_with_it():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0)
    look, missing = rig.store.look_message, rig.store.is_missing
    hidden: set[int] = set()

    def looked(offset: int) -> MessageExt | None:
        message = look(offset)
        if message is not None and message.topic == rig.broker.pop_flights.revive_topic:
            hidden.add(offset)
            return None
        return message

    rig.store.look_message = looked
    rig.store.is_missing = lambda offset: offset in hidden or missing(offset)
    rig.run_to(NOW + 35_000)
    assert [what for what in rig.told() if "restore it" in what]
    rig.store.look_message, rig.store.is_missing = look, missing
    rig = rig.restarted()
    rig.run_to(NOW + 90_000)
    assert bodies(rig.pop()) == ["a"]


# --- what is gone, damaged or refused --------------------------------------------------------------------------------


class Aged(MemoryStore):
    """Of the queues of `aged`, all before `low` is gone with old files."""

    def __init__(self) -> None:
        super().__init__()
        self.aged = ""
        self.low = 0

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self.low if topic == self.aged else super().min_offset(topic, queue_id)

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        if topic == self.aged and queue_offset < self.low:
            return []
        return super().queue_units(topic, queue_id, queue_offset, count_max)


class Nearest(Aged):
    """Gives the first units that are there instead."""

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        return super().queue_units(topic, queue_id, max(queue_offset, self.low) if topic == self.aged else queue_offset,
                                   count_max)


def test_no_other_message_comes_in_the_place_of_one_that_is_gone():
    store = Nearest()
    rig = Rig(store)
    rig.send("a", "b")
    rig.pop(queue_id=0, count=1, invisible=10_000)
    store.aged, store.low = "T", 1
    rig.run_to(NOW + 12_000)
    assert rig.told() == {pop_revival.GONE: ["offset 0 of T, queue 0"]}
    assert rig.shown("%RETRY%G_T") == []


def test_what_old_files_took_of_a_revive_queue_keeps_it_from_nothing():
    store = Aged()
    rig = Rig(store)
    rig.send("a")
    rig.broker.subscription_groups.find("G", NOW)
    rig.note(checkpoint(0, NOW, 3_600_000).encode())
    rig.run_to(NOW + 500)
    rig.note(b"gone before it was read")
    store.aged, store.low = rig.broker.pop_flights.revive_topic, 2
    rig.note(checkpoint(0).encode())
    rig.run_to(NOW + 1_500)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


def test_a_message_whose_file_is_not_there_comes_when_it_is_put_back():
    rig = Rig()
    rig.send("a", "b")
    rig.pop(queue_id=0, invisible=10_000)
    rig.store.missing = (rig.store.queue_units("T", 0, 0, 1)[0].physical_offset,)
    rig.run_to(NOW + 12_000)
    assert rig.told() == {pop_revival.PUT_BACK: ["offset 0 of T, queue 0"]}
    assert bodies(rig.pop(invisible=3_600_000)) == ["b"]
    rig.store.missing = ()
    rig.run_to(NOW + 24_000)
    assert bodies(rig.pop()) == ["a"]


def test_all_messages_of_a_pop_wait_longer_each_by_itself():
    rig = Rig()
    rig.send("a", "b", "c")
    rig.pop(queue_id=0, invisible=10_000)
    rig.store.damaged["T", 0] = "queue 0 is torn"
    rig.run_to(NOW + 12_000)
    rig.store.damaged.clear()
    rig.run_to(NOW + 24_000)
    assert left(rig) == ["a", "b", "c"]


def test_what_waits_longer_waits_each_time_for_longer():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.store.damaged["T", 0] = "queue 0 is torn"
    told = []
    for seconds in range(80):
        rig.run_to(NOW + 1_000 * seconds, step=100)
        if rig.told():
            told.append(seconds)
    assert told == [11, 21, 41, 71]


def test_what_was_put_back_more_often_than_there_are_steps_waits_for_the_last_one():
    rig = Rig()
    rig.send("a")
    rig.store.damaged["T", 0] = "queue 0 is torn"
    rig.note(checkpoint(0, put_again_times=40).encode())
    rig.broker.subscription_groups.find("G", NOW)
    rig.run_to(NOW + 1_000)
    (waiting,) = rig.shown(TIMER_TOPIC)
    again = decode_checkpoint(waiting.body)
    assert again.put_again_times == 41
    assert 7_200_000 < again.revive_time - NOW < 7_201_000


def test_what_cannot_be_put_back_now_is_not_lost():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.store.damaged["T", 0] = "queue 0 is torn"
    rig.run_to(NOW + 9_800)
    rig.store.refusal = "the disk is full"
    rig.run_to(NOW + 12_000)
    assert rig.told() == {}
    rig.store.refusal = ""
    rig.run_to(NOW + 13_000)
    rig.store.damaged.clear()
    rig.run_to(NOW + 24_000)
    assert left(rig) == ["a"]


def test_a_damaged_retry_queue_keeps_no_other_group():
    rig = Rig()
    rig.send("a")
    rig.broker.topics.create_if_absent("%RETRY%G_T", 1, NOW)
    rig.broker.topics.create_if_absent("%RETRY%H_T", 1, NOW)
    for group in "GH":
        rig.broker.subscription_groups.find(group, NOW)
        key = CheckpointKey("T", group, 0, 0, NOW - 20_000)
        rig.note(PopCheckpoint(key=key, broker_name="broker-a", invisible_time=10_000, offsets=(0,)).encode())
    rig.store.damaged["%RETRY%G_T", 0] = "the retries of G are torn"
    rig.run_to(NOW + 1_000)
    assert [message.body for message in rig.shown("%RETRY%H_T")] == [b"a"]
    assert rig.told() == {pop_revival.PUT_BACK: ["offset 0 of T, queue 0"]}
    rig.store.damaged.clear()
    rig.run_to(NOW + 12_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


class Full(MemoryStore):
    """Takes so many messages of retry topics, and no more."""

    room = 1 << 20

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if message.topic.startswith("%RETRY%"):
            if not self.room:
                return Appended(PutStatus.SERVICE_NOT_AVAILABLE, remark="the disk is full")
            self.room -= 1
        return super().append(message, now_ms)


def test_what_came_before_the_store_refused_does_not_come_again():
    store = Full()
    rig = Rig(store)
    rig.send("a", "b", "c")
    rig.pop(queue_id=0, invisible=10_000)
    store.room = 2
    rig.run_to(NOW + 12_000)
    store.room = 1 << 20
    rig.run_to(NOW + 13_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a", b"b", b"c"]


# --- what is done, and when ------------------------------------------------------------------------------------------


def test_nothing_is_decided_before_the_acks_that_the_timers_brought_are_seen():
    """They are in the log, and not in the queue yet."""
    rig = Rig()
    rig.send("a", "b")
    (_, first), _ = rig.pop(queue_id=0, invisible=10_000)
    rig.ack(first)
    rig.run_to(NOW + 2_000)
    rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 9_500)
    for now_ms in range(NOW + 9_550, NOW + 12_000, 50):
        rig.now_ms = rig.broker.steady_ms = now_ms
        rig.broker.tick(now_ms)     # nothing is dispatched
    rig.run_to(NOW + 13_000)
    assert left(rig) == ["b"]


def test_what_was_popped_of_a_topic_that_is_gone_is_done_without_a_word():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop(invisible=10_000)) == ["a"]      # from the retry topic, which stays
    rig.broker.topics.delete("T", NOW)
    rig.run_to(NOW + 24_000)
    assert rig.told() == {}
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


def test_what_came_again_is_in_flight_no_more():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    assert len(rig.broker.pop_flights) == 1
    rig.run_to(NOW + 12_000)
    assert len(rig.broker.pop_flights) == 0
    assert rig.broker.consumer_offsets.query("G", "%RETRY%G_T", 0) == 0     # the group has them before it


def test_a_tick_that_finds_nothing_has_nothing_saved():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 12_000)
    changes = rig.broker.consumer_offsets.changes
    rig.run_to(NOW + 13_000)
    assert rig.broker.consumer_offsets.changes == changes


def test_a_start_finds_the_first_of_several_checkpoints_whose_file_was_not_there():
    rig = Rig()
    rig.send("a", "b", "c")
    topic = rig.broker.pop_flights.revive_topic
    for number in range(3):
        rig.note(checkpoint(number, NOW, 60_000).encode())
    rig.store.missing = tuple(unit.physical_offset for unit in rig.store.queue_units(topic, 0, 1, 2))
    rig.run_to(NOW + 62_000, step=500)
    assert rig.broker.consumer_offsets.query(REVIVE_GROUP, topic, 0) == 0


def test_one_tick_brings_no_more_than_the_limit_and_the_next_one_follows_at_once():
    rig = Rig()
    rig.broker.subscription_groups.find("G", NOW)
    rig.broker.topics.create_if_absent("%RETRY%G_T", 1, NOW)
    rig.send(*[f"m{number:03}" for number in range(200)])
    rig.run_to(NOW + 500)
    for number in range(200):
        rig.note(checkpoint(number).encode())
    waits, counts = [], []
    for _ in range(4):
        waits.append(rig.broker.pop_revival.tick(HOST, rig.now_ms, is_v2=False))
        rig.settle()
        counts.append(len(rig.shown("%RETRY%G_T")))
    assert (waits, counts) == ([100, 0, 100, 100], [0, 128, 200, 200])      # the first one reads


@pytest.mark.parametrize(("own", "stored_at"), [("", HOST), ("10.0.0.7", host_bytes("10.0.0.7", 10911))])
def test_a_copy_says_where_it_can_be_looked_at(own, stored_at):
    """A broker that knows no address of its own goes by the one at which the message came."""
    rig = Rig(broker_ip1=own)
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=1), NOW)
    rig.send("a")
    for seconds in (12, 24):
        rig.pop(invisible=10_000)
        rig.run_to(NOW + 1_000 * seconds)
    copies = [*rig.shown("%RETRY%G_T"), *rig.shown("%DLQ%G")]
    assert [(each.body, each.store_host) for each in copies] == [(b"a", stored_at)] * 2


def test_dead_letters_have_a_topic_that_is_known():
    rig = Rig()
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=0), NOW)
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW + 12_000)
    assert [message.body for message in rig.shown("%DLQ%G")] == [b"a"]
    assert "%DLQ%G" in rig.broker.topics.table


@pytest.mark.parametrize("sent_with", [{}, {"1ST_POP_TIME": "7"}])
def test_a_message_that_comes_again_and_again_says_when_it_was_popped_first(sent_with):
    """Whatever its producer wrote there."""
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a", **sent_with}, 0, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.settle()
    rig.pop(invisible=10_000)
    for seconds in (12, 24):
        rig.run_to(NOW + 1_000 * seconds)
        ((message, _),) = rig.pop(invisible=10_000)
        assert message.properties["1ST_POP_TIME"] == str(NOW)


def test_more_revive_queues_are_read_as_soon_as_there_are_more():
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 9_500)
    config = rig.broker.topics.get(rig.broker.pop_flights.revive_topic)
    rig.broker.topics.put(replace(config, read_queue_nums=16, write_queue_nums=16), rig.now_ms)
    rig.note(checkpoint(0).encode(), queue_id=9)
    rig.run_to(NOW + 9_900)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]
    rig.run_to(NOW + 12_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a", b"a"]


# --- a topic that was made anew --------------------------------------------------------------------------------------


def make_anew(rig: Rig) -> None:
    assert rig.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic="T").ext()).code == 0
    rig.run_to(rig.now_ms + 500)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2), rig.now_ms)


@pytest.mark.parametrize("is_killed", [False, True])
def test_messages_of_a_topic_that_was_made_anew_come_once(is_killed):
    """What of the old one is out has their places."""
    rig = Rig()
    rig.send("a", "b", "c")
    popped = rig.pop(queue_id=0, invisible=10_000)
    assert rig.change(popped[2][1], 8_000).code == 0
    make_anew(rig)
    rig.send("d", "e", "f")
    assert rig.change(popped[0][1], 20_000).code == ResponseCode.NO_MESSAGE
    if is_killed:
        rig = rig.restarted(is_killed=True)
    rig.run_to(NOW + 30_000)
    assert bodies(rig.pop(queue_id=0, invisible=10_000)) == ["d", "e", "f"]
    assert left(rig) == []
    rig.run_to(NOW + 50_000)
    assert left(rig) == ["d", "e", "f"]


def test_what_was_put_back_of_a_topic_that_was_made_anew_stays_away():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.store.damaged["T", 0] = "queue 0 is torn"
    rig.run_to(NOW + 12_000)
    rig.store.damaged.clear()
    make_anew(rig)
    rig.send("b")
    rig.run_to(NOW + 30_000)
    assert left(rig) == ["b"]


def test_a_clock_that_was_put_back_takes_nothing_for_another_topic_s():
    rig = Rig()
    rig.send("a")
    rig.now_ms -= 3_600_000
    rig.pop(queue_id=0, invisible=10_000)
    rig.run_to(NOW - 3_580_000)
    assert left(rig) == ["a"]


def test_a_promoted_slave_that_did_not_know_the_topic_brings_what_was_out_of_it():
    rig = Rig()
    rig.send("a")
    rig.pop(queue_id=0, invisible=10_000)
    rig.broker.topics.epochs.note_created("T", NOW + 5_000)
    rig.run_to(NOW + 12_000)
    assert left(rig) == ["a"]


# --- a group that is made anew ---------------------------------------------------------------------------------------


def delete_group(rig: Rig, *, clean_offset: bool = True) -> None:
    rig.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptiongroupRequest(group_name="G", clean_offset=clean_offset)
            .ext())


@pytest.mark.parametrize("is_killed", [None, False, True])
def test_a_group_that_was_deleted_and_made_anew_gets_nothing_that_it_popped_before(is_killed):
    """It begins anew, and has each message once."""
    rig = Rig()
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop()
    rig.change(second, 60_000)
    rig.run_to(NOW + 1_000)
    delete_group(rig)
    if is_killed is not None:       # the document is saved at once
        rig = rig.restarted(is_killed=is_killed)
    assert rig.change(first, 90_000).code == ResponseCode.NO_MESSAGE
    again = rig.pop(invisible=300_000)
    assert bodies(again) == ["a", "b"]
    rig.run_to(NOW + 70_000)
    assert rig.pop() == []
    for _, handle in again:
        assert rig.ack(handle).code == 0
    rig.run_to(NOW + 400_000)
    assert rig.pop() == []


def test_a_group_that_is_made_anew_gets_what_it_popped_since():
    rig = Rig()
    rig.send("a")
    rig.pop()
    delete_group(rig)
    rig.now_ms -= 500       # the clock was put back
    assert bodies(rig.pop(invisible=10_000)) == ["a"]
    rig.run_to(NOW + 12_000)
    ((message, _),) = rig.pop()
    assert message.reconsume_times == 1


def test_a_group_that_is_made_anew_gets_no_retries_of_the_one_before():
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 12_000)
    assert rig.shown("%RETRY%G_T")
    delete_group(rig)
    ((message, _),) = rig.pop()
    assert message.reconsume_times == 0
    assert rig.pop() == []


def test_a_group_that_was_deleted_and_kept_its_offsets_gets_what_it_had_out():
    """It goes on behind it, and would never get it."""
    rig = Rig()
    rig.send("a")
    rig.pop()
    delete_group(rig, clean_offset=False)
    assert rig.pop() == []
    rig.run_to(NOW + 31_500)
    assert bodies(rig.pop()) == ["a"]


def test_who_does_not_know_that_a_group_was_deleted_loses_nothing():
    """A slave that was promoted."""
    rig = Rig()
    rig.send("a")
    rig.pop()
    delete_group(rig)
    rig.pop(invisible=10_000)
    rig.broker.consumer_offsets.set_backs.removed.clear()
    rig.run_to(NOW + 12_000)
    assert bodies(rig.pop()) == ["a"]
