"""Killed or without power at each step of entering, delivering, putting back and noting: each message comes once, and
none early."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.timed_store import QUEUE, TOPIC, TimedStore

from regulus.broker import state
from regulus.broker.storing import Storing
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.topics import TIMER_TOPIC
from regulus.store import disk, timers
from regulus.store.timers import TimerFiles
from regulus.testing.forgetful_disk import EVERYTHING, SURE_ONLY, ForgetfulDisk, rebooted

pytestmark = pytest.mark.once

SEEDS = (SURE_ONLY, EVERYTHING, 2, 3)
"""EVERYTHING is what a killed process leaves."""
POINTS = ("before ENTER", "during ENTER", "after ENTER", "before DELIVER", "after DELIVER", "before PUT_BACK",
          "after PUT_BACK", "before EMPTY", "after EMPTY", "before NOTE", "during NOTE", "after NOTE")
WAITING = {f"K{number}": 500 + number * 450 for number in range(40)}
WINDOW = 6
WHEEL_SLOTS = 4096
"""A real wheel is a week long, and each look at it takes its time."""
RUN_S = 30


class Crashed(BaseException):
    """The process ends here: nobody takes it."""


class PassedStoring(Storing):
    """The class itself takes no other functions where it is compiled."""

    def append(self, *arguments: Any) -> Any:
        return super().append(*arguments)


class Points:
    """Calls `on_pass` at each point, with its name."""

    def __init__(self, patch: pytest.MonkeyPatch, on_pass: Callable[[str], None]) -> None:
        self._patch = patch
        self._on_pass = on_pass
        self._around(TimerFiles, "enter", lambda *_: "ENTER")
        self._around(TimerFiles, "_append", lambda *_: "", during="during ENTER")
        self._around(TimerFiles, "clear", lambda *_: "EMPTY")
        patch.setattr(state, "Storing", PassedStoring)
        self._around(PassedStoring, "append", self._of_append)
        self._around(disk, "write_file", self._of_file)
        self._around(disk, "sync_data", lambda *_: "", during="during NOTE")

    def _around(self, owner: Any, name: str, step_of: Callable[..., str], during: str = "") -> None:
        """`during` is behind the call: the step has others to do."""
        own = getattr(owner, name)

        def passed(*arguments: Any, **more: Any) -> Any:
            step = step_of(*arguments)
            if step:
                self._on_pass(f"before {step}")
            result = own(*arguments, **more)
            if step or during:
                self._on_pass(during or f"after {step}")
            return result

        self._patch.setattr(owner, name, passed)

    @staticmethod
    def _of_append(_: Storing, message: MessageExt, *__: object) -> str:
        if names.TIMER_DEQUEUE_MS not in message.properties:
            return ""
        return "PUT_BACK" if message.topic == TIMER_TOPIC else "DELIVER"

    @staticmethod
    def _of_file(path: Path, *_: object) -> str:
        return "NOTE" if path.name == "timercheck" else ""


def work(timed: TimedStore) -> None:
    """Send all, and let time go by; notes come to disk now and then, the log more often."""
    for key, delay_ms in WAITING.items():
        timed.send(key, delay_ms)
    timed.store.flush_commit_log()
    for second in range(RUN_S):
        timed.run(1000)
        if second % 2:
            timed.store.flush_commit_log()
        if second % 3 == 2:
            timed.flush()


def check(copy: Path, now_ms: int) -> None:
    with rebooted():
        again = TimedStore(copy, now_ms, window=WINDOW)
    for _ in range(RUN_S):
        again.run(1000)
    assert sorted(again.came()) == sorted(WAITING)
    assert again.waiting() == 0
    for unit in again.store.queue_units(TOPIC, QUEUE, 0, 1000):
        message = again.store.look_message(unit.physical_offset)
        assert message is not None
        due_ms = message.born_timestamp + WAITING[message.properties[names.UNIQUE_KEY]]
        assert int(message.properties[names.TIMER_DEQUEUE_MS]) >= due_ms
    again.store._release()


@pytest.mark.parametrize("times", [1, 3, 11])
@pytest.mark.parametrize("point", POINTS)
def test_killed_or_without_power_at_a_step_each_message_comes_once(
        point: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    monkeypatch.setattr(timers, "SLOTS", WHEEL_SLOTS)

    with ForgetfulDisk(tmp_path / "store") as power:
        def on_pass(name: str) -> None:
            passed.append(name)
            if passed.count(point) == times and name == point:
                for seed in SEEDS:
                    power.crash(seed, tmp_path / f"copy-{seed}")
                raise Crashed

        with monkeypatch.context() as patch:
            Points(patch, on_pass)
            timed = TimedStore(tmp_path / "store", window=WINDOW)
            with pytest.raises(Crashed):
                work(timed)
    for seed in SEEDS:
        check(tmp_path / f"copy-{seed}", timed.now_ms)
