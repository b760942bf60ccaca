"""The job `replay`: messages of a time range, from a log or an archive, once more into a topic.

The range is cut into slices of time, which are sent one after the other, each when its turn has come: at its old pace
times the speed, or as fast as it goes. A slice of a replay that is named has a number of its own at the broker; so the
same replay, started again after it failed, sends only what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.pipeline.log_source import LogSource
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.sending import REPLAY_OF, Target, anew, place_text, send
from regulus.pipeline.steps.message_facts import is_first_copy

COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "physical_offset", "keys", "tags", "properties", "body",
           "flag", "sharding_key", "store_time")
SLICE_SECONDS = 5
"""How long a slice lasts when it is sent; shorter ones cost more than they bring, for each is a job of its own."""

SLICES_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """`into` None: each message to the topic where it was. `speed`: 1 as it was, 2 twice as fast, None as fast as it
    goes. `where`: a condition in SQL over COLUMNS. `target` None is a dry run."""

    source: LogSource
    topics: tuple[str, ...]
    starting: datetime
    ending: datetime
    into: str | None = None
    speed: float | None = None
    where: str | None = None
    target: Target | None = None

    def __post_init__(self) -> None:
        if self.ending <= self.starting:
            raise JobRefused(f"the time range ends ({self.ending.isoformat()}) before it begins "
                             f"({self.starting.isoformat()})")
        if self.speed is not None and self.speed <= 0:
            raise JobRefused(f"the speed is {self.speed}: give a number above 0, or none for as fast as it goes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """`behind_ms`: how late the last slice was, because sending took longer than it may."""

    messages: int
    slices: int
    was_sent: bool
    seconds: float
    behind_ms: int = 0

    def sentence(self) -> str:
        if not self.was_sent:
            return f"{self.messages} messages to send in {self.slices} slices, at least {self.seconds:.0f} s"
        late = f", {self.behind_ms / 1000:.1f} s behind its pace" if self.behind_ms else ""
        return f"{self.messages} messages sent in {self.seconds:.1f} s{late}"


def replay(spark: SparkSession, request: ReplayRequest, clock: Callable[[], float], sleep: Callable[[float], None],
           say: Say = say_nothing) -> ReplayReport:
    """`clock` gives seconds, `sleep` waits so many. Raises JobRefused, and what source and sink raise."""
    request.source.check(spark, *request.topics)
    if request.target is not None and request.into is None:
        say("sending into the same topics: their consumers get the messages once more")
    slices = _slices(spark, request)
    messages = sum(count for _, count in slices)
    pace = _pace(request)
    if request.target is None:
        last = slices[-1][0] + 1 if slices else 0
        return ReplayReport(messages=messages, slices=len(slices), was_sent=False,
                            seconds=0.0 if request.speed is None else last * SLICE_SECONDS)
    begin = clock()
    behind, sent = 0.0, 0
    for number, count in slices:
        due = begin + (number * SLICE_SECONDS if request.speed is not None else 0)
        wait = due - clock()
        if request.speed is not None:
            if wait > 0:
                sleep(wait)
            behind = max(0.0, -wait)
        send(_slice(spark, request, number, pace), _numbered(request.target, number, count, request.speed))
        sent += count
        say(f"sent {sent} of {messages}")
    return ReplayReport(messages=messages, slices=len(slices), was_sent=True, seconds=clock() - begin,
                        behind_ms=round(behind * 1000))


def _pace(request: ReplayRequest) -> int:
    """Ms of the past that a slice holds."""
    span = round((request.ending - request.starting).total_seconds() * 1000)
    pace = span if request.speed is None else max(1, round(SLICE_SECONDS * 1000 * request.speed))
    if span > pace * SLICES_MAX:
        raise JobRefused(f"more than {SLICES_MAX} slices of {SLICE_SECONDS} s: replay a shorter range, or faster")
    return pace


def _slices(spark: SparkSession, request: ReplayRequest) -> list[tuple[int, int]]:
    """(number, messages) of the slices that have any, in order."""
    begin = round(request.starting.timestamp() * 1000)
    number = F.floor((F.unix_millis("store_time") - begin) / _pace(request)).cast("bigint")
    columns = COLUMNS if request.where else ("topic", "store_time")
    rows = _chosen(request.source.messages(spark, request.topics, columns, request.starting, request.ending), request)
    counted = rows.groupBy(number.alias("number")).agg(F.count("*").alias("messages")).orderBy("number")
    return [(row["number"], row["messages"]) for row in counted.collect()]


def _slice(spark: SparkSession, request: ReplayRequest, number: int, pace: int) -> DataFrame:
    begin = round(request.starting.timestamp() * 1000) + number * pace
    end = min(begin + pace, round(request.ending.timestamp() * 1000))
    start, stop = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (begin, end))
    rows = _chosen(request.source.messages(spark, request.topics, COLUMNS, start, stop), request)
    properties = anew(F.col("properties"), **{REPLAY_OF: place_text()})
    topic = F.col("topic") if request.into is None else F.lit(request.into)
    return rows.select(topic.alias("topic"), "body", "keys", "tags", properties.alias("properties"), "sharding_key",
                       "flag")


def _chosen(rows: DataFrame, request: ReplayRequest) -> DataFrame:
    rows = rows.where(is_first_copy())
    return rows.where(request.where) if request.where else rows


def _numbered(target: Target, number: int, count: int, speed: float | None) -> Target:
    """The target of one slice; at a pace its messages are spread over the slice's time unless a limit is given."""
    rate = target.rate_limit
    if rate is None and speed is not None:
        rate = max(1, -(-count // SLICE_SECONDS) + 1)
    return Target(name_server=target.name_server, sink_id=target.sink_id, run=target.run + number,
                  guarantee=target.guarantee, rate_limit=rate, credentials=target.credentials)
