"""Each business key gets the verdict that its stub, its messages and its effects add up to."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.frames import small_table
from tests.unit.pipeline.steps.rows import at, collected, effects, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
HOUR = 3_600_000


def stubs(spark: "SparkSession", *rows: tuple[str, int]) -> "DataFrame":
    return small_table(spark, [(key, at(ms)) for key, ms in rows], "key string, created_time timestamp")


def sent(key: str, ms: int = 0, topic: str = "t", **more: Any) -> dict[str, Any]:
    if topic == "SCHEDULE_TOPIC_XXXX":
        more = {"properties": {"REAL_TOPIC": more.pop("home", "%RETRY%g")}, **more}
    return {"topic": topic, "keys": key, "message_id": f"M-{key}", "born_time": at(ms), "store_time": at(ms), **more}


def verdicts(spark: "SparkSession", rows: list[dict[str, Any]], since: int | None = None,
             **tables: "DataFrame") -> dict[str, str]:
    from regulus.pipeline.steps.verdicts import Limits, key_verdicts

    limits = Limits(now=at(HOUR), late_ms=60_000, log_since=None if since is None else at(since))
    return dict(collected(key_verdicts(table(spark, rows), limits, **tables), "key", "verdict"))  # type: ignore[arg-type]


def test_every_verdict(spark: "SparkSession") -> None:
    rows = [sent("fine"), sent("unmade"), sent("twice"), sent("late"), sent("unseen"), sent("fresh", HOUR - 5),
            sent("retried"), sent("retried", 10, "%RETRY%g"), sent("dead"), sent("dead", 10, "%DLQ%g"),
            sent("half", 0, "RMQ_SYS_TRANS_HALF_TOPIC")]
    keys = ("fine", "twice", "late", "unseen", "fresh", "retried", "dead", "half", "lost", "made just now")
    made = stubs(spark, *[(key, HOUR - 5 if key == "made just now" else 0) for key in keys])
    done = effects(spark, ("fine", 9), ("twice", 9), ("twice", 10), ("late", 60_001), ("unmade", 5))
    assert verdicts(spark, rows, stubs=made, effects=done) == {
        "fine": "fine", "unmade": "unmade", "twice": "twice", "late": "late", "unseen": "no effect",
        "fresh": "waiting", "retried": "stuck", "dead": "dead letter", "half": "stuck", "lost": "lost",
        "made just now": "waiting"}


def test_a_limit_is_kept_by_who_just_reaches_it(spark: "SparkSession") -> None:
    """HOUR is now, and 60 s the limit: what is exactly that old, or took exactly that long, is not beyond it."""
    edge = HOUR - 60_000
    rows = [sent("slow"), sent("slower"), sent("unseen", edge), sent("unseen-for-long", edge - 1),
            sent("half", edge, "RMQ_SYS_TRANS_HALF_TOPIC"), sent("old-half", edge - 1, "RMQ_SYS_TRANS_HALF_TOPIC")]
    made = stubs(spark, ("slow", 0), ("slower", 0), ("unseen", 0), ("unseen-for-long", 0), ("half", 0), ("old-half", 0),
                 ("young", edge), ("old", edge - 1), ("as-old-as-the-log", 2000), ("older-than-the-log", 1999))
    done = effects(spark, ("slow", 60_000), ("slower", 60_001))
    assert verdicts(spark, rows, since=2000, stubs=made, effects=done) == {
        "slow": "fine", "slower": "late", "unseen": "waiting", "unseen-for-long": "no effect", "half": "waiting",
        "old-half": "stuck", "young": "waiting", "old": "lost", "as-old-as-the-log": "lost",
        "older-than-the-log": "forgotten"}


def test_without_stubs_nothing_is_unmade_and_without_effects_nothing_is_missing(spark: "SparkSession") -> None:
    rows = [sent("a"), sent("b"), sent("b", 10, "%DLQ%g")]
    assert verdicts(spark, rows) == {"a": "fine", "b": "dead letter"}
    assert verdicts(spark, rows, stubs=stubs(spark, ("a", 0), ("c", 0))) == {
        "a": "fine", "b": "unmade", "c": "lost"}


def test_a_stub_older_than_the_log_is_not_called_lost(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.verdicts import log_complete_since

    made = stubs(spark, ("old", 1000), ("new", 3000))
    rows = [sent("x", 2000, queue_offset=7)]
    assert verdicts(spark, rows, since=2000, stubs=made)["old"] == "forgotten"
    assert verdicts(spark, rows, since=2000, stubs=made)["new"] == "lost"
    assert log_complete_since(table(spark, rows)) == at(2000)
    assert log_complete_since(table(spark, [sent("x", 2000, queue_offset=0)])) is None


@pytest.mark.parametrize(("queues", "since"), [
    ([("a", 0, 3), ("b", 0, 0)], None), ([("a", 3, 3)], 2000), ([("b", 3, 3)], 9000),
    ([("a", 3, 3), ("b", 5, 5)], 9000)])
def test_of_an_emptied_queue_the_rest_of_the_log_tells_since_when_it_is_whole(
        spark: "SparkSession", queues: list[tuple[str, int, int]], since: int | None) -> None:
    from regulus.pipeline.steps.verdicts import emptied_queues_complete_since

    bounds = small_table(spark, queues, "broker_name string, min_offset bigint, max_offset bigint")
    rows = table(spark, [sent("x", 5000, queue_offset=1), sent("y", 2000, queue_offset=0)])
    found = emptied_queues_complete_since(rows, bounds, at(9000))
    assert found == (None if since is None else at(since))


def test_a_topic_is_as_old_as_at_the_broker_that_made_it_last(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.verdicts import topics_made

    bounds = small_table(spark, [("t", at(1)), ("t", at(5)), ("t", None), ("u", at(2)), ("of-rocketmq", None)],
                         "topic string, topic_made_time timestamp")
    assert topics_made(bounds) == {"t": at(5), "u": at(2)}


def test_a_shortened_log_is_whole_since_the_first_message_of_any_queue_of_its_brokers(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.verdicts import shortened_logs

    bounds = small_table(spark, [
        ("t", "a", at(7), True), ("other", "a", at(3), False), ("t", "b", at(5), True), ("t", "c", at(9), False),
        ("whole", "a", at(8), False), ("gone", "a", None, True), ("gone", "d", None, True), ("gone", "d", None, False)],
        "topic string, broker_name string, first_store_time timestamp, has_lost boolean")
    assert shortened_logs(bounds) == {"t": at(5), "gone": None}


def test_a_lost_send_whose_effect_is_there_is_fine(spark: "SparkSession") -> None:
    assert verdicts(spark, [], stubs=stubs(spark, ("a", 0)), effects=effects(spark, ("a", 1))) == {"a": "fine"}


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"])
def test_a_delayed_message_is_not_overdue_before_it_is_due(spark: "SparkSession", topic: str) -> None:
    parked = sent("a", 0, topic, properties={"REAL_TOPIC": "t"}, deliver_time=at(2 * HOUR))
    none = effects(spark)
    assert verdicts(spark, [parked], effects=none) == {"a": "waiting"}
    due = {**parked, "deliver_time": at(1000)}
    assert verdicts(spark, [due], effects=none) == {"a": "stuck"}
    assert verdicts(spark, [due, sent("a", 1000)], effects=none) == {"a": "no effect"}


TIMERS = "rmq_sys_wheel_timer"


def recall(message_id: str, home: str = "t") -> dict[str, Any]:
    """What a broker stores when a message is taken back."""
    return {"topic": TIMERS, "message_id": message_id, "body": b"0", "deliver_time": at(1000),
            "properties": {"REAL_TOPIC": home, "TIMER_DEL_UNIQKEY": f"{home}+{message_id}"}}


def test_what_was_taken_back_while_it_waited_is_recalled_and_not_stuck_or_lost(spark: "SparkSession") -> None:
    timed = {"topic": TIMERS, "properties": {"REAL_TOPIC": "t"}, "deliver_time": at(1000)}
    other = {**timed, "properties": {"REAL_TOPIC": "other"}}
    rows = [sent("back", 0, **timed), recall("M-back"), sent("stuck", 0, **timed), sent("elsewhere", 0, **timed),
            recall("M-elsewhere", "other"), sent("other", 0, **other),
            recall("M-other", "other"), {**sent("rolled", 0, **timed)}, {**sent("rolled", 9, **timed)},
            recall("M-rolled"), sent("again", 0, **timed), recall("M-again"), sent("again", 1000)]
    keys = ("back", "stuck", "elsewhere", "other", "rolled", "again")
    expected = {"back": "recalled", "stuck": "stuck", "elsewhere": "stuck", "other": "recalled", "rolled": "recalled",
                "again": "no effect"}
    none = effects(spark)
    assert verdicts(spark, rows, effects=none) == expected
    made = stubs(spark, *[(key, 0) for key in keys])
    assert verdicts(spark, rows, stubs=made, effects=none) == expected
    assert verdicts(spark, rows[:2], stubs=made.limit(1)) == {"back": "recalled"}


def test_what_was_to_wait_is_late_by_when_it_was_due(spark: "SparkSession") -> None:
    """A retry's delay is not one that was asked for."""
    timed = {"properties": {"TIMER_OUT_MS": "9"}, "deliver_time": at(600_000)}
    retried = {"topic": "SCHEDULE_TOPIC_XXXX", "properties": {"REAL_TOPIC": "%RETRY%g"}, "deliver_time": at(600_000)}
    rows = [sent("due", 0, **timed), sent("late", 0, **timed), sent("retried"), {**sent("retried"), **retried}]
    done = effects(spark, ("due", 660_000), ("late", 660_001), ("retried", 660_000))
    assert verdicts(spark, rows, effects=done) == {"due": "fine", "late": "late", "retried": "late"}


def test_a_half_that_was_ended_is_not_stuck(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.verdicts import open_halves

    half = "RMQ_SYS_TRANS_HALF_TOPIC"
    rows = [sent("a", topic=half, queue_offset=5), sent("b", topic=half, queue_offset=6),
            sent("a", topic=half, queue_offset=7), sent("c", topic=half, queue_offset=8),
            {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC", "body": b"5,8,"}]
    assert collected(open_halves(table(spark, rows)), "keys", "halves") == [("b", 1)]


def test_a_message_belongs_to_each_stub_that_one_of_its_keys_names(spark: "SparkSession") -> None:
    rows = [sent("customer order"), sent("a  b b"), sent("x y"), sent("p q", 0, "RMQ_SYS_TRANS_HALF_TOPIC"), sent(" ")]
    made = stubs(spark, ("order", 0), ("a", 0), ("b", 0), ("q", 0), ("lost", 0))
    assert verdicts(spark, rows, stubs=made, effects=effects(spark, *[(key, 5) for key in ("order", "a", "b")])) == {
        "order": "fine", "a": "fine", "b": "fine", "x": "unmade", "q": "stuck", "lost": "lost"}


def test_a_stub_that_is_not_due_is_not_lost(spark: "SparkSession") -> None:
    made = small_table(spark, [("void", at(0), False), ("due", at(0), True), ("void", at(0), None),
                               ("sent", at(0), False), ("again", at(0), False),
                               ("again", at(0), True)], "key string, created_time timestamp, is_due boolean")
    assert verdicts(spark, [sent("sent")], stubs=made) == {
        "void": "not due", "due": "lost", "sent": "fine", "again": "lost"}
    assert verdicts(spark, [], since=2000, stubs=made)["void"] == "not due"


def test_verdicts_are_counted(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.verdicts import Limits, key_verdicts, verdict_counts

    frame = key_verdicts(table(spark, [sent("a"), sent("b")]), Limits(now=at(0)))
    assert collected(verdict_counts(frame), "verdict", "keys") == [("fine", 2)]
