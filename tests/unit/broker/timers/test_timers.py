"""Messages that wait for a time of their own: never early, late by a tick at most, each once."""

from random import Random
from types import SimpleNamespace

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.broker.timers import copies as timer_copies
from regulus.broker.timers import timers
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import TIMER_TOPIC, TopicConfig
from regulus.record.timer_units import NOWHERE, decode_check, encode_told_check
from regulus.testing.memory_store import MemoryStore

NOW = 1_700_000_000_000
HOST = host_bytes("10.0.0.1", 10911)


def make(store: MemoryStore | None = None, now_ms: int = NOW, **fields: object) -> BrokerState:
    broker = BrokerState(BrokerConfig(listen_port=10911, **fields), store or MemoryStore(), now_ms=now_ms, seed=1)
    broker.topics.put(TopicConfig(topic_name="T"), now_ms)
    broker.timers.open(now_ms)
    return broker


def send(broker: BrokerState, now_ms: int, key: str = "K", topic: str = "T", **properties: object) -> None:
    text = {names.UNIQUE_KEY: key, **{name: str(value) for name, value in properties.items()}}
    queue_id = 0 if topic == TIMER_TOPIC else 1
    broker.storing.store(MessageExt(topic, key.encode(), text, queue_id, 0, 0, now_ms, HOST, HOST, 0), now_ms)


def run(broker: BrokerState, now_ms: int) -> list[str]:
    """Let it do all that is due; what is in the topic then."""
    for _ in range(1000):
        broker.store.dispatch(1 << 20)
        wait_ms = broker.timers.tick(now_ms)
        if wait_ms != 0:
            break
    else:
        raise AssertionError("it is never done")
    broker.store.dispatch(1 << 20)
    return delivered(broker)


def in_the_midst_of_a_tick(count: int) -> tuple[BrokerState, list[str]]:
    """A broker that has done a part of so many messages of one tick, and the keys of all."""
    broker = make()
    keys = [f"K{number}" for number in range(count)]
    for key in keys:
        send(broker, NOW, key, TIMER_DELAY_SEC=3)
    run(broker, NOW)
    broker.timers.tick(NOW + 4_000)
    return broker, keys


def delivered(broker: BrokerState, topic: str = "T") -> list[str]:
    messages: list[str] = []
    if (topic, 1) in getattr(broker.store, "damaged", ()):
        return messages
    for unit in broker.store.queue_units(topic, 1, 0, 1000):
        message = broker.store.look_message(unit.physical_offset)
        assert message is not None
        messages.append(message.properties[names.UNIQUE_KEY])
    return messages


@pytest.mark.parametrize(("properties", "due_ms"), [
    ({"TIMER_DELAY_SEC": 5}, 5_000), ({"TIMER_DELAY_MS": 1_500}, 1_500), ({"TIMER_DELIVER_MS": NOW + 3_001}, 3_001),
    ({"TIMER_DELAY_SEC": 2, "TIMER_DELAY_MS": 9_000, "TIMER_DELIVER_MS": NOW + 60_000}, 2_000)])
def test_a_message_comes_at_its_time_and_at_most_a_tick_late(properties, due_ms):
    broker = make()
    send(broker, NOW, **properties)
    for later in range(0, due_ms, 500):
        assert run(broker, NOW + later) == []
    assert run(broker, NOW + due_ms - 1) == []
    assert run(broker, NOW + -(-due_ms // 1000) * 1000) == ["K"]
    assert run(broker, NOW + due_ms + 600_000) == ["K"]


def test_one_whose_time_is_over_comes_now():
    broker = make()
    send(broker, NOW, TIMER_DELIVER_MS=NOW - 1)
    send(broker, NOW, "L", TIMER_DELAY_MS=-5)
    assert run(broker, NOW) == ["K", "L"]


def test_what_is_delivered_says_when_it_was_entered_and_left():
    broker = make()
    send(broker, NOW + 200, TIMER_DELAY_MS=1_500)
    run(broker, NOW + 300)
    run(broker, NOW + 5_000)
    (unit,) = broker.store.queue_units("T", 1, 0, 10)
    message = broker.store.look_message(unit.physical_offset)
    assert message.properties == {
        "UNIQ_KEY": "K", "TIMER_DELAY_MS": "1500", "TIMER_OUT_MS": "1700000001000", "REAL_TOPIC": "T", "REAL_QID": "1",
        "TIMER_ENQUEUE_MS": "1700000000000", "TIMER_DEQUEUE_MS": "1700000005000"}
    assert (message.topic, message.queue_id, message.body) == ("T", 1, b"K")


def test_those_of_one_tick_come_in_the_order_in_which_they_were_sent():
    broker = make()
    keys = [f"K{number}" for number in range(700)]
    for key in keys:
        send(broker, NOW, key, TIMER_DELAY_MS=4_000)
    assert run(broker, NOW + 4_000) == keys


@pytest.mark.parametrize("precision", [100, 200, 500])
def test_a_finer_tick_is_kept(precision):
    broker = make(MemoryStoreOf(precision), timer_precision_ms=precision)
    send(broker, NOW, TIMER_DELAY_MS=1_050)
    assert run(broker, NOW + 1_049) == []
    assert run(broker, NOW + -(-1_050 // precision) * precision) == ["K"]


def MemoryStoreOf(precision: int) -> MemoryStore:
    store = MemoryStore()
    store.timers.precision_ms = precision
    return store


def test_a_level_takes_the_timer_away():
    broker = make()
    send(broker, NOW, DELAY=1, TIMER_DELAY_SEC=90)
    broker.store.dispatch(10)
    assert broker.store.max_offset(TIMER_TOPIC, 0) == 0
    broker.tick(NOW + 1_000)
    assert run(broker, NOW + 1_000) == ["K"]


def test_a_marker_takes_a_message_out_and_no_other():
    broker = make()
    for key in ("K", "L", "M"):
        send(broker, NOW, key, TIMER_DELIVER_MS=NOW + 5_000)
    send(broker, NOW + 10, "L", TIMER_DELIVER_MS=NOW + 4_001, TIMER_DEL_UNIQKEY="T+L")
    send(broker, NOW + 10, "M", TIMER_DELIVER_MS=NOW + 3_000, TIMER_DEL_UNIQKEY="T+M")
    assert run(broker, NOW + 60_000) == ["K", "M"]


def test_a_marker_that_comes_in_the_last_moment_counts():
    """It was stored before the tick was over, and is entered before the slot is begun."""
    broker = make()
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 5_000)
    assert run(broker, NOW + 4_999) == []
    for number in range(600):
        send(broker, NOW + 4_999, f"other{number}", "U", TIMER_DELAY_SEC=1_000)
    send(broker, NOW + 4_999, TIMER_DELIVER_MS=NOW + 5_000, TIMER_DEL_UNIQKEY="T+K")
    assert run(broker, NOW + 5_000) == []
    assert run(broker, NOW + 90_000) == []


def test_what_waits_longer_than_the_window_is_put_back_on_the_way():
    broker = make(timer_roll_window_slot=100, timer_max_delay_sec=10 ** 9)
    send(broker, NOW, TIMER_DELAY_SEC=470)
    now = NOW
    while now < NOW + 470_000:
        assert run(broker, now) == []
        now += 700
    assert run(broker, NOW + 470_000) == ["K"]
    assert run(broker, NOW + 2_000_000) == ["K"]
    (unit,) = broker.store.queue_units("T", 1, 0, 10)
    assert broker.store.look_message(unit.physical_offset).properties["TIMER_ROLL_TIMES"] == "4"


def test_longer_than_the_wheel_is_held():
    """Which goes round in two weeks."""
    broker = make(timer_max_delay_sec=10 * 365 * 86_400)
    day_ms = 86_400_000
    send(broker, NOW, TIMER_DELAY_SEC=20 * day_ms // 1000)
    for day in range(20):
        assert run(broker, NOW + day * day_ms) == []
    assert run(broker, NOW + 20 * day_ms) == ["K"]


def test_a_clock_that_is_put_forth_and_back_brings_nothing_early_and_nothing_twice():
    broker = make()
    send(broker, NOW, "K", TIMER_DELIVER_MS=NOW + 5_000)
    assert run(broker, NOW + 3_600_000) == ["K"]        # by that clock its time has come
    send(broker, NOW + 1_000, "L", TIMER_DELIVER_MS=NOW + 8_000)
    assert run(broker, NOW + 1_000) == ["K"]
    assert run(broker, NOW + 7_999) == ["K"]
    assert run(broker, NOW + 8_000) == ["K", "L"]
    assert run(broker, NOW + 7_200_000) == ["K", "L"]


def test_a_store_that_refuses_is_tried_again():
    broker = make()
    send(broker, NOW, TIMER_DELAY_SEC=1)
    run(broker, NOW)
    broker.store.refusal = "the disk is full"
    assert run(broker, NOW + 2_000) == []
    broker.store.refusal = ""
    assert run(broker, NOW + 2_100) == ["K"]


def test_a_full_disk_lets_nothing_be_entered_and_loses_nothing():
    broker = make()
    send(broker, NOW, TIMER_DELAY_SEC=1)
    broker.store.timers.refusal = "the disk is full"
    assert run(broker, NOW + 2_000) == []
    broker.store.timers.refusal = ""
    assert run(broker, NOW + 2_100) == ["K"]
    assert run(broker, NOW + 9_000) == ["K"]


def test_a_damaged_queue_keeps_nobody():
    broker = make()
    send(broker, NOW, "K", TIMER_DELAY_SEC=1)
    send(broker, NOW, "L", "U", TIMER_DELAY_SEC=1)
    broker.store.damaged["T", 1] = "its units are not those of the log"
    run(broker, NOW + 2_000)
    assert delivered(broker, "U") == ["L"]
    broker.store.damaged.clear()
    assert run(broker, NOW + 61_000) == []
    assert run(broker, NOW + 64_000) == ["K"]


def test_a_start_goes_on_where_the_last_run_was_killed():
    """The log tells what was delivered behind the last note."""
    broker = make()
    for number in range(300):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=3)
    run(broker, NOW)
    broker.timers.note(NOW)
    store = broker.store
    broker.timers.tick(NOW + 4_000)
    store.dispatch(1 << 20)
    so_far = delivered(broker)
    assert 0 < len(so_far) < 300
    store.timers.check = store.timers.taken
    again = make(store, NOW + 4_500)
    assert run(again, NOW + 5_000) == [f"K{number}" for number in range(300)]


def test_after_a_kill_one_of_two_copies_that_came_stands_for_one():
    broker = make()
    for copy in range(2):
        send(broker, NOW, TIMER_DELIVER_MS=NOW + 3_000 + 4_000 * copy)
    run(broker, NOW + 1)
    broker.timers.note(NOW + 1)
    broker.timers.note = lambda now_ms: None
    assert run(broker, NOW + 3_000) == ["K"]
    broker.store.timers.kill()
    again = make(broker.store, NOW + 6_900)
    assert run(again, NOW + 6_900) == ["K"]
    assert run(again, NOW + 9_000) == ["K", "K"]


def test_what_comes_for_a_tick_that_is_just_being_done_comes_with_the_next():
    """As where the clock was put back in the midst of it."""
    broker, keys = in_the_midst_of_a_tick(300)
    send(broker, NOW + 2_500, "late", TIMER_DELIVER_MS=NOW + 3_000)
    assert run(broker, NOW + 6_000) == [*keys, "late"]


def test_a_run_that_ends_in_the_midst_of_a_tick_leaves_what_is_not_done():
    """So that RocketMQ, which does a tick as a whole, delivers the rest alone."""
    broker, keys = in_the_midst_of_a_tick(300)
    store = broker.store
    store.dispatch(1 << 20)
    so_far = delivered(broker)
    assert 0 < len(so_far) < 300
    broker.timers.stop(NOW + 4_000)
    check = store.timers.taken
    records, _ = store.timers.chain(store.timers.slot(check.read_ms).last, 1000)
    left = [store.look_message(record.physical_offset).properties["UNIQ_KEY"] for record in reversed(records)]
    assert (check.done, so_far + left) == (0, keys)
    store.timers.check = check
    assert run(make(store, NOW + 9_000), NOW + 9_000) == keys


@pytest.mark.parametrize("ticks", range(1, 9))
def test_a_run_that_ends_while_it_passes_by_what_came_leaves_what_is_not_done(monkeypatch, ticks):
    """What is left of the tick is entered anew, and of that nothing is done, whatever was noted before the kill."""
    monkeypatch.setattr(timers, "STEPS_PER_TICK_MAX", 64)
    broker, keys = in_the_midst_of_a_tick(300)
    broker.timers.note(NOW + 4_000)
    store = broker.store
    assert store.timers.taken.done > 0
    broker.timers.note = lambda now_ms: None
    for _ in range(3):
        broker.timers.tick(NOW + 4_000)
    store.dispatch(1 << 20)
    assert len(delivered(broker)) < len(keys)
    store.timers.kill()
    again = make(store, NOW + 4_500)
    again.timers.note = lambda now_ms: None
    for _ in range(ticks):
        again.timers.tick(NOW + 4_500)
    again.timers.stop(NOW + 4_500)
    store.dispatch(1 << 20)
    store.timers.check = store.timers.taken
    assert run(make(store, NOW + 9_000), NOW + 9_000) == keys


def test_a_clock_that_is_put_back_over_a_kill_in_the_midst_of_a_tick_brings_nothing_twice(monkeypatch):
    monkeypatch.setattr(timers, "STEPS_PER_TICK_MAX", 64)
    broker, keys = in_the_midst_of_a_tick(100)
    broker.timers.note(NOW + 4_000)
    store = broker.store
    store.dispatch(1 << 20)
    assert 0 < store.timers.taken.done < len(keys)
    store.timers.kill()
    again = make(store, NOW + 500)
    so_far = run(again, NOW + 500)
    send(again, NOW + 500, "late", TIMER_DELIVER_MS=NOW + 3_000)
    send(again, NOW + 500, "early", TIMER_DELIVER_MS=NOW + 1_000)
    assert run(again, NOW + 1_000) == [*so_far, "early"]
    came = run(again, NOW + 4_000)
    assert came == [*so_far, "early", *keys[len(so_far):], "late"]


def test_a_full_disk_at_the_end_of_a_run_takes_nothing_away():
    broker, keys = in_the_midst_of_a_tick(300)
    broker.store.timers.refusal = "the disk is full"
    broker.timers.stop(NOW + 4_000)
    broker.store.dispatch(1 << 20)
    broker.store.timers.check = broker.store.timers.taken
    broker.store.timers.refusal = ""
    assert run(make(broker.store, NOW + 9_000), NOW + 9_000) == keys


def test_a_slave_enters_and_delivers_nothing_until_it_is_promoted():
    store = MemoryStore()
    master = make(store)
    for delay in (3, 300):
        send(master, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    store.dispatch(100)
    slave = make(store, broker_role="SLAVE", broker_id=1, namesrv_addr="h:1")
    for later in range(0, 10_000, 500):
        slave.timers.tick(NOW + later)
    store.dispatch(100)
    assert delivered(slave) == []
    assert slave.timers.queue_offset == 2
    slave.timers.note(NOW + 10_000)
    store.timers.check = store.timers.taken
    promoted = make(store, NOW + 12_000)
    assert run(promoted, NOW + 12_000) == ["K3"]
    assert run(promoted, NOW + 300_000) == ["K3", "K300"]


def copy_log(master: MemoryStore, slave: MemoryStore, end: int) -> None:
    """Up to there, which may be within a record: then without that."""
    while (start := len(slave._log)) < end:
        size = int.from_bytes(master._log[start:start + 4], "big")
        if start + size > end:
            break
        slave._log += master._log[start:start + size]
    slave.dispatch(1 << 20)
    for queue in slave._queues:
        slave._next_offsets[queue] = slave._queues[queue][-1].queue_offset + 1


@pytest.mark.parametrize("seed", range(16))
def test_a_promoted_slave_delivers_what_it_has_not_and_nothing_again(seed):
    """A slave behind its master by more or less, told of the timers now and then, promoted at any moment."""
    random = Random(seed)
    window = random.choice([172_800, 40])
    slave_fields = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1", "timer_roll_window_slot": window}
    master, slave = make(timer_roll_window_slot=window), make(**slave_fields)
    now, sent = NOW, 0
    for _ in range(random.randrange(20, 160)):
        now += random.randrange(100, 1_500)
        for _ in range(random.randrange(3)):
            send(master, now, f"K{sent}", TIMER_DELAY_SEC=random.choice([1, 2, 5, 30, 100]))
            sent += 1
        told = decode_check(encode_told_check(master.timers.check()))
        run(master, now)
        told = random.choice([told, master.timers.check()])     # what comes between the two answers
        log_end = master.store.commit_log_max_offset()
        copy_log(master.store, slave.store, log_end - random.choice([0, 0, 700, 3_000]))
        if random.random() < 0.3:
            slave.timers.follow(told, log_end)
        if random.random() < 0.9:
            slave.timers.tick(now)
        if random.random() < 0.05:
            slave.timers.stop(now)
            slave.store.timers.kill()
            slave = make(slave.store, now, **slave_fields)
    log_end = len(slave.store._log)
    has = {message.properties[names.UNIQUE_KEY] for message in slave.store.messages_holding(b"UNIQ_KEY", 0)}
    slave.timers.stop(now)
    slave.store.timers.kill()
    promoted = make(slave.store, now, timer_roll_window_slot=window)
    for _ in range(60):
        now += 2_500
        run(promoted, now)
    assert len(slave.store._log) > log_end or not has
    assert sorted(delivered(promoted)) == sorted(has)


@pytest.mark.parametrize("window", [172_800, 6])
def test_a_slave_takes_nothing_for_done_that_its_master_had_not_entered(window):
    """The master's ticks pass while what it has is not to be seen yet, as where it waits for a slave that was away."""
    fields = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1", "timer_roll_window_slot": window}
    master, slave = make(timer_roll_window_slot=window), make(**fields)
    send(master, NOW, "first", TIMER_DELAY_SEC=1)
    run(master, NOW + 1_000)
    send(master, NOW + 1_000, "second", TIMER_DELAY_SEC=8)
    for later in range(2_000, 12_000, 1_000):
        master.timers.tick(NOW + later)
    told = master.timers.check()
    assert (told.read_ms, told.queue_offset) == (NOW + 11_000, 1)
    log_end = master.store.commit_log_max_offset()
    copy_log(master.store, slave.store, log_end)
    slave.timers.follow(told, log_end)
    slave.timers.tick(NOW + 12_000)
    slave.timers.stop(NOW + 12_000)
    slave.store.timers.kill()
    promoted = make(slave.store, NOW + 12_000, timer_roll_window_slot=window)
    for later in range(12_000, 30_000, 500):
        run(promoted, NOW + later)
    assert sorted(delivered(promoted)) == ["first", "second"]


def test_what_a_former_master_had_done_is_not_done_in_the_log_of_the_next():
    """The log here ended before the deliveries of the former one, and where they were the next one has something else.
    """
    fields = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1"}
    master, slave = make(), make(**fields)
    send(master, NOW, "K", TIMER_DELAY_SEC=1)
    run(master, NOW)
    copied = master.store.commit_log_max_offset()
    copy_log(master.store, slave.store, copied)
    slave.timers.tick(NOW)
    assert run(master, NOW + 3_000) == ["K"]
    slave.timers.follow(master.timers.check(), master.store.commit_log_max_offset())
    second = make(MemoryStore(), NOW + 5_000)
    copy_log(master.store, second.store, copied)
    second.timers.open(NOW + 5_000)
    slave.log_compared("")
    for _ in range(5):
        send(second, NOW + 5_000, "sent meanwhile")
    assert second.store.commit_log_max_offset() > master.store.commit_log_max_offset()
    copy_log(second.store, slave.store, second.store.commit_log_max_offset())
    slave.timers.tick(NOW + 5_000)
    slave.timers.stop(NOW + 5_000)
    slave.store.timers.kill()
    promoted = make(slave.store, NOW + 6_000)
    assert "K" in run(promoted, NOW + 6_000)


def test_what_came_to_the_log_of_a_former_master_comes_not_again_by_that_of_the_next():
    """Which had the deliveries in its log, and had not heard that they are done."""
    fields = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1"}
    master, slave = make(), make(**fields)
    send(master, NOW, "K", TIMER_DELAY_SEC=3)
    run(master, NOW)
    early = master.timers.check()
    assert run(master, NOW + 5_000) == ["K"]
    log_end = master.store.commit_log_max_offset()
    copy_log(master.store, slave.store, log_end)
    for _ in range(2):
        slave.timers.follow(early._replace(read_ms=NOW), log_end)
    slave.log_compared("")
    slave.timers.follow(early._replace(read_ms=NOW + 1_000), log_end)
    slave.timers.tick(NOW + 6_000)
    assert slave.timers.read_ms == NOW + 1_000
    slave.timers.stop(NOW + 6_000)
    slave.store.timers.kill()
    promoted = make(slave.store, NOW + 6_000)
    assert run(promoted, NOW + 6_000) == ["K"]


def test_a_slave_that_lags_takes_what_its_master_had_done_where_it_is():
    """Nothing would ever be done where each time the master was ahead again."""
    master, slave = make(), make(broker_role="SLAVE", broker_id=1, namesrv_addr="h:1")
    run(master, NOW + 1_000)
    told = master.timers.check()
    ends = []
    for _ in range(2):
        send(master, NOW + 1_000)
        ends.append(master.store.commit_log_max_offset())
        slave.timers.follow(told._replace(read_ms=NOW + 1_000 * len(ends)), ends[-1])
    copy_log(master.store, slave.store, ends[0])
    slave.timers.tick(NOW + 1_000)
    assert slave.timers.read_ms == NOW + 1_000


def test_a_slave_that_would_have_to_look_at_very_many_takes_nothing_for_done(monkeypatch):
    monkeypatch.setattr(timers, "TOLD_LOOKED_MAX", 2)
    master, slave = make(), make(broker_role="SLAVE", broker_id=1, namesrv_addr="h:1")
    run(master, NOW + 1_000)
    told = master.timers.check()
    for number in range(3):
        send(master, NOW + 1_000, f"K{number}", TIMER_DELAY_SEC=100)
    log_end = master.store.commit_log_max_offset()
    copy_log(master.store, slave.store, log_end)
    before_ms = slave.timers.read_ms
    for queue_offset, read_ms, known_ms in ((0, NOW + 1_000, before_ms), (1, NOW + 2_000, NOW + 2_000)):
        slave.timers.follow(told._replace(read_ms=read_ms, queue_offset=queue_offset), log_end)
        slave.timers.tick(NOW + 1_000)
        assert slave.timers.read_ms == known_ms


def test_what_was_put_back_once_before_is_put_back_again_by_a_promoted_slave():
    """What its log says of the first time is no sign of the second."""
    fields = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1", "timer_roll_window_slot": 6}
    master, slave = make(timer_roll_window_slot=6), make(**fields)
    send(master, NOW, TIMER_DELAY_SEC=25)
    for later in range(0, 9_000, 1_000):
        run(master, NOW + later)
        copy_log(master.store, slave.store, master.store.commit_log_max_offset())
        slave.timers.tick(NOW + later)
        if later in (0, 3_000, 8_000):
            slave.timers.follow(master.timers.check(), master.store.commit_log_max_offset())
    slave.timers.tick(NOW + 9_000)
    assert slave.timers.read_ms == NOW + 8_000
    slave.timers.stop(NOW + 14_000)
    slave.store.timers.kill()
    promoted = make(slave.store, NOW + 14_000, timer_roll_window_slot=6)
    for later in range(14_000, 40_000, 500):
        run(promoted, NOW + later)
    assert delivered(promoted) == ["K"]


def test_a_promoted_slave_looks_back_no_further_than_it_was_told():
    master, slave = make(), make(broker_role="SLAVE", broker_id=1, namesrv_addr="h:1")
    for later in range(60):
        send(master, NOW + later * 1_000, f"K{later}", TIMER_DELAY_SEC=2)
        run(master, NOW + later * 1_000)
        copy_log(master.store, slave.store, master.store.commit_log_max_offset())
        slave.timers.tick(NOW + later * 1_000)
        if later % 10 == 0:
            slave.timers.follow(master.timers.check(), master.store.commit_log_max_offset())
    check = slave.timers.check()
    assert check.read_ms == NOW + 50_000
    assert check.master_offset == 51
    assert check.log_position > master.store.commit_log_max_offset() // 2


def test_a_slave_takes_nothing_for_done_before_its_log_has_it_and_looks_back_behind_the_question_before():
    master, slave = make(), make(broker_role="SLAVE", broker_id=1, namesrv_addr="h:1")
    ends = [0]
    for later in (0, 2_000, 4_000):
        send(master, NOW + later, f"K{later}", TIMER_DELAY_SEC=1)
        run(master, NOW + later + 1_000)
        ends.append(master.store.commit_log_max_offset())
        copy_log(master.store, slave.store, ends[-2])
        slave.timers.follow(master.timers.check(), ends[-1])
        slave.timers.tick(NOW + later + 1_000)
        assert slave.timers.read_ms <= NOW + later
        copy_log(master.store, slave.store, ends[-1])
        slave.timers.tick(NOW + later + 1_000)
        assert slave.timers.read_ms == NOW + later + 1_000
    assert slave.timers.check().log_position == ends[0]
    slave.timers.follow(master.timers.check()._replace(read_ms=NOW + 6_000), ends[-1])
    slave.timers.tick(NOW + 6_000)
    assert slave.timers.check().log_position == ends[1]


def test_a_damaged_book_is_entered_anew_from_the_log():
    broker = make(timer_roll_window_slot=100)
    for delay in (2, 50, 90, 250):
        send(broker, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    assert run(broker, NOW + 3_000) == ["K2"]
    for later in range(4_000, 49_000, 500):
        run(broker, NOW + later)
    del broker.store.timers._records[1:]
    assert run(broker, NOW + 52_000) == ["K2", "K50"]
    for later in range(52_000, 249_000, 500):
        run(broker, NOW + later)
    assert delivered(broker) == ["K2", "K50", "K90"]
    assert run(broker, NOW + 251_000) == ["K2", "K50", "K90", "K250"]


def test_after_two_kills_in_one_tick_nothing_comes_twice():
    """The second run has noted something, and not yet passed by what the first one had delivered."""
    broker = make()
    for number in range(300):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=3)
    run(broker, NOW)
    broker.timers.note(NOW)
    broker.timers.tick(NOW + 4_000)
    store = broker.store
    store.dispatch(1 << 20)
    assert 0 < len(delivered(broker)) < 300
    store.timers.kill()
    again = make(store, NOW + 4_500)
    again.timers.note(NOW + 4_500)
    store.timers.kill()
    assert run(make(store, NOW + 4_600), NOW + 5_000) == [f"K{number}" for number in range(300)]


def test_a_run_that_ends_while_a_damaged_book_is_entered_anew_leaves_it_to_the_next():
    broker = make()
    for number in range(600):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=number % 4 + 1)
    assert len(run(broker, NOW + 2_000)) == 300
    del broker.store.timers._records[1:]
    broker.timers.tick(NOW + 3_000)
    broker.timers.note(NOW + 3_000)
    store = broker.store
    assert store.timers.taken.read_ms == 0
    store.timers.kill()
    again = make(store, NOW + 60_000)
    send(again, NOW + 60_000, "late", TIMER_DELAY_SEC=1)
    came = run(again, NOW + 63_000)
    assert sorted(came) == sorted([*(f"K{number}" for number in range(600)), "late"])
    run(again, NOW + 65_000)
    assert store.timers.taken.read_ms == NOW + 63_000


def test_what_timers_cannot_do_is_told():
    broker = make()
    send(broker, NOW, "no time", topic=TIMER_TOPIC)
    send(broker, NOW, "no home", topic=TIMER_TOPIC, TIMER_OUT_MS=NOW + 1_000)
    send(broker, NOW, "L", TIMER_DELAY_SEC=1)
    send(broker, NOW, "M", TIMER_DELAY_SEC=1)
    broker.store.timers.refusal = "the disk is full"
    run(broker, NOW)
    run(broker, NOW + 100)
    assert {kind: str(names) for kind, names in broker.timers.happenings.take().items()} == {
        timers.HOMELESS: "at 0 of the log", timers.NOT_ENTERED: "the disk is full"}
    broker.store.timers.refusal = ""
    append = broker.storing.append
    answers = [PutStatus.MESSAGE_ILLEGAL, PutStatus.QUEUE_DAMAGED]
    broker.timers._storing = SimpleNamespace(deliver=lambda message, now_ms: (
        Appended(answers.pop(0)) if answers and message.topic == "T" else append(message, now_ms)))
    assert run(broker, NOW + 2_000) == []
    told = {kind: str(names) for kind, names in broker.timers.happenings.take().items()}
    assert list(told) == [timers.REFUSED, timers.LATER, timers.HOMELESS]
    assert told[timers.REFUSED].startswith("T at ")
    assert told[timers.LATER].endswith("of the log: queue 1 of T is damaged")
    assert run(broker, NOW + 63_000) == ["M"]


def test_a_message_without_a_time_in_the_topic_of_timers_is_passed_by():
    broker = make()
    send(broker, NOW, topic=TIMER_TOPIC)
    run(broker, NOW)
    send(broker, NOW, "L", TIMER_DELAY_SEC=1)
    assert run(broker, NOW + 2_000) == ["L"]


def test_damage_does_not_bring_again_what_came_a_tick_before():
    broker = make()
    send(broker, NOW, "A", TIMER_DELAY_SEC=5)
    send(broker, NOW, "B", TIMER_DELAY_SEC=6)
    assert run(broker, NOW + 5_000) == ["A"]
    del broker.store.timers._records[1:]
    assert run(broker, NOW + 60_000) == ["A", "B"]


def test_what_is_sent_while_the_book_is_entered_anew_is_not_lost():
    broker = make()
    for number in range(600):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=5)
    run(broker, NOW)
    del broker.store.timers._records[1:]
    for _ in range(2):
        broker.timers.tick(NOW + 5_000)
    send(broker, NOW + 5_000, "late", TIMER_DELAY_SEC=5)
    broker.store.dispatch(1 << 20)
    came = run(broker, NOW + 90_000)
    assert sorted(came) == sorted(["late", *(f"K{number}" for number in range(600))])


def hide(store: MemoryStore, hidden: int) -> None:
    """As in a file of the log that is not there; -1 brings it again."""
    look = type(store).look_message
    store.look_message = lambda offset: None if offset == hidden else look(store, offset)
    store.is_missing = lambda offset: offset == hidden


def test_one_to_be_put_back_whose_file_is_missing_for_a_while_does_not_come_early():
    broker = make(timer_roll_window_slot=100)
    send(broker, NOW, TIMER_DELAY_SEC=1_000)
    run(broker, NOW)
    hide(broker.store, 0)
    run(broker, NOW + 101_000)
    hide(broker.store, -1)
    assert run(broker, NOW + 300_000) == []
    for later in range(300_000, 1_001_000, 10_000):
        run(broker, NOW + later)
    assert delivered(broker) == ["K"]


def test_one_that_is_taken_back_while_its_file_is_missing_does_not_come():
    broker = make()
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 5_000)
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 5_000, TIMER_DEL_UNIQKEY="T+K")
    send(broker, NOW, "L", TIMER_DELIVER_MS=NOW + 5_000)
    run(broker, NOW)
    hide(broker.store, 0)
    assert run(broker, NOW + 6_000) == ["L"]
    assert run(broker, NOW + 70_000) == ["L"]       # and it is missing still
    hide(broker.store, -1)
    assert run(broker, NOW + 300_000) == ["L"]


def test_a_message_that_was_put_back_does_not_hide_the_marker_that_takes_it_out_of_a_damaged_book():
    broker = make(timer_roll_window_slot=100)
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 190_000)
    for later in range(0, 60_000, 500):
        run(broker, NOW + later)
    send(broker, NOW + 60_000, TIMER_DELIVER_MS=NOW + 190_000, TIMER_DEL_UNIQKEY="T+K")
    send(broker, NOW + 60_000, "X", TIMER_DELAY_SEC=48)
    for later in range(60_000, 107_000, 500):
        run(broker, NOW + later)
    del broker.store.timers._records[1:]
    for later in range(107_000, 189_000, 500):
        run(broker, NOW + later)
    assert run(broker, NOW + 300_000) == ["X"]


def test_what_waits_on_for_a_damaged_queue_outlives_a_damaged_book():
    broker = make()
    send(broker, NOW, TIMER_DELAY_SEC=1)
    send(broker, NOW, "L", "U", TIMER_DELAY_SEC=20)
    broker.store.damaged["T", 1] = "its units are not those of the log"
    run(broker, NOW + 10_000)
    broker.store.damaged.clear()
    del broker.store.timers._records[:]
    run(broker, NOW + 30_000)
    assert run(broker, NOW + 300_000) == ["K"]


def test_a_clock_that_is_put_back_by_a_whole_turn_of_the_wheel_loses_nothing():
    """Two times have one place in it, and both wait."""
    broker = make(timer_max_delay_sec=10 ** 9)
    far = 14 * 86_400_000
    send(broker, NOW + far, "F", TIMER_DELAY_SEC=7_200)
    run(broker, NOW + far)
    send(broker, NOW, "N", TIMER_DELAY_SEC=7_200)
    run(broker, NOW + 1_000)
    run(broker, NOW + 1_000)
    assert run(broker, NOW + 7_199_000) == []
    assert run(broker, NOW + 7_200_000) == ["N"]
    for later in range(7_200_000, far + 7_200_000, 3_600_000):
        assert run(broker, NOW + later) == ["N"]
    assert run(broker, NOW + far + 7_200_000) == ["N", "F"]


def test_a_consumers_copy_with_all_properties_hides_no_message_after_a_kill():
    """It has the time at which it left, its home and the key of what it is a copy of."""
    broker = make()
    send(broker, NOW, TIMER_DELIVER_MS=NOW + 5_000)
    run(broker, NOW + 1_000)
    broker.timers.note(NOW + 1_500)
    broker.timers.note = lambda now_ms: None
    send(broker, NOW + 2_000, TIMER_DEQUEUE_MS=NOW, REAL_TOPIC="T")
    broker.store.dispatch(1 << 20)
    broker.store.timers.kill()
    assert run(make(broker.store, NOW + 3_000), NOW + 6_000) == ["K", "K"]


def test_a_message_to_another_topic_with_the_same_key_hides_none_after_a_kill():
    broker = make()
    send(broker, NOW, "K", "U", TIMER_DELIVER_MS=NOW + 2_000)
    send(broker, NOW, "K", "T", TIMER_DELIVER_MS=NOW + 5_000)
    run(broker, NOW + 500)
    broker.timers.note(NOW + 1_500)
    broker.timers.note = lambda now_ms: None
    run(broker, NOW + 3_000)
    assert delivered(broker, "U") == ["K"]
    broker.store.timers.kill()
    assert run(make(broker.store, NOW + 4_500), NOW + 6_000) == ["K"]


@pytest.mark.parametrize("is_of_timers", [True, False])
def test_a_record_that_names_another_message_brings_none_early(is_of_timers):
    broker = make()
    for delay in (50, 90):
        send(broker, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    send(broker, NOW, "other", "U")
    run(broker, NOW + 1_000)
    offsets = [message.physical_offset for message in broker.store.messages_holding(b"UNIQ_KEY", 0)]
    records = broker.store.timers._records
    records[0] = records[0]._replace(physical_offset=offsets[1 if is_of_timers else 2])
    assert run(broker, NOW + 60_000) == ["K50"]
    assert "names the message" in str(broker.timers.happenings.take()[timers.DAMAGED])
    assert run(broker, NOW + 90_000) == ["K50", "K90"]


def test_the_log_is_looked_through_in_steps_and_a_kill_amid_them_forgets_nothing():
    broker = make()
    for number in range(300):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=3)
    run(broker, NOW)
    broker.timers.note(NOW)
    broker.timers.tick(NOW + 4_000)
    store = broker.store
    store.dispatch(1 << 20)
    so_far = delivered(broker)
    assert 0 < len(so_far) < 300
    store.timers.kill()
    walk = store.messages_holding_in_steps
    store.messages_holding_in_steps = lambda text, position: (
        each for each in [*[None] * timers.STEPS_PER_TICK_MAX, *walk(text, position)])
    again = make(store, NOW + 4_500)
    assert again.timers.tick(NOW + 4_500) == 0
    store.dispatch(1 << 20)
    assert delivered(again) == so_far
    again.timers.stop(NOW + 4_500)
    store.timers.kill()
    assert run(make(store, NOW + 4_600), NOW + 5_000) == [f"K{number}" for number in range(300)]


def test_what_came_is_counted_up_to_a_limit_and_that_is_told(monkeypatch):
    monkeypatch.setattr(timer_copies, "CAME_MAX", 4)
    broker = make()
    for number in range(6):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=3)
    run(broker, NOW)
    broker.timers.note(NOW)
    broker.timers.note = lambda now_ms: None
    run(broker, NOW + 3_000)
    broker.store.timers.kill()
    again = make(broker.store, NOW + 4_000)
    run(again, NOW + 4_000)
    assert delivered(again) == ["K0", "K1", "K2", "K3", "K4", "K5", "K4", "K5"]
    assert "CAME_MAX is 4" in str(again.timers.happenings.take()[timer_copies.UNCOUNTED])


@pytest.mark.parametrize("years", [-17, 17])
def test_a_note_that_is_years_off_loses_nothing_and_is_not_walked_to(years):
    """As where one bit of it is flipped."""
    broker = make()
    for delay in (2, 50):
        send(broker, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    assert run(broker, NOW + 3_000) == ["K2"]
    broker.timers.note(NOW + 3_000)
    taken = broker.store.timers.taken
    broker.store.timers.check = taken._replace(read_ms=taken.read_ms + years * 365 * 86_400_000, log_position=NOWHERE)
    again = make(broker.store, NOW + 4_000)
    assert run(again, NOW + 40_000) == ["K2"]
    assert run(again, NOW + 50_000) == ["K2", "K50"]
    assert run(again, NOW + 100_000) == ["K2", "K50"]


def test_a_clock_that_jumps_by_years_is_followed_at_once():
    broker = make(now_ms=1_000_000)
    send(broker, 1_000_000, TIMER_DELAY_SEC=60)
    run(broker, 1_001_000)
    send(broker, NOW, "L", TIMER_DELAY_SEC=60)
    run(broker, NOW)
    assert run(broker, NOW + 1_000) == ["K"]        # by that clock it has waited so long that it was put back
    assert run(broker, NOW + 60_000) == ["K", "L"]
