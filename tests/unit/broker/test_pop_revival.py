"""What was popped comes again, whatever stands in the revive topic and whatever the store can do."""

import pytest

from regulus.broker import pop_revival
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus
from regulus.record.pop_record import REVIVE_GROUP, CheckpointKey, PopCheckpoint
from regulus.testing.memory_store import MemoryStore
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
    assert [what for what in rig.told() if "put it back" in what]
    rig.store.look_message, rig.store.is_missing = look, missing
    rig = rig.restarted()
    rig.run_to(NOW + 90_000)
    assert bodies(rig.pop()) == ["a"]
