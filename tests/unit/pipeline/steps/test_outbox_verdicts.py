"""Each stub of an outbox gets the verdict that its row, the log and what consumers wrote down add up to."""

from typing import TYPE_CHECKING, Any

import pytest

from regulus.reliability.retry_policy import ResendPolicy
from tests.frames import small_table
from tests.unit.pipeline.steps.rows import BASE, at, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]

HOUR = 3_600_000
START = int(BASE.timestamp() * 1000)
NOW = START + HOUR
DOWN, STALE = ResendPolicy().down_ms, ResendPolicy().stale_ms
STUB = ("message_id string, topic string, broker_name string, queue_id int, queue_offset bigint, status string, "
        "is_manual boolean, send_count int, resend_time bigint, first_send_time bigint, create_time bigint, "
        "version int")
ENDS = "topic string, broker_name string, queue_id int, known_end bigint, begin bigint, end bigint"
MARKS = ("consumer_group string, topic string, broker_name string, queue_id int, queue_offset_max bigint, "
         "move_time bigint")


def stub(message_id: str, offset: int | None = None, **more: Any) -> dict[str, Any]:
    """Sent once, half an hour ago, to queue a/0, and not due before the next minute."""
    return {"message_id": message_id, "topic": "t", "broker_name": "a", "queue_id": 0, "queue_offset": offset,
            "status": "UNCONFIRMED", "is_manual": False, "send_count": 1, "resend_time": NOW + 60_000,
            "first_send_time": NOW - HOUR // 2, "create_time": NOW - HOUR // 2, "version": 2, **more}


def sent(message_id: str, offset: int, topic: str = "t", ms: int = 0, **properties: str) -> dict[str, Any]:
    return {"topic": topic, "queue_offset": offset, "store_time": at(ms),
            "properties": {"BUSINESS_ID": message_id, **properties}}


def verdicts(spark: "SparkSession", stubs: list[dict[str, Any]], log: list[dict[str, Any]], *,
             told: list[dict[str, Any]] | None = None, groups: list[tuple[str, str, str]] | None = None,
             receipts: list[tuple[str, str, int]] | None = None, effects: list[tuple[str, str, int]] | None = None,
             marks: list[tuple[Any, ...]] | None = None, ends: list[tuple[Any, ...]] | None = None,
             log_since_ms: int | None = None) -> "dict[str, Any]":
    """By id; the group `billing` has received all, and the queue has the offsets 100 to 199."""
    from regulus.pipeline.steps.outbox_facts import (
        accounts,
        applied_rows,
        group_rows,
        log_rows,
        receipt_rows,
        told_rows,
    )
    from regulus.pipeline.steps.outbox_verdicts import OutboxLimits, outbox_verdicts

    bounds = small_table(spark, ends or [("t", "a", 0, 200, 100, 200)], ENDS)
    columns = [name.split()[0] for name in STUB.split(", ")]
    made = small_table(spark, [tuple(each[name] for name in columns) for each in stubs], STUB)
    rows = [log_rows(table(spark, log), bounds.select("topic", "broker_name", "queue_id", "known_end"), START - HOUR),
            told_rows(table(spark, told or []), "CONSUMER_GROUP"),
            group_rows(small_table(spark, groups or [], "message_id string, consumer_group string, status string")),
            receipt_rows(small_table(spark, receipts or [],
                                     "message_id string, consumer_group string, receive_time bigint")),
            applied_rows(small_table(spark, effects or [],
                                     "message_id string, consumer_group string, end_time bigint"))]
    known = accounts(made, rows, small_table(spark, [("billing", "t", "a", 0, 10_000, NOW)] if marks is None else marks,
                                             MARKS))
    limits = OutboxLimits(resend=ResendPolicy().limits(NOW), log_since_ms=log_since_ms)
    return {row["message_id"]: row for row in outbox_verdicts(known, bounds, limits).collect()}


def told(found: "dict[str, Any]", *columns: str) -> dict[str, Any]:
    return {key: row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
            for key, row in found.items()}


def test_every_verdict(spark):
    done = {"status": "CONFIRMED"}
    stubs = [stub("fine", 0, **done), stub("late", 0, **done), stub("twice", 0, **done),
             stub("two groups", 0, **done), stub("voided", 0, status="VOIDED"),
             stub("waiting", 101), stub("unsent", None, send_count=0, resend_time=NOW - 60_000),
             stub("never sent", None, send_count=0, resend_time=NOW - 60_001),
             stub("lost", 102), stub("behind the end", 200), stub("of another broker", 5, broker_name="b"),
             stub("removed", 99), stub("nowhere", None, resend_time=NOW - 1),
             stub("parked", 103, is_manual=True), stub("dead", 104), stub("due", 105, resend_time=NOW - 60_001)]
    log = [sent(each, number) for number, each in ((101, "waiting"), (103, "parked"), (104, "dead"), (105, "due"),
                                                   (110, "unmade"))]
    log += [sent("dead", 0, "%DLQ%billing", 10, RETRY_TOPIC="t")]
    found = verdicts(spark, stubs, log, receipts=[("orphaned", "billing", NOW)], groups=[("twice", "g", "CONFIRMED")],
                     effects=[("fine", "g", NOW - HOUR // 2 + 60_000), ("late", "g", NOW - HOUR // 2 + 60_001),
                              ("twice", "g", 0), ("twice", "g", 1), ("two groups", "g", 0), ("two groups", "h", 0)])
    assert told(found, "verdict") == {
        "fine": "fine", "late": "late", "twice": "twice", "two groups": "fine", "voided": "voided",
        "waiting": "waiting", "unsent": "waiting", "never sent": "stuck", "lost": "lost", "behind the end": "lost",
        "of another broker": "unknown", "removed": "unknown", "nowhere": "unknown", "parked": "stuck",
        "dead": "stuck", "due": "stuck", "unmade": "unmade", "orphaned": "orphaned"}
    assert [found[each]["is_again"] for each in ("lost", "behind the end", "removed", "waiting", "fine")] == [
        True, True, False, False, False]


def test_a_place_whose_queue_was_not_read_or_has_lost_its_beginning_says_nothing(spark):
    stubs = [stub("elsewhere", 105, queue_id=1), stub("of a broker that is away", 105, broker_name="b"),
             stub("kept no more", 99), stub("the first that is kept", 100)]
    assert told(verdicts(spark, stubs, []), "verdict", "why") == {
        "elsewhere": ("unknown", "its queue was not read"),
        "of a broker that is away": ("unknown", "its queue was not read"),
        "kept no more": ("unknown", "its queue keeps its place no more"),
        "the first that is kept": ("lost", "its place was looked at, and it is not there")}


def test_what_came_while_the_job_read_is_neither_lost_nor_unmade(spark):
    """Its queue ended at 200 at first, and at 300 when all was read."""
    log = [sent("unmade", 199), sent("committed behind it", 200)]
    stubs = [stub("known", 199), stub("new", 200), stub("newest", 299), stub("beyond", 300)]
    assert told(verdicts(spark, stubs, log, ends=[("t", "a", 0, 200, 100, 300)]), "verdict") == {
        "unmade": "unmade", "known": "lost", "new": "waiting", "newest": "waiting", "beyond": "lost"}


def test_a_message_that_is_older_than_stubs_are_kept_is_not_unmade(spark):
    assert told(verdicts(spark, [], [sent("old", 150, ms=-HOUR - 1), sent("kept", 151, ms=-HOUR)]), "verdict") == {
        "kept": "unmade"}


def test_a_copy_that_waits_or_is_tried_again_is_there(spark):
    log = [sent("delayed", 0, "SCHEDULE_TOPIC_XXXX", REAL_TOPIC="t"), sent("retried", 0, "%RETRY%billing"),
           sent("stray", 1, "%RETRY%billing")]
    stubs = [stub("delayed", None, queue_id=3), stub("retried", 105)]
    assert told(verdicts(spark, stubs, log), "verdict") == {"delayed": "waiting", "retried": "waiting"}


def test_a_dead_letter_that_was_sent_again_by_hand_is_on_its_way(spark):
    log = [sent("again", 101, ms=1), sent("again", 0, "%DLQ%billing", 2), sent("again", 102, ms=3)]
    assert told(verdicts(spark, [stub("again", 102)], log), "verdict") == {"again": "waiting"}


def test_why_a_stub_is_stuck(spark):
    due = {"resend_time": 0}
    stubs = [stub("spent", 101, send_count=16, **due), stub("old", 102, first_send_time=0, **due),
             stub("left behind", 103, **due),
             stub("down", 104, queue_id=1, first_send_time=NOW - DOWN - 1, **due),
             stub("manual, never sent", None, send_count=0, is_manual=True), stub("manual", None, is_manual=True)]
    for each in stubs:
        each["create_time"] = NOW - DOWN - 1
    log = [sent(each, number) for number, each in ((101, "spent"), (102, "old"), (103, "left behind"), (104, "down"))]
    found = verdicts(spark, stubs, log, receipts=[("left behind", "billing", NOW - STALE - 1)],
                     ends=[("t", "a", 0, 200, 100, 200), ("t", "a", 1, 200, 100, 200)])
    assert told(found, "verdict", "why") == {
        "spent": ("stuck", "sent as often, or as long, as may be"),
        "old": ("stuck", "sent as often, or as long, as may be"),
        "left behind": ("stuck", "received long ago and not finished"),
        "down": ("stuck", "no consumer gets on in its queue"),      # nobody ever began there
        "manual, never sent": ("stuck", "waits for a human"), "manual": ("stuck", "waits for a human")}


def test_a_lost_stub_is_sent_again_by_the_rules_of_the_relay_or_it_is_said_why_not(spark):
    stubs = [stub("again", 101), stub("behind", 102), stub("received long ago", 103), stub("held", 104),
             stub("spent", 105, send_count=16), stub("manual", 106, is_manual=True),
             stub("nowhere", None, resend_time=NOW), stub("not due", None)]
    receipts = [("received long ago", "billing", NOW - STALE - 1), ("held", "billing", NOW)]
    found = verdicts(spark, stubs, [], receipts=receipts, marks=[], log_since_ms=NOW - HOUR)
    assert told(found, "verdict", "is_again", "why_not") == {
        "again": ("lost", True, None), "behind": ("lost", True, None), "received long ago": ("lost", True, None),
        "held": ("lost", False, "a consumer received it"),
        "spent": ("lost", False, "sent as often, or as long, as may be"),
        "manual": ("lost", False, "waits for a human"),
        "nowhere": ("lost", False, "has no place, and comes due by itself"), "not due": ("waiting", False, None)}


@pytest.mark.parametrize(("since", "verdict"), [(NOW - HOUR // 2, "lost"), (NOW - HOUR // 2 + 1, "unknown"),
                                                (None, "unknown")])
def test_a_stub_without_a_place_is_lost_only_by_a_log_that_is_whole(spark, since, verdict):
    found = verdicts(spark, [stub("nowhere", None, resend_time=NOW)], [], log_since_ms=since)
    assert told(found, "verdict") == {"nowhere": verdict}


def test_an_effect_that_is_told_and_not_yet_confirmed_is_not_lost(spark):
    """A consumer with a database of its own said so on the topic of confirmations."""
    confirmed = [sent(each, number, "confirmations", 3_600_000 - 60_000 - (each == "late"), CONSUMER_GROUP=group)
                 for number, (each, group) in enumerate([("told", "g"), ("late", "g"), ("half", "g"), ("both", "g"),
                                                         ("both", "h"), ("rest", "g")])]
    groups = [("half", "g", "UNCONFIRMED"), ("half", "h", "UNCONFIRMED"), ("both", "g", "UNCONFIRMED"),
              ("both", "h", "UNCONFIRMED"), ("rest", "g", "UNCONFIRMED"), ("rest", "h", "CONFIRMED")]
    stubs = [stub(each, 150) for each in ("told", "late", "half", "both", "rest")]
    found = verdicts(spark, stubs, [], told=confirmed, groups=groups)
    assert told(found, "verdict") == {"told": "waiting", "late": "stuck", "half": "lost", "both": "waiting",
                                      "rest": "waiting"}
