"""The job `search`: finds messages by key, id, time, tag or any condition, in logs and archives.

A unique key has the time within its month at which it was made. So the message is first searched from that time on, and
only if it is not found, in everything that is kept. Messages outside of a time window are not read: statistics exclude
files and row groups of an archive, and queues exclude ranges of a log. Whatever is read is compared exactly.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.client.core.unique_key_time import search_from_ms
from regulus.errors import JobRefused
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.progress import Say, say_nothing

COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "message_id", "offset_message_id", "message_type",
           "keys", "tags", "properties", "body", "born_time", "store_time", "born_host", "reconsume_times",
           "physical_offset", "origin_topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """`topics` is empty for all, including retries and dead letters. All conditions that are given must be true.

    `message_id` is a unique key or an offset message id. `where` is a condition in SQL over the columns.
    """

    source: LogSource
    topics: tuple[str, ...] = ()
    key: str | None = None
    message_id: str | None = None
    tag: str | None = None
    where: str | None = None
    starting: datetime | None = None
    ending: datetime | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        """Raises JobRefused when no condition is given."""
        if not any((self.key, self.message_id, self.tag, self.where, self.starting, self.ending)):
            raise JobRefused("it is not said what to look for: give a key, an id, a tag, a time or a condition")


def search(spark: SparkSession, request: SearchRequest, now: datetime, say: Say = say_nothing) -> DataFrame:
    """The messages, COLUMNS, the oldest first, at most `limit`.

    Raises JobRefused for a topic that does not exist.
    """
    request = replace(request, source=request.source.listed(spark))
    request.source.check(spark, *request.topics)
    topics = sorted(request.topics or request.source.topics(spark))
    made = search_from_ms(request.message_id or "", round(now.timestamp() * 1000))
    if made and request.starting is None:
        since = datetime.fromtimestamp(made / 1000, UTC)
        say(f"the id was made {since.isoformat(timespec='seconds')} at the earliest, unless it is older than a month")
        found = _found(spark, replace(request, starting=since), topics)
        if not found.isEmpty():
            return found
        say("it is not there; looking at all that is kept")
    return _found(spark, request, topics)


def _found(spark: SparkSession, request: SearchRequest, topics: list[str]) -> DataFrame:
    source = request.source if request.tag is None else request.source.with_options(tags=request.tag)
    rows = source.messages(spark, topics, COLUMNS, request.starting, request.ending)
    for condition in _conditions(request):
        rows = rows.where(condition)
    return rows.orderBy("store_time", "broker_name", "physical_offset").limit(request.limit)


def _conditions(request: SearchRequest) -> list[Column]:
    conditions = []
    if request.key is not None:
        # The second condition is the exact one; the first is of a kind that a source can apply itself.
        conditions += [F.col("keys").contains(request.key), F.array_contains(F.split("keys", " "), request.key)]
    if request.message_id is not None:
        wanted = request.message_id.upper()
        conditions.append((F.col("message_id") == request.message_id) | (F.col("offset_message_id") == wanted))
    if request.tag is not None:
        conditions.append(F.col("tags") == request.tag)
    if request.where is not None:
        conditions.append(F.expr(request.where))
    return conditions
