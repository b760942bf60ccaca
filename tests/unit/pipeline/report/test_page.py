"""The page says the verdict in words, holds what it needs, and leaves out what there is nothing of."""

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from regulus.pipeline.report.charts import Mark
from regulus.pipeline.report.page import Heading, duration, number, page

START = datetime(2026, 1, 31, 8, tzinfo=UTC)
HEADING = Heading(title="Flights <2013>", source="/store", made_at=START, tag_word="carrier",
                  marks=[Mark(START.timestamp() + 1, START.timestamp() + 2, "broker killed")])
LEGS = ("born_to_stored", "stored_to_applied", "born_to_applied")
TOTAL = {"sent": 1000, "applied": 990, "dead_lettered": 10, "retried": 12, "waiting": 0, "lost": 0, "both": 0,
         "duplicates": 3, "redelivered": 4, "dead_again": 0}
VOID = {"meta"}


def tables(**changes: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {
        "ledger_total": [TOTAL],
        "ledger_by_tag": [{"tags": tag, "sent": 500, "applied": 495, "retried": 6, "dead_lettered": 5, "waiting": 0,
                           "lost": 0, "duplicates": 1, "latency_p50_ms": 12, "latency_p99_ms": 1800}
                          for tag in ("UA", None)],
        "throughput": [{"bucket_start": START + timedelta(seconds=second), "topic": "flights", "is_copy": copy,
                        "messages": 100, "bytes": 1, "bucket_seconds": 1} for second in range(5) for copy in (0, 1)],
        "effects_over_time": [{"bucket_start": START, "effects": 90}],
        "latency_curve": [{"leg": leg, "share": float(share), "ms": share} for leg in LEGS for share in range(101)],
        "latency_percentiles": [{"leg": leg, "messages": 1000, "p50_ms": 12, "p90_ms": 20, "p95_ms": 40, "p99_ms": 1800,
                                 "max_ms": 61_000} for leg in LEGS],
        "retry_ladder": [{"consumer_group": "board", "topic": "flights", "tries": tries, "messages": count,
                          "applied": count - dead, "passed": 0, "waiting": 0, "dead_letters": dead, "unknown": 0}
                         for tries, count, dead in ((1, 2, 0), (2, 10, 10))],
        "dead_letters_by_cause": [{"consumer_group": "board", "topic": "flights", "cause": "no departure time",
                                   "dead_letters": 10}],
        "group_lag": [{"consumer_group": "board", "topic": "flights", "queues": 8, "lag": 0, "lag_ms": 0}],
        **changes}


class Reader(HTMLParser):
    """Texts, and whether each element that is opened is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and data.strip():
            self.texts.append(data.strip())


def read(**changes: list[dict[str, Any]]) -> Reader:
    reader = Reader()
    reader.feed(page(tables(**changes), HEADING))
    reader.close()
    assert reader.open == []
    return reader


def test_the_verdict_stands_on_top_in_words() -> None:
    texts = read().texts
    assert texts[1] == "Flights <2013>"
    assert texts[2] == "✓ 1,000 keys sent = 990 applied + 10 dead-lettered, 0 lost"
    assert texts[3].startswith("The ledger balances")


@pytest.mark.parametrize(("changes", "words"), [
    ({"ledger_total": [{**TOTAL, "applied": 988, "lost": 2}]}, "2 keys have neither an effect nor a dead letter"),
    ({"ledger_total": [{**TOTAL, "both": 1}]}, "1 keys have an effect and a dead letter"),
    ({"queue_gaps": [{"topic": "flights", "broker_name": "a", "queue_id": 1, "start_offset": 3, "end_offset": 10,
                      "missing": 7}]}, "7 copies are missing from their queues"),
    ({"rejected_by_reason": [{"topic": "flights", "reason": "no key", "rejected": 5},
                             {"topic": "flights", "reason": "no body", "rejected": 2}]},
     "7 copies were rejected (5: no key; 2: no body)"),
])
def test_what_is_wrong_is_said_beside_the_verdict(changes: dict[str, list[dict[str, Any]]], words: str) -> None:
    texts = read(**changes).texts
    assert texts[2].startswith("✗")
    assert words in texts[3]


def test_dead_letters_that_came_twice_are_counted_and_said() -> None:
    texts = read(ledger_total=[{**TOTAL, "dead_again": 3}]).texts
    assert texts[2] == "✓ 1,000 keys sent = 990 applied + 10 dead-lettered (in 13 copies), 0 lost"


def test_what_waits_is_neither_lost_nor_forgotten() -> None:
    texts = read(ledger_total=[{**TOTAL, "applied": 900, "waiting": 90}]).texts
    assert texts[2] == "✓ 1,000 keys sent = 900 applied + 10 dead-lettered, 90 waiting, 0 lost"


def test_the_headline_is_true_of_the_tables_below_it() -> None:
    """A balanced ledger does not say that all has ended while a group has something to read."""
    lag = [{"consumer_group": "board", "topic": "flights", "queues": 8, "lag": 1253, "lag_ms": 5}]
    texts = read(group_lag=lag).texts
    assert texts[3] == ("The ledger balances: each key has ended in one place or still waits, 1,253 copies are not yet "
                        "consumed, and no queue has a hole.")
    assert "1,253 copies are not yet consumed." in texts
    assert "each key ended in exactly one place," in read().texts[3]


def test_each_number_of_messages_is_one_of_keys_or_of_copies() -> None:
    """The same word for the same thing on the tiles, in the charts and in the tables."""
    total = {**TOTAL, "dead_lettered": 8, "applied": 992, "dead_again": 21}
    causes = [{"consumer_group": "board", "topic": "flights", "cause": "x", "dead_letters": 29}]
    texts = read(ledger_total=[total], dead_letters_by_cause=causes).texts
    tiles = dict(zip(texts[5:19:2], texts[6:20:2], strict=True))
    assert tiles["keys dead-lettered"] == "8"
    assert all("keys" in word or "copies" in word for word in tiles), tiles
    assert "8 dead-lettered (in 29 copies)" in texts[2]
    assert any(text.startswith("29 copies died") for text in texts)
    for unclear in (" messages died", " messages failed", "messages are", "sent twice"):
        assert not any(unclear in text for text in texts), unclear


def test_the_ladder_counts_copies_and_never_less_than_none() -> None:
    """More copies failed than there are keys that were applied."""
    rows = [{"consumer_group": "board", "topic": "flights", "tries": 1, "messages": 1500, "applied": 1500, "passed": 0,
             "waiting": 0, "dead_letters": 0, "unknown": 0}]
    text = page(tables(retry_ladder=rows), HEADING)
    assert "1,500 copies failed at least once" in text
    assert "-497" not in text
    assert "-510" not in text


def test_it_needs_nothing_from_elsewhere() -> None:
    text = page(tables(), HEADING)
    assert read().links == []
    assert "url(" not in text
    assert "@import" not in text
    assert "<script" not in text
    assert text.count("http") == text.count('xmlns="http://www.w3.org/2000/svg"')


def test_it_serves_light_and_dark_and_phones() -> None:
    text = page(tables(), HEADING)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert 'lang="en"' in text


def test_every_section_has_its_figures() -> None:
    texts = " | ".join(read().texts)
    for words in ("Throughput", "broker killed", "born → applied", "1.0 min", "Retry ladder",
                  "first delivery", "retry 2", "no departure time · board", "Ledger by carrier",
                  "All groups have consumed all copies that were stored."):
        assert words in texts, words


def test_what_is_not_there_has_no_section() -> None:
    reader = Reader()
    reader.feed(page({"ledger_total": [TOTAL]}, HEADING))
    texts = " | ".join(reader.texts)
    assert "1,000 keys sent" in texts
    for words in ("Throughput", "Latency", "Retry", "Dead letters by cause", "Groups", "Holes", "Stored twice"):
        assert words not in texts
    reader = Reader()
    reader.feed(page({}, HEADING))
    assert "no ledger was made" in " ".join(reader.texts)


def test_texts_from_messages_cannot_become_markup() -> None:
    text = page(tables(dead_letters_by_cause=[{"consumer_group": "g", "topic": "t", "dead_letters": 1,
                                               "cause": "<img src=x onerror=alert(1)>"}]), HEADING)
    assert "<img" not in text


def test_many_rows_are_cut_and_counted() -> None:
    rows = [{"topic": "flights", "keys": f"k{at}", "copies": 2, "places": ["a/0/1", "a/0/2"]} for at in range(300)]
    texts = read(duplicates=rows).texts
    assert any(text.startswith("300 message ids have several copies in their topic") for text in texts)
    tags = [{**tables()["ledger_by_tag"][0], "tags": f"T{at}"} for at in range(100)]
    assert "... and 60 more." in read(ledger_by_tag=tags).texts


def test_one_step_of_throughput_is_drawn_too() -> None:
    step = {"bucket_start": START, "topic": "t", "is_copy": False, "messages": 120, "bytes": 1, "bucket_seconds": 60}
    assert "Throughput" in read(throughput=[step], effects_over_time=[]).texts


@pytest.mark.parametrize(("value", "text"), [
    (None, "–"), (0, "0 ms"), (999, "999 ms"), (1800, "1.8 s"), (60_000, "1 min"), (5_400_000, "1.5 h"), (-3, "-3 ms")])
def test_durations(value: float | None, text: str) -> None:
    assert duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0, "0"), (1234567, "1,234,567"), (1.25, "1.2")])
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text
