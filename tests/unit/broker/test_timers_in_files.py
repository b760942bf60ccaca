"""Timers over the files of a store: what a broker makes of them when a crash took part of what was written."""

from pathlib import Path
from shutil import copytree, ignore_patterns
from types import SimpleNamespace

import pytest

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.state import BrokerState
from regulus.broker.timers import timers
from regulus.model.store_result import Appended, PutStatus
from regulus.record.timer_units import RECORD_SIZE
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire import recall_handle
from regulus.wire.codes import RequestCode
from regulus.wire.headers import RecallMessageRequest
from regulus.wire.recall_handle import RecallHandle
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import PEER
from tests.unit.broker.timers.test_timers import NOW, delivered, make, run, send

LOG_FILE_SIZE = 1 << 20
SLAVE = {"broker_role": "SLAVE", "broker_id": 1, "namesrv_addr": "h:1"}


def start(path: Path, now_ms: int = NOW, precision: int = 1000, **fields: object) -> BrokerState:
    (path / "config").mkdir(parents=True, exist_ok=True)
    config = MessageStoreConfig(store_path_root_dir=str(path), mapped_file_size_commit_log=LOG_FILE_SIZE,
                                mapped_file_size_consume_queue=20_000, max_hash_slot_num=500, max_index_num=2_000)
    store = FileMessageStore(config, BrokerConfig(listen_port=10911, timer_precision_ms=precision))
    store.open()
    return make(store, now_ms, timer_precision_ms=precision, **fields)


def stop(broker: BrokerState, now_ms: int) -> None:
    broker.store.dispatch(1 << 20)
    broker.timers.stop(now_ms)
    broker.store.close()


def note(broker: BrokerState, now_ms: int) -> None:
    """Bring all that is known to disk."""
    broker.timers.note(now_ms)
    broker.store.flush_commit_log()
    deed = broker.store.begin_timers()
    assert deed is not None
    deed()
    broker.store.timers.end_flush(is_done=True)


def come(broker: BrokerState, *seconds: int) -> list[str]:
    came: list[str] = []
    for later in range(*seconds):
        came = run(broker, NOW + later * 1000)
    return came


def killed(path: Path, target: Path) -> Path:
    return Path(copytree(path, target, ignore=ignore_patterns("lock")))


def cut_log(path: Path, target: Path, log_end: int) -> Path:
    """As a power cut leaves it: of the log, what is before there."""
    copytree(path, target, ignore=ignore_patterns("lock", "consumequeue"))
    with (target / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(log_end)
        file.write(bytes(LOG_FILE_SIZE - log_end))
    return target


@pytest.mark.parametrize(("before", "after"), [(1000, 100), (100, 1000)])
def test_another_precision_loses_nothing_and_brings_nothing_twice(tmp_path, before, after):
    broker = start(tmp_path, precision=before)
    for delay in (2, 50, 90):
        send(broker, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    assert run(broker, NOW + 3_000) == ["K2"]
    stop(broker, NOW + 3_000)
    again = start(tmp_path, NOW + 10_000, precision=after)
    assert come(again, 10, 50) == ["K2"]
    assert come(again, 50, 100) == ["K2", "K50", "K90"]


@pytest.mark.parametrize("time", [{"TIMER_DELAY_MS": 12_900}, {"TIMER_DELIVER_MS": NOW + 12_900}])
def test_nothing_comes_early_though_ticks_were_longer_when_it_was_sent(tmp_path, time):
    broker = start(tmp_path, precision=1000)
    send(broker, NOW, **time)
    stop(broker, NOW + 500)
    again = start(tmp_path, NOW + 1_000, precision=100)
    assert run(again, NOW + 12_899) == []
    assert run(again, NOW + 13_000) == ["K"]
    assert run(again, NOW + 20_000) == ["K"]


def test_what_was_sent_while_ticks_were_longer_is_taken_back_by_its_handle(tmp_path):
    broker = start(tmp_path, precision=1000, recall_message_enable=True)
    handle = recall_handle.encode(RecallHandle("T", "broker-a", NOW + 12_001, "K"))
    send(broker, NOW, TIMER_DELAY_MS=12_900)
    send(broker, NOW, "L", TIMER_DELAY_MS=12_900)
    stop(broker, NOW + 500)
    again = start(tmp_path, NOW + 1_000, precision=100, recall_message_enable=True)
    recalled = RemotingCommand.request(int(RequestCode.RECALL_MESSAGE), RecallMessageRequest(
        producer_group="PG", topic="T", recall_handle=handle).ext())
    assert request_table.handle(recalled, PEER, again, NOW + 1_000).answer.code == 0
    assert run(again, NOW + 20_000) == ["L"]


def test_what_waits_on_does_not_come_twice_after_a_kill(tmp_path):
    """The note does not tell that it waits on, and the record is there that does; and what was entered before that
    record is not entered again."""
    broker = start(tmp_path / "a")
    send(broker, NOW, TIMER_DELAY_SEC=3)
    run(broker, NOW + 1_000)
    note(broker, NOW + 1_500)
    broker.timers.note = lambda now_ms: None
    send(broker, NOW + 2_000, "L", TIMER_DELAY_SEC=60)
    run(broker, NOW + 2_000)
    storing = broker.timers._storing
    broker.timers._storing = SimpleNamespace(deliver=lambda message, now_ms: Appended(PutStatus.QUEUE_DAMAGED))
    assert run(broker, NOW + 5_000) == []
    broker.timers._storing = storing
    again = start(killed(tmp_path / "a", tmp_path / "b"), NOW + 6_000)
    assert come(again, 6, 60) == []
    assert sorted(come(again, 60, 120)) == ["K", "L"]


def test_a_slave_that_lost_the_end_of_its_log_delivers_what_its_master_sent_again(tmp_path):
    broker = start(tmp_path / "a", **SLAVE)
    send(broker, NOW, "K1", TIMER_DELAY_SEC=100)
    broker.store.dispatch(1 << 20)
    end = broker.store.commit_log_max_offset()
    for number in range(2, 5):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=100)
    run(broker, NOW + 1_000)
    note(broker, NOW + 1_500)
    again = start(cut_log(tmp_path / "a", tmp_path / "b", end), NOW + 10_000, **SLAVE)
    assert again.store.commit_log_max_offset() == end
    for number in range(2, 5):
        send(again, NOW, f"K{number}", TIMER_DELAY_SEC=100)
    run(again, NOW + 10_000)
    stop(again, NOW + 11_000)
    assert come(start(tmp_path / "b", NOW + 90_000), 90, 112) == ["K1", "K2", "K3", "K4"]


def test_a_slave_that_lost_the_end_of_its_log_takes_no_other_message_for_what_was_there(tmp_path):
    """Which another master sent it."""
    broker = start(tmp_path / "a", **SLAVE)
    send(broker, NOW, "K1", TIMER_DELAY_SEC=100)
    broker.store.dispatch(1 << 20)
    end = broker.store.commit_log_max_offset()
    for number in range(2, 5):
        send(broker, NOW, f"K{number}", TIMER_DELAY_SEC=20)
    run(broker, NOW + 1_000)
    note(broker, NOW + 1_500)
    again = start(cut_log(tmp_path / "a", tmp_path / "b", end), NOW + 10_000, **SLAVE)
    for number in range(2, 5):
        send(again, NOW, f"L{number}", TIMER_DELAY_SEC=150)
    run(again, NOW + 10_000)
    stop(again, NOW + 11_000)
    promoted = start(tmp_path / "b", NOW + 12_000)
    assert run(promoted, NOW + 30_000) == []
    assert come(promoted, 90, 160) == ["K1", "L2", "L3", "L4"]


def test_a_turn_of_the_wheel_outlives_a_start(tmp_path):
    """Two times with one place in it, of a clock that was put back."""
    far = 14 * 86_400_000
    broker = start(tmp_path, timer_max_delay_sec=10 ** 9)
    send(broker, NOW + far, "F", TIMER_DELAY_SEC=60)
    run(broker, NOW + far)
    send(broker, NOW, "N", TIMER_DELAY_SEC=60)
    run(broker, NOW + 1_000)
    run(broker, NOW + 1_000)
    stop(broker, NOW + 1_000)
    again = start(tmp_path, NOW + 2_000, timer_max_delay_sec=10 ** 9)
    assert run(again, NOW + 60_000) == ["N"]
    stop(again, NOW + 60_000)
    again = start(tmp_path, NOW + far, timer_max_delay_sec=10 ** 9)
    assert run(again, NOW + far + 59_000) == ["N"]
    assert run(again, NOW + far + 60_000) == ["N", "F"]


def test_a_clock_that_is_put_back_after_a_start_loses_nothing_of_what_then_waits_for_one_tick(tmp_path):
    """Whose tick the former run had passed by its clock."""
    broker = start(tmp_path)
    send(broker, NOW, "F", TIMER_DELAY_SEC=60)
    assert run(broker, NOW + 60_000) == ["F"]
    stop(broker, NOW + 60_000)
    again = start(tmp_path, NOW + 61_000)
    run(again, NOW + 61_000)
    for key in ("A", "B", "C"):
        send(again, NOW + 20_000, key, TIMER_DELAY_SEC=10)
    assert come(again, 20, 40) == ["F", "A", "B", "C"]


def test_a_clock_that_is_put_back_over_a_kill_brings_nothing_twice(tmp_path):
    """What was done behind the last note was done at times that are still to come by the new clock."""
    broker = start(tmp_path / "a")
    for delay in (2, 11, 12):
        send(broker, NOW, f"K{delay}", TIMER_DELAY_SEC=delay)
    run(broker, NOW + 8_000)
    note(broker, NOW + 8_000)
    broker.timers.note = lambda now_ms: None
    assert come(broker, 8, 14) == ["K2", "K11", "K12"]
    broker.store.flush_commit_log()
    again = start(killed(tmp_path / "a", tmp_path / "b"), NOW - 6_000)
    assert run(again, NOW - 6_000) == ["K2", "K11", "K12"]
    assert run(again, NOW - 5_000) == ["K2", "K11", "K12"]
    assert come(again, 14, 20) == ["K2", "K11", "K12"]


def half_done(path: Path, keys: list[str]) -> BrokerState:
    """A broker that noted it in the midst of the tick in which these are due."""
    broker = start(path)
    for key in keys:
        send(broker, NOW, key, TIMER_DELAY_SEC=3)
    run(broker, NOW)
    note(broker, NOW)
    noting, broker.timers.note = broker.timers.note, lambda now_ms: None
    broker.timers.tick(NOW + 4_000)
    broker.timers.note = noting
    note(broker, NOW + 4_000)
    broker.store.dispatch(1 << 20)
    assert 0 < len(delivered(broker)) < len(keys)
    return broker


@pytest.mark.parametrize("left", [1, 10, 1_000])
def test_a_kill_while_the_rest_of_a_tick_is_entered_anew_loses_nothing_of_it(tmp_path, monkeypatch, left):
    """So many of the records are there, and the note that goes with them is not."""
    monkeypatch.setattr(timers, "STEPS_PER_TICK_MAX", 64)
    keys = [f"K{number}" for number in range(100)]
    broker = half_done(tmp_path / "a", keys)
    broker.timers.stop(NOW + 4_000)
    broker.store.flush_commit_log()
    copy = killed(tmp_path / "a", tmp_path / "b")
    file = next((copy / "timerlog").iterdir())
    data = file.read_bytes()
    kept = (len(keys) + left) * RECORD_SIZE
    file.write_bytes(data[:kept].ljust(len(data), bytes(1)))
    assert sorted(come(start(copy, NOW + 5_000), 5, 8)) == sorted(keys)


@pytest.mark.parametrize("end", ["noted", "killed", "stopped"])
def test_of_a_half_done_tick_the_rest_comes_once_where_the_clock_is_put_back_over_kills(tmp_path, monkeypatch, end):
    monkeypatch.setattr(timers, "STEPS_PER_TICK_MAX", 64)
    keys = [f"K{number}" for number in range(100)]
    half_done(tmp_path / "a", keys).timers.note = lambda now_ms: None
    again = start(killed(tmp_path / "a", tmp_path / "b"), NOW + 500)
    noting, again.timers.note = again.timers.note, lambda now_ms: None
    so_far = run(again, NOW + 500)
    send(again, NOW + 500, "early", TIMER_DELIVER_MS=NOW + 2_000)
    assert run(again, NOW + 500) == so_far
    if end == "noted":
        again.timers.note = noting
        note(again, NOW + 500)
    again.store.flush_commit_log()
    if end == "stopped":
        stop(again, NOW + 500)
    last = start(killed(tmp_path / "b", tmp_path / "c"), NOW + 900)
    assert come(last, 1, 3) == [*so_far, "early"]
    assert sorted(come(last, 3, 8)) == sorted([*keys, "early"])
