"""How often and how long what happens is told."""

import logging

import pytest

from regulus.model.happenings import TEXTS_MAX, EventTexts, Happenings
from regulus.server.event_log import EVENT_INTERVAL_MS, EventLog


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regulus.server.event_log")


def test_each_kind_is_one_line_however_much_happened(caplog: pytest.LogCaptureFixture) -> None:
    topics, clients = Happenings(), Happenings()
    for number in range(100_000):
        topics.note("topics made", f"T{number}")
    clients.note("consumers left", "c1")
    EventLog([topics, clients]).tick(0)
    assert caplog.messages == ["topics made: T0, T1, T2, T3, T4 and 99995 more", "consumers left: c1"]


def test_what_happens_within_a_second_is_gathered(caplog: pytest.LogCaptureFixture) -> None:
    topics = Happenings()
    log = EventLog([topics])
    for steady_ms in range(0, 2 * EVENT_INTERVAL_MS + 100, 100):
        topics.note("topics made", str(steady_ms))
        log.tick(steady_ms)
    assert caplog.messages == [
        "topics made: 0", "topics made: 100, 200, 300, 400, 500 and 5 more",
        "topics made: 1100, 1200, 1300, 1400, 1500 and 5 more"]


def test_nothing_is_told_twice_and_no_line_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    topics = Happenings()
    log = EventLog([topics])
    topics.note("topics made", "A")
    for steady_ms in range(0, 5 * EVENT_INTERVAL_MS, 100):
        log.tick(steady_ms)
    log.tell()
    assert caplog.messages == ["topics made: A"]


def test_what_somebody_should_mend_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    clients, faults = Happenings(), Happenings()
    clients.note("consumers joined", "c1")
    faults.note("two with one id", "c1")
    EventLog([clients], [faults]).tell()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "consumers joined: c1"), ("WARNING", "two with one id: c1")]


def test_texts_have_a_line_each_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    texts = EventTexts()
    log = EventLog([])
    log.add_texts(texts)
    for number in range(TEXTS_MAX + 3):
        texts.note(f"event {number}")
    with caplog.at_level(logging.WARNING):
        log.tell()
        log.tell()
    assert [record.getMessage() for record in caplog.records] == [
        *(f"event {number}" for number in range(TEXTS_MAX)), "3 more of these"]
