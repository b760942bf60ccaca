"""What a start says while it is at it."""

import logging

import pytest

from regulus.server.start_progress import FIRST_LINE_S, StartProgress

MIB = 1 << 20


def test_the_distance_between_lines_grows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [100.0]
    tell = StartProgress(lambda: now[0])
    tell("checking the log", 0, 500 * MIB)
    for second in range(1, 32):
        now[0] = 100.0 + second * FIRST_LINE_S / 2
        tell("checking the log", second * MIB, 500 * MIB)
    assert [record.getMessage() for record in caplog.records] == [
        "checking the log: up to 500 MiB",
        *[f"checking the log: {mib} of up to 500 MiB are done" for mib in (2, 6, 14, 30)]]


def test_each_step_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tell = StartProgress(lambda: 100.0)
    tell("checking the log", 0, MIB)
    tell("checking the log", MIB, MIB)
    tell("bringing it to disk", 0, 0)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["checking the log: up to 1 MiB", "bringing it to disk"]
