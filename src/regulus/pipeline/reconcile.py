"""The job `reconcile`: what business tables promised and did, against the log; and the lost messages sent again.

A stub is a row that says a message is to be sent, written with the business itself. A stub that is in no log is lost,
and is sent from its own columns with its key; a second run finds it in the log. Verdicts go to a table that the user
names, through a staging table and one statement, so that the table has all of a run's verdicts or none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.model.message_properties import REAL_TOPIC, RETRY_TOPIC
from regulus.model.topics import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC, dlq_topic, retry_topic
from regulus.pipeline.log_source import LogSource
from regulus.pipeline.outside_tables import OutsideTable, as_time
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.sending import RESEND_OF, Target, send, written_down
from regulus.pipeline.steps.verdicts import (
    FINE,
    LOST,
    WAITING,
    Limits,
    key_verdicts,
    log_complete_since,
    verdict_counts,
)

_COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "message_id", "keys", "born_time", "store_time")
_COPY_COLUMNS = (*_COLUMNS, "properties", "deliver_time")
_HALF_COLUMNS = (*_COPY_COLUMNS, "body")
VERDICT_SCHEMA = "key TEXT, verdict TEXT, decided_ms BIGINT, sent_ms BIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class StubColumns:
    """The columns of the stub table. What is needed to send a lost one: `body`, and `tags` where there are any.

    `mark`: a column that gets the verdict of each key that is not fine.
    """

    key: str = "key"
    created: str | None = None
    body: str | None = None
    tags: str | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRequest:
    """`effects`: `key string, applied_time timestamp`. `verdicts`: the table that keeps them, made when it is missing.

    `target` None is a dry run: nothing is sent and no table is written to.
    """

    source: LogSource
    topic: str
    stubs: OutsideTable
    columns: StubColumns
    effects: DataFrame | None = None
    group: str | None = None
    late_ms: int = 60_000
    verdicts: OutsideTable | None = None
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """`counts`: verdict -> keys. `frame` has a row a key and is kept by Spark until `close`."""

    counts: dict[str, int]
    frame: DataFrame
    sent: int | None = None
    written: int = 0

    def close(self) -> None:
        self.frame.unpersist()

    def sentence(self) -> str:
        found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.counts.items())) or "no keys"
        if self.sent is None:
            return f"{found}; nothing sent, nothing written: this was a dry run"
        return f"{found}; {self.sent} sent again, {self.written} verdicts written"


def reconcile(spark: SparkSession, request: ReconcileRequest, now: datetime, run: int,
              say: Say = say_nothing) -> ReconcileReport:
    """`run` numbers the runs, ascending, such as ms since 1970.

    Raises JobRefused for a table or column that is not there, and for lost stubs that have nothing to send.
    """
    request = replace(request, source=request.source.listed(spark))
    request.source.check(spark, request.topic)
    stubs = _stubs(spark, request)
    # Stubs are read before the log: one made in between is then not asked for, and one that is, was sent by now or
    # belongs to those that have time left.
    frame = stubs.persist(StorageLevel.MEMORY_AND_DISK)
    say(f"{frame.count()} stubs in {request.stubs.table or request.stubs.place}; reading {request.topic} from "
        f"{request.source.name}")
    messages = _messages(spark, request)
    own = messages.where(F.col("topic") == request.topic)
    limits = Limits(now=now, late_ms=request.late_ms, log_since=log_complete_since(own))
    verdicts = key_verdicts(messages, limits, frame.select("key", "created_time"), request.effects).persist(
        StorageLevel.MEMORY_AND_DISK)
    counts = {row["verdict"]: row["keys"] for row in verdict_counts(verdicts).collect()}
    sent, written = None, 0
    if request.target is not None:
        sent = _send_lost(frame, verdicts, request, request.target, run, say)
        written = _write(verdicts, request, run, say)
    frame.unpersist()
    return ReconcileReport(counts=counts, frame=verdicts, sent=sent, written=written)


def _stubs(spark: SparkSession, request: ReconcileRequest) -> DataFrame:
    wanted = request.columns
    named = {"key": wanted.key, "created": wanted.created, "body": wanted.body, "tags": wanted.tags}
    rows = request.stubs.read(spark, {new: old for new, old in named.items() if old})
    created = as_time(rows, "created") if wanted.created else F.lit(None).cast("timestamp")
    body = F.col("body").cast("binary") if wanted.body else F.lit(None).cast("binary")
    tags = F.col("tags").cast("string") if wanted.tags else F.lit(None).cast("string")
    return rows.select(F.col("key").cast("string").alias("key"), created.alias("created_time"), body.alias("body"),
                       tags.alias("tags"))


def _messages(spark: SparkSession, request: ReconcileRequest) -> DataFrame:
    there = partial(request.source.there, spark)
    copies = there(SCHEDULE_TOPIC, *((retry_topic(request.group), dlq_topic(request.group)) if request.group else ()))
    halves = there(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    rows = request.source.messages_in_parts(
        spark, {(request.topic,): _COLUMNS, tuple(copies): _COPY_COLUMNS, tuple(halves): _HALF_COLUMNS})
    home: Column = F.coalesce(F.col("properties")[RETRY_TOPIC], F.col("properties")[REAL_TOPIC])
    mine = F.coalesce(home == request.topic, F.lit(False))
    return rows.where(F.col("topic").isin(request.topic, TRANS_OP_HALF_TOPIC) | mine)


def _send_lost(stubs: DataFrame, verdicts: DataFrame, request: ReconcileRequest, target: Target, run: int,
               say: Say) -> int:
    lost = stubs.join(verdicts.where(F.col("verdict") == LOST).select("key"), "key").dropDuplicates(["key"])
    rows = lost.select(
        F.lit(request.topic).alias("topic"), "body", F.col("key").alias("keys"), "tags",
        F.create_map(F.lit(RESEND_OF), F.col("key")).alias("properties"))
    with written_down(rows, None, run) as (fixed, _):
        count = fixed.count()
        if count == 0:
            return 0
        if request.columns.body is None or fixed.where("body IS NULL OR length(body) = 0").limit(1).count():
            raise JobRefused(f"{count} stubs are lost and it is not said what to send, or some have nothing: name the "
                             "column of the stub table that has the message's body")
        say(f"sending {count} lost messages again")
        send(fixed, target)
        return count


def _write(verdicts: DataFrame, request: ReconcileRequest, run: int, say: Say) -> int:
    """All verdicts but `fine` and `waiting`; the number of them."""
    written = 0
    rest = verdicts.where(~F.col("verdict").isin(FINE, WAITING)).select("key", "verdict").orderBy("key")
    if request.verdicts is not None:
        say(f"writing verdicts to {request.verdicts.table}")
        written = request.verdicts.upsert(VERDICT_SCHEMA, "key", _verdict_rows(rest, run))
    if request.columns.mark is not None:
        marks = ({"key": row["key"], "value": row["verdict"]} for row in rest.toLocalIterator())
        written = max(written, request.stubs.mark(request.columns.key, request.columns.mark, marks))
    return written


def _verdict_rows(rest: DataFrame, run: int) -> Iterator[dict[str, Any]]:
    for row in rest.toLocalIterator():
        yield {"key": row["key"], "verdict": row["verdict"], "decided_ms": run,
               "sent_ms": run if row["verdict"] == LOST else None}
