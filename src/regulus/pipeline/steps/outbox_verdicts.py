"""Computes the verdict on each stub of an outbox, from its row, the log and the records of consumers.

| verdict | stub | log | |
|---|---|---|---|
| fine | confirmed | | |
| late | confirmed | | its effect came later than the limit |
| twice | | | a group has more than one effect |
| voided | voided | | |
| unmade | none | yes | |
| orphaned | none | no | a receipt or a group's row is left |
| lost | sent, open | no | its place was read, and the message is not there |
| unknown | sent, open | no | its place was not read, or is no longer kept |
| stuck | open | | a human, a consumer or a relay has to do something |
| waiting | open | | it is on its normal way |

A stub is lost only if its place was read: a queue that was not read does not show that a message is missing. `again`
and `why_not` are for lost stubs: whether the rules allow sending it again, or why not.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.model.resend_rules import ResendAction, ResendLimits
from regulus.pipeline.steps.outbox_facts import QUEUE, action_of

FINE, LATE, TWICE, VOIDED, UNMADE, ORPHANED = "fine", "late", "twice", "voided", "unmade", "orphaned"
LOST, UNKNOWN, STUCK, WAITING = "lost", "unknown", "stuck", "waiting"
GOOD_VERDICTS = (FINE, VOIDED, WAITING)

IS_HUMANS = "waits for a human"
IS_HELD = "a consumer received it"
IS_SPENT = "sent as often, or as long, as may be"
IS_DUE = "has no place, and comes due by itself"

_GONE, _SINCE, _NOT_READ, _NOT_KEPT = "gone", "since", "its queue was not read", "its queue keeps its place no more"
_WHY_NOT = {ResendAction.NOTHING: IS_HUMANS, ResendAction.WAIT: IS_HELD, ResendAction.MANUAL: IS_SPENT}
_AGAIN = (ResendAction.RESEND.value, ResendAction.RESEND_AND_TELL.value)
COLUMNS = ("message_id", "verdict", "why", *QUEUE, "queue_offset", "status", "send_count", "create_time", "resend_time",
           "version", "is_again", "why_not")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimits:
    """`late_ms`: the time after which an effect is late, or a due stub is stuck.

    `log_since_ms`: the time from which on everything that was sent is in the log of the brokers; None if it is not said
    that these are all brokers.
    """

    resend: ResendLimits
    late_ms: int = 60_000
    log_since_ms: int | None = None


def outbox_verdicts(accounts: DataFrame, ends: DataFrame, limits: OutboxLimits) -> DataFrame:
    """One row of COLUMNS for each stub, and for each id that should have a stub and has none.

    `ends`: QUEUE, `known_end` from before the stubs were read, and `begin` and `end` from after it.
    """
    rows = accounts.join(F.broadcast(ends), list(QUEUE), "left").withColumns({
        "place": _place(), "action": action_of(limits.resend)})
    # A lost message is not in the backlog, and there is no time to wait for. Only the fact that a group may have
    # received it still counts.
    again = action_of(limits.resend, resend_time=F.lit(0), is_behind=F.lit(False))
    judged = rows.withColumn("judged", _verdict(limits)).where("judged IS NOT NULL").withColumns({
        "verdict": F.col("judged.verdict"), "why": F.col("judged.why"), "again": again})
    is_gone = (F.col("verdict") == LOST) & (F.col("place") == _GONE)
    is_again = F.coalesce(is_gone & F.col("again").isin(*_AGAIN), F.lit(False))
    why_not = F.when(F.col("place").isNull(), IS_DUE)
    for action, says in _WHY_NOT.items():
        why_not = why_not.when(F.col("again") == action.value, says)
    return judged.withColumns({
        "is_again": is_again, "why_not": F.when((F.col("verdict") == LOST) & ~is_again, why_not)}).select(*COLUMNS)


def needs_log_since() -> Column:
    """Whether only a complete log can show that a stub is lost."""
    return F.expr("status = 'UNCONFIRMED' AND send_count > 0 AND queue_offset IS NULL AND is_in_log IS NOT TRUE")


def _place() -> Column:
    """What is known of the place of a stub whose message was not found, if it has one."""
    at = F.col("queue_offset")
    return (F.when(at.isNull(), None)
            .when(F.col("known_end").isNull() | F.col("end").isNull(), _NOT_READ)
            .when(at < F.col("begin"), _NOT_KEPT)
            .when(at >= F.col("end"), _GONE)
            .when(at >= F.col("known_end"), _SINCE)
            .otherwise(_GONE))


def _verdict(limits: OutboxLimits) -> Column:
    """`verdict, why`; null for an id that needs no verdict."""
    has_stub, status = F.col("status").isNotNull(), F.col("status")
    has_rows = F.coalesce((F.size("groups") > 0) | (F.size("receipts") > 0), F.lit(False))
    in_log = F.coalesce("is_in_log", F.lit(False))
    is_late = F.col("applied_time") - F.col("create_time") > limits.late_ms
    return (
        F.when(F.col("effects") > F.col("effect_groups"), _is(TWICE, "a group has more than one effect"))
        .when(~has_stub & F.col("is_early"), _is(UNMADE, "nobody committed it"))
        .when(~has_stub & ~in_log & has_rows, _is(ORPHANED, "rows of an id that has neither stub nor message"))
        .when(~has_stub, None)
        .when(status == "VOIDED", _is(VOIDED))
        .when((status == "CONFIRMED") & is_late, _is(LATE, "its effect came later than the limit"))
        .when(status == "CONFIRMED", _is(FINE))
        .when(_is_told(), _if_late("told_time", limits, "its confirmation is at the broker, and nobody consumes it"))
        .when(F.col("send_count") == 0, _unsent(limits))
        .otherwise(F.when(in_log, _in_log(limits)).otherwise(_not_in_log(limits))))


def _in_log(limits: OutboxLimits) -> Column:
    action = F.col("action")
    is_dead = F.col("dead_time") > F.coalesce("copy_time", F.lit(0))
    return (
        F.when(is_dead, _is(STUCK, "a dead letter"))
        .when(F.col("is_manual"), _is(STUCK, IS_HUMANS))
        .when(action == ResendAction.MANUAL.value, _is(STUCK, IS_SPENT))
        .when(action == ResendAction.CONSUMER_DOWN.value, _is(STUCK, "no consumer gets on in its queue"))
        .when(action == ResendAction.RESEND_AND_TELL.value, _is(STUCK, "received long ago and not finished"))
        .when(action == ResendAction.RESEND.value, _if_late("resend_time", limits, "due, and no relay sends it again"))
        .otherwise(_is(WAITING)))


def _not_in_log(limits: OutboxLimits) -> Column:
    place = F.col("place")
    is_whole = F.lit(False) if limits.log_since_ms is None else F.coalesce(
        F.col("first_send_time") >= limits.log_since_ms, F.lit(False))
    return (
        F.when(place == _GONE, _is(LOST, "its place was looked at, and it is not there"))
        .when(place == _SINCE, _is(WAITING))
        .when(place.isNotNull(), F.struct(F.lit(UNKNOWN).alias("verdict"), place.alias("why")))
        .when(F.col("is_manual"), _is(STUCK, IS_HUMANS))
        .when(F.col("action") == ResendAction.WAIT.value, _is(WAITING))
        .when(is_whole, _is(LOST, "it is at none of the brokers"))
        .otherwise(_is(UNKNOWN, "where it was sent to is not known")))


def _unsent(limits: OutboxLimits) -> Column:
    return F.when(F.col("is_manual"), _is(STUCK, IS_HUMANS)).otherwise(
        _if_late("resend_time", limits, "due, and no relay sends it"))


def _is_told() -> Column:
    """Whether all groups for which the stub waits have reported on the topic of confirmations that they are done."""
    open_groups = F.transform(F.filter("groups", lambda each: each["status"] == "UNCONFIRMED"),
                              lambda each: each["name"])
    are_told = F.forall(open_groups, lambda name: F.array_contains("told_groups", name))
    return F.coalesce((F.size("told_groups") > 0) & are_told, F.lit(False))


def _if_late(time: str, limits: OutboxLimits, why: str) -> Column:
    return F.when(F.col(time) < limits.resend.now_ms - limits.late_ms, _is(STUCK, why)).otherwise(_is(WAITING))


def _is(verdict: str, why: str | None = None) -> Column:
    return F.struct(F.lit(verdict).alias("verdict"), F.lit(why).cast("string").alias("why"))
