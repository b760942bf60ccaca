"""The job `replay`: sends messages of a time range, from a log or an archive, into a topic again.

The range is divided into slices of time, which are sent one after the other: at the original pace times the speed, or
as fast as possible. Each message has in REPLAY_OF its old place and in REPLAY_ID the replay's name, so that a replay of
the same name, started again after it failed, sends only what the target lacks.

Each slice is read when its turn comes, and its messages may be gone by then. So the sent messages are counted, and the
replay ends with an error if they are fewer than planned.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import DataLoss, JobRefused
from regulus.model.redrive import REPLAY_ID, REPLAY_OF, names_of
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.jobs.sending import Places, Target, anew, place_text, places, send
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.message_facts import is_first_copy

COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "physical_offset", "offset_message_id", "keys", "tags",
           "properties", "body", "flag", "sharding_key", "store_time")
_PLACE_COLUMNS = ("topic", "queue_id", "queue_offset", "offset_message_id", "store_time")
SLICE_SECONDS = 5
"""Seconds that sending a slice takes. Shorter slices cost too much time, because each is a separate job of Spark."""

SLICES_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """`into` None: each message goes to its own topic. `speed`: 1 is the original pace, 2 twice as fast, None no limit.
    `where`: a condition in SQL over COLUMNS. `goes_on`: a replay of this name may have sent some already,
    which the target shows. A dry run looks there, too; without a target it is always a dry run.
    """

    source: LogSource
    name: str
    goes_on: bool = False
    topics: tuple[str, ...]
    starting: datetime
    ending: datetime
    into: str | None = None
    speed: float | None = None
    where: str | None = None
    target: Target | None = None
    is_dry_run: bool = False

    @property
    def reads_what_it_sends(self) -> bool:
        return self.into is None or self.into in self.topics

    def __post_init__(self) -> None:
        if self.ending <= self.starting:
            raise JobRefused(f"the time range ends ({self.ending.isoformat()}) before it begins "
                             f"({self.starting.isoformat()})")
        if self.speed is not None and self.speed <= 0:
            raise JobRefused(f"the speed is {self.speed}: give a number above 0, or none for as fast as it goes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """`messages`: the number sent, or in a dry run the number to send. `behind_ms`: how late the last slice was because
    sending took too long. `brokers`: the brokers that were checked."""

    messages: int
    slices: int
    was_sent: bool
    seconds: float
    behind_ms: int = 0
    brokers: tuple[str, ...] = ()

    def sentence(self) -> str:
        brokers = names_of(self.brokers)
        if not self.was_sent:
            return f"{self.messages} messages to send in {self.slices} slices, at least {self.seconds:.0f} s{brokers}"
        late = f", {self.behind_ms / 1000:.1f} s behind its pace" if self.behind_ms else ""
        return f"{self.messages} messages sent in {self.seconds:.1f} s{late}{brokers}"


def replay(spark: SparkSession, request: ReplayRequest, clock: Callable[[], float], sleep: Callable[[float], None],
           say: Say = say_nothing) -> ReplayReport:
    """Run the job. `clock` gives seconds, `sleep` waits for some seconds. Raises JobRefused, DataLoss for messages that
    are gone before they were sent, and the errors of source and sink."""
    where = places(spark, request.source, request.target, sends=not request.is_dry_run)
    request = replace(request, source=where.source)
    request.source.check(spark, *request.topics)
    if request.target is not None and not request.is_dry_run and request.into is None:
        say("sending into the same topics: their consumers get the messages once more")
    sent = _sent(spark, request, where) if request.goes_on and request.target else None
    slices = _slices(spark, request, sent)
    messages = sum(count for _, count in slices)
    if request.target is None or request.is_dry_run:
        span = slices[-1][0] + 1 - slices[0][0] if slices else 0
        return ReplayReport(messages=messages, slices=len(slices), was_sent=False,
                            seconds=0.0 if request.speed is None else span * SLICE_SECONDS,
                            brokers=where.target.brokers)
    begin = clock()
    behind, done = 0.0, 0
    for number, count in slices:
        if request.speed is not None:
            wait = begin + (number - slices[0][0]) * SLICE_SECONDS - clock()
            if wait > 0:
                sleep(wait)
            behind = max(0.0, -wait)
        found = send(_slice(spark, request, number, sent), _numbered(request.target, number, count, request.speed))
        done += found
        if found < count:
            start, stop = _times(request, number)
            raise DataLoss(f"of {start.isoformat()} to {stop.isoformat()} there were {count} messages to send when the "
                           f"replay began, and {found} when their turn came: retention took the others, or a topic was "
                           f"deleted; {done} of {messages} were sent in all")
        say(f"sent {done} of {messages}")
    return ReplayReport(messages=done, slices=len(slices), was_sent=True, seconds=clock() - begin,
                        behind_ms=round(behind * 1000), brokers=where.target.brokers)


def _sent(spark: SparkSession, request: ReplayRequest, where: Places) -> DataFrame | None:
    """The places of this replay's messages that the target has already; None when it has none."""
    brokers = where.target
    topics = brokers.there(spark, *(request.topics if request.into is None else (request.into,)))
    properties = F.col("properties")
    rows = brokers.messages(spark, topics, ("topic", "properties")).where(properties[REPLAY_ID] == request.name)
    found = rows.where(is_first_copy()).select(properties[REPLAY_OF].alias("place")).distinct()
    # Fix the places now, so that messages that this run sends do not count as sent before.
    fixed = found.localCheckpoint()
    return None if fixed.isEmpty() else fixed


def _pace(request: ReplayRequest) -> int:
    """Milliseconds of the time range in a slice."""
    span = round((request.ending - request.starting).total_seconds() * 1000)
    pace = span if request.speed is None else max(1, round(SLICE_SECONDS * 1000 * request.speed))
    if span > pace * SLICES_MAX:
        raise JobRefused(f"more than {SLICES_MAX} slices of {SLICE_SECONDS} s: replay a shorter range, or faster")
    return pace


def _slices(spark: SparkSession, request: ReplayRequest, sent: DataFrame | None) -> list[tuple[int, int]]:
    """(number, messages) of the slices that have messages to send, in order."""
    begin = round(request.starting.timestamp() * 1000)
    number = F.floor((F.unix_millis("store_time") - begin) / _pace(request)).cast("bigint")
    columns = COLUMNS if request.where else (*_PLACE_COLUMNS, "properties") if request.reads_what_it_sends else \
        _PLACE_COLUMNS
    rows = request.source.messages(spark, request.topics, columns, request.starting, request.ending)
    counted = _chosen(rows, request, sent).groupBy(number.alias("number")).agg(F.count("*").alias("messages"))
    return [(row["number"], row["messages"]) for row in counted.orderBy("number").collect()]


def _times(request: ReplayRequest, number: int) -> tuple[datetime, datetime]:
    """The start of a slice, and its end, which is not included."""
    pace = _pace(request)
    begin = round(request.starting.timestamp() * 1000) + number * pace
    end = min(begin + pace, round(request.ending.timestamp() * 1000))
    return datetime.fromtimestamp(begin / 1000, UTC), datetime.fromtimestamp(end / 1000, UTC)


def _slice(spark: SparkSession, request: ReplayRequest, number: int, sent: DataFrame | None) -> DataFrame:
    start, stop = _times(request, number)
    rows = _chosen(request.source.messages(spark, request.topics, COLUMNS, start, stop), request, sent)
    marks = {REPLAY_OF: F.col("place"), REPLAY_ID: F.lit(request.name)}
    topic = F.col("topic") if request.into is None else F.lit(request.into)
    return rows.select(topic.alias("topic"), "body", "keys", "tags",
                       anew(F.col("properties"), **marks).alias("properties"), "sharding_key", "flag")


def _chosen(rows: DataFrame, request: ReplayRequest, sent: DataFrame | None) -> DataFrame:
    """The rows to send, with their `place`. They keep their order, because Spark sends the places to all tasks.

    Messages that this replay itself sent into a topic that it reads are left out.
    """
    rows = rows.where(is_first_copy())
    if request.reads_what_it_sends:
        rows = rows.where(F.coalesce(F.col("properties")[REPLAY_ID] != request.name, F.lit(True)))
    if request.where:
        rows = rows.where(request.where)
    rows = rows.withColumn("place", place_text())
    return rows if sent is None else rows.join(F.broadcast(sent), "place", "left_anti")


def _numbered(target: Target, number: int, count: int, speed: float | None) -> Target:
    """The target of one slice, whose number is that of the sink's run.

    With a speed, its messages are spread over the slice's time, unless a limit is given.
    """
    rate = target.rate_limit
    if rate is None and speed is not None:
        rate = max(1, -(-count // SLICE_SECONDS) + 1)
    return replace(target, run=number, rate_limit=rate)
