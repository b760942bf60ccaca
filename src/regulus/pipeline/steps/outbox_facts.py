"""Collects what is known of each business id: its stub, its messages, its groups' rows, and the facts for the rules.

The rows of all tables except that of the stubs are united and grouped by their id. So ten million of each are sorted
once, and not once for each table.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.model import message_properties as names
from regulus.model.resend_rules import FACTS, ResendAction, ResendLimits, resend_rules
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

QUEUE = ("topic", "broker_name", "queue_id")
_OF_AN_ID = {"log_copies": "int", "is_early": "boolean", "copy_time": "bigint", "dead_time": "bigint",
             "told_group": "string", "told_time": "bigint", "group_row": "struct<name:string,status:string>",
             "receipt": "struct<name:string,time:bigint>", "applied_group": "string", "applied_time": "bigint"}
"""The columns of united rows; the rows of each table fill some of them."""


def log_rows(messages: DataFrame, ends: DataFrame, kept_since_ms: int) -> DataFrame:
    """The rows from the log.

    `messages`: `topic, broker_name, queue_id, queue_offset, store_time, properties`. `ends`: QUEUE and `known_end`, of
    the stubs' topics, from before the stubs were read. A message before that end, and not older than stubs are kept,
    had its stub when it was stored.
    """
    topic, properties = F.col("topic"), F.col("properties")
    stored = F.unix_millis("store_time")
    is_copy = ~(topic.startswith(RETRY_PREFIX) | topic.startswith(DLQ_PREFIX)
                | topic.isin(SCHEDULE_TOPIC, TIMER_TOPIC))
    early = is_copy & F.coalesce(F.col("queue_offset") < F.col("known_end"), F.lit(False)) & (stored >= kept_since_ms)
    rows = messages.join(F.broadcast(ends.select(*QUEUE, "known_end")), list(QUEUE), "left")
    return rows.select(
        properties[names.BUSINESS_ID].alias("message_id"), F.lit(1).alias("log_copies"), early.alias("is_early"),
        F.when(is_copy, stored).alias("copy_time"), F.when(topic.startswith(DLQ_PREFIX), stored).alias("dead_time"))


def told_rows(messages: DataFrame, group_property: str) -> DataFrame:
    """The rows from the topic of confirmations, on which consumers with a separate database report. The columns of
    `messages` are the same."""
    properties = F.col("properties")
    return messages.select(
        properties[names.BUSINESS_ID].alias("message_id"), F.coalesce(properties[group_property], F.lit("")).alias(
            "told_group"), F.unix_millis("store_time").alias("told_time"))


def group_rows(confirmations: DataFrame) -> DataFrame:
    """The rows from `confirmations`: `message_id, consumer_group, status`."""
    return confirmations.select("message_id", F.struct(F.col("consumer_group").alias("name"), "status")
                                .alias("group_row"))


def receipt_rows(message_log: DataFrame) -> DataFrame:
    """The rows from `message_log`: `message_id, consumer_group, receive_time`."""
    return message_log.select("message_id", F.struct(F.col("consumer_group").alias("name"),
                                                     F.col("receive_time").alias("time")).alias("receipt"))


def applied_rows(attempts: DataFrame) -> DataFrame:
    """The rows from `attempts`: `message_id, consumer_group, end_time`, only those of effects."""
    return attempts.select("message_id", F.coalesce("consumer_group", F.lit("")).alias("applied_group"),
                           F.col("end_time").alias("applied_time"))


def accounts(stubs: DataFrame, rows: list[DataFrame], watermarks: DataFrame) -> DataFrame:
    """One row for each id: the stub's columns, null if there is none; the columns from `rows`, which the functions
    above make; and FACTS.

    `stubs`: the rows of `regulus_stub`. `watermarks`: `consumer_group, topic, broker_name, queue_id, queue_offset_max,
    move_time`. The columns from `rows`: `is_in_log, is_early, copy_time, dead_time, told_groups, told_time, groups` and
    `receipts` (arrays), `effects, effect_groups, applied_time`.
    """
    of_ids = reduce(DataFrame.unionByName, map(_whole, rows)).where("message_id IS NOT NULL")
    known = of_ids.groupBy("message_id").agg(
        (F.count("log_copies") > 0).alias("is_in_log"), F.max("is_early").alias("is_early"),
        F.max("copy_time").alias("copy_time"), F.max("dead_time").alias("dead_time"),
        F.collect_set("told_group").alias("told_groups"), F.max("told_time").alias("told_time"),
        F.collect_list("group_row").alias("groups"), F.collect_list("receipt").alias("receipts"),
        F.count("applied_group").alias("effects"), F.size(F.collect_set("applied_group")).alias("effect_groups"),
        F.max("applied_time").alias("applied_time"))
    together = stubs.join(known, "message_id", "full")
    return _with_facts(together.join(F.broadcast(_marks(watermarks)), list(QUEUE), "left"))


def action_of(limits: ResendLimits, **facts: Column) -> Column:
    """The action that the rules decide for a row with the columns FACTS; `facts` replaces some of them."""
    (first, then), *others = resend_rules({name: facts.get(name, F.col(name)) for name in FACTS}, limits)
    chosen = F.when(first, then.value)
    for condition, action in others:
        chosen = chosen.when(condition, action.value)
    return chosen.otherwise(ResendAction.RESEND.value)


def _whole(rows: DataFrame) -> DataFrame:
    """Add the columns that the rows do not have, as nulls."""
    return rows.select("message_id", *[
        (F.col(name) if name in rows.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in _OF_AN_ID.items()])


def _marks(watermarks: DataFrame) -> DataFrame:
    """A row for each queue: the furthest offset of any group, and the offset of each group by its name."""
    mark = F.struct(F.col("queue_offset_max").alias("reached"), F.col("move_time").alias("moved"))
    return watermarks.groupBy(*QUEUE).agg(
        F.max("queue_offset_max").alias("any_reached"), F.max("move_time").alias("any_moved"),
        F.map_from_entries(F.collect_list(F.struct("consumer_group", mark))).alias("by_group"))


def _with_facts(rows: DataFrame) -> DataFrame:
    """Add FACTS, which depend on the unfinished groups of a stub. `outbox_table` computes them in SQL for the relay."""
    is_open: Column = F.lit("UNCONFIRMED")
    waited_for = F.transform(F.filter("groups", lambda each: each["status"] == is_open),
                             lambda each: F.try_element_at("by_group", each["name"]))
    done = F.transform(F.filter("groups", lambda each: each["status"] != is_open), lambda each: each["name"])
    held = F.filter("receipts", lambda each: ~F.array_contains(F.coalesce("done", F.array().cast("array<string>")),
                                                               each["name"]))
    rows = rows.withColumns({"waited_for": waited_for, "done": done})
    lags = F.exists("waited_for", lambda each: each.isNull() | (each["reached"] <= F.col("queue_offset")))
    has_passed = F.coalesce(F.col("any_reached") > F.col("queue_offset"), F.lit(False))
    never_began = F.exists("waited_for", lambda each: each.isNull())
    moved = F.array_min(F.transform("waited_for", lambda each: each["moved"]))
    no = F.lit(False)
    return rows.withColumns({
        "is_behind": F.col("queue_offset").isNotNull() & (~has_passed | F.coalesce(lags, no)),
        "log_time": F.array_max(F.transform(held, lambda each: each["time"])),
        "move_time": F.when(F.coalesce(never_began, no), F.col("create_time")).otherwise(
            F.coalesce(moved, F.col("any_moved"), F.col("create_time"))),
    }).drop("waited_for", "done", "by_group", "any_reached", "any_moved")
