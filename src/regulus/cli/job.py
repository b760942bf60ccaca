"""`regulus job`: audits, searches and repairs over the log as a table. See docs/pipeline/jobs.md."""

import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import click

from regulus.cli.connection import Moment
from regulus.cli.job_outbox import outbox
from regulus.cli.job_run import Job, P, moment, shown, with_job
from regulus.cli.options import COUNT, LIMIT, Finite, names
from regulus.cli.output import print_facts, print_table
from regulus.errors import ClientError, JobRefused
from regulus.model.wording import counted
from regulus.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from regulus.pipeline.jobs.sending import Target
    from regulus.pipeline.tables.outside import OutsideTable

def outside(job: Job, text: str | None, key: str, time: str | None, time_name: str) -> "DataFrame | None":
    """A user's own table as keys with a time; None when none was named."""
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    if text is None:
        return None
    table: OutsideTable = parse_outside_table(text)
    return read_keys(job.spark, table, key, time, time_name)


def effects_options(command: Callable[P, Any]) -> Callable[P, Any]:
    for option in (
        click.option("--effects", metavar="TABLE", help="What the consumers did: sqlite:/path#table, "
                     "postgresql://user@host/db#table, mysql://user@host/db#table, jdbc:url#table, parquet:/path, "
                     "table:name."),
        click.option("--effects-key", default="key", show_default=True, help="The column with the business key."),
        click.option("--effects-time", help="The column with the time of the effect; ms or ISO 8601."),
    ):
        command = option(command)
    return command


@click.group()
def job() -> None:
    """Audit, search and repair, over the log as a table."""


job.add_command(outbox)


@job.command()
@click.option("--topic", "topics", required=True, multiple=True, help="May be given several times.")
@click.option("--group", help="The consumer group whose retries and dead letters belong to the topics.")
@effects_options
@click.option("--late-ms", type=LIMIT, default=60_000, show_default=True,
              help="From when on a message without an effect is missing it.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def audit(job: Job, topics: Sequence[str], group: str | None, effects: str | None, effects_key: str,
          effects_time: str | None, late_ms: int, starting: int | None, ending: int | None) -> None:
    """Holes, duplicates, order, missing effects and latency. Status 1 when a rule that must hold is broken."""
    from regulus.pipeline.jobs.audit import AuditRequest
    from regulus.pipeline.jobs.audit import audit as run

    request = AuditRequest(source=job.source, topics=tuple(topics), group=group, late_ms=late_ms,
                           effects=outside(job, effects, effects_key, effects_time, "applied_time"),
                           starting=moment(starting), ending=moment(ending))
    found = run(job.spark, request, datetime.now(UTC), job.say)
    sentence = found.sentence()
    if job.json_output:
        job.document(
            passed=found.passed, messages=found.messages, queues=found.queues, missing=found.missing,
            rules={result.rule.name: {"broken_by": result.count, "says": result.rule.says,
                                      "rows": [row.asDict() for row in job.some(result.offenders)]}
                   for result in found.results},
            verdicts=found.verdicts, latencies=[row.asDict() for row in found.latencies])
    else:
        broken = {f"{result.rule.name}, broken by {result.count}; the rule: {result.rule.says}":
                  job.some(result.offenders) for result in found.results if result.count}
        job.results()
        for title, rows in broken.items():
            job.table(title, rows)
        job.table("latency", found.latencies)
        keys = ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.items())
        click.echo(f"\nkeys: {keys or 'no message has one'}")
    job.verdict(sentence, "green" if found.passed else "red")
    if not found.passed:
        sys.exit(1)


@job.command()
@click.option("--group", "groups", multiple=True, help="May be given several times; all if not given.")
@effects_options
@click.option("--cause-property", "causes", multiple=True, help="A property in which consumers leave why they failed.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def retries(job: Job, groups: Sequence[str], effects: str | None, effects_key: str, effects_time: str | None,
            causes: Sequence[str], starting: int | None, ending: int | None) -> None:
    """Report retries and dead letters: which groups, how often, why, and how they ended."""
    from regulus.pipeline.jobs.retry_report import RetryRequest, retry_report

    request = RetryRequest(
        source=job.source, groups=tuple(groups), cause_properties=tuple(causes),
        effects=outside(job, effects, effects_key, effects_time, "applied_time"),
        starting=moment(starting), ending=moment(ending))
    report = retry_report(job.spark, request, job.say)
    tables = {"ladder": report.ladder, "dead letters": report.causes, "time to success": report.success}
    rows = _print_tables(job, tables)
    messages = sum(row["messages"] for row in rows["ladder"])
    dead = sum(row["dead_letters"] for row in rows["ladder"])
    job.verdict(f"{counted(messages, 'message')} retried in {counted(len(report.groups), 'group')}, "
                f"{counted(dead, 'dead letter')}" if messages else f"no retries in {len(report.groups)} groups")


@job.command()
@click.option("--topic", help="The trace topic, where it is not RMQ_SYS_TRACE_TOPIC.")
@click.option("--id", "message_id", help="Only this message.")
@click.option("--slow-ms", type=COUNT, default=1000, show_default=True)
@click.option("--spans", is_flag=True, help="Print the spans too.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def trace(job: Job, topic: str | None, message_id: str | None, slow_ms: int, spans: bool, starting: int | None,
          ending: int | None) -> None:
    """Report the clients' message trace: slow groups, and which clients send to which groups."""
    from regulus.model.topics import TRACE_TOPIC
    from regulus.pipeline.jobs.trace_report import TraceRequest, trace_report

    request = TraceRequest(source=job.source, topic=topic or TRACE_TOPIC, slow_ms=slow_ms, message_id=message_id,
                           starting=moment(starting), ending=moment(ending))
    report = trace_report(job.spark, request, job.say)
    tables = {"groups": report.groups, "ways": report.ways}
    if spans or message_id:
        tables["spans"] = report.spans.orderBy("start_time").limit(job.limit)
    tables["rejected records"] = report.rejects.limit(job.limit)
    rows = _print_tables(job, tables)
    consumed, slow = (sum(row[name] for row in rows["groups"]) for name in ("consumed", "slow"))
    job.verdict(f"{counted(consumed, 'delivery', 'deliveries')} to {counted(len(rows['groups']), 'group')}, {slow} of "
                f"{slow_ms} ms or longer" if any(rows.values()) else "no trace records")


@job.command()
@click.option("--topic", "topics", multiple=True, help="May be given several times; all topics if not given.")
@click.option("--key", help="One of the message's keys.")
@click.option("--id", "message_id", help="Unique key or offset message id.")
@click.option("--tag")
@click.option("--where", help="A condition in SQL over the columns.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def search(job: Job, topics: Sequence[str], key: str | None, message_id: str | None, tag: str | None, where: str | None,
           starting: int | None, ending: int | None) -> None:
    """Find messages in logs and archives, with their retries and dead letters."""
    from regulus.pipeline.jobs.search import SearchRequest
    from regulus.pipeline.jobs.search import search as run

    try:
        request = SearchRequest(source=job.source, topics=tuple(topics), key=key, message_id=message_id, tag=tag,
                                where=where, starting=moment(starting), ending=moment(ending), limit=job.limit)
    except JobRefused:
        raise click.UsageError("it is not said what to look for: give --key, --id, --tag, --where, --from or "
                               "--until") from None
    found = run(job.spark, request, datetime.now(UTC), job.say)
    job.say("looking for it")
    rows = found.collect()
    job.results()
    if job.json_output:
        job.document(messages=[row.asDict() for row in rows])
    for row in [] if job.json_output else rows:
        click.echo()
        print_facts((name, shown(value)) for name, value in row.asDict().items() if value not in (None, {}))
    if not rows:
        raise ClientError("no such message was found", ResponseCode.NO_MESSAGE)
    if not job.json_output:
        click.echo()
    cut = f", no more than --limit {job.limit}" if len(rows) == job.limit else ""
    job.verdict(f"{counted(len(rows), 'message')}{cut}")


def _print_tables(job: Job, tables: "dict[str, DataFrame]") -> "dict[str, list[Row]]":
    """Print tables, or one JSON document; returns their rows."""
    collected = {title: frame.collect() for title, frame in tables.items()}
    if job.json_output:
        job.document(**{title.replace(" ", "_"): [row.asDict() for row in rows] for title, rows in collected.items()})
        return collected
    job.results()
    for title, rows in collected.items():
        job.table(title, rows)
    return collected


def sending_options(command: Callable[P, Any]) -> Callable[P, Any]:
    for option in (
        click.option("--send", "is_real", is_flag=True, help="Do it; without this only say what would be done."),
        click.option("--guarantee", type=click.Choice(["exactlyOnce", "atLeastOnce"]), default="exactlyOnce",
                     show_default=True, help="Java RocketMQ knows atLeastOnce only."),
        click.option("--rate", type=COUNT, help="At most this many messages a second."),
        click.option("--brokers", metavar="NAMES", callback=names, help="All brokers of -n, with commas between them. "
                     "--send needs them: what one that is away has would be sent again."),
    ):
        command = option(command)
    return command


def target(job: Job, is_real: bool, guarantee: str, rate: int | None, brokers: tuple[str, ...],
           sink_id: str | None = None, dedup_key: str | None = None) -> "Target | None":
    """Where to send, which a dry run checks, too; None in a dry run without a name server."""
    from regulus.pipeline.jobs.sending import Target
    from regulus.spark.sink.options import DeliveryGuarantee

    if is_real and job.accepts_gaps:
        raise click.UsageError("--accept-gaps and sending do not go together: what cannot be read may be what was sent "
                               "already, and would be sent again")
    if not is_real and not job.has_name_server:
        return None
    return Target(name_server=job.name_server, expected_brokers=brokers, guarantee=DeliveryGuarantee(guarantee),
                  rate_limit=rate, sink_id=sink_id, dedup_key=dedup_key, credentials=job.credentials)


@job.command()
@click.option("--group", required=True, help="Whose dead letters.")
@click.option("--where", help="A condition in SQL over the columns: reconsume_times > 3 AND tags = 'UA'.")
@click.option("--set", "changes", multiple=True, metavar="COLUMN=SQL",
              help="Change topic, body, keys, tags or sharding_key: topic='orders-again'.")
@click.option("--cap", type=COUNT, help="At most this many messages, the oldest first.")
@click.option("--retries", "from_retries", is_flag=True, help="Take the group's retry topic in place of dead letters.")
@click.option("--from", "starting", type=Moment(), help="First time of becoming a dead letter.")
@click.option("--until", "ending", type=Moment(), help="Time to stop before.")
@click.option("--report", help="Directory that keeps what each run sent, as Parquet.")
@sending_options
@with_job
def redrive(job: Job, group: str, where: str | None, changes: Sequence[str], cap: int | None, from_retries: bool,
            starting: int | None, ending: int | None, report: str | None, is_real: bool, guarantee: str,
            rate: int | None, brokers: tuple[str, ...]) -> None:
    """Send dead letters back to the topics they came from, each once."""
    from regulus.model.redrive import SENT
    from regulus.pipeline.jobs.redrive import RedriveRequest
    from regulus.pipeline.jobs.redrive import redrive as run

    number = round(datetime.now(UTC).timestamp() * 1000)
    request = RedriveRequest(
        source=job.source_to_send_from, group=group, where=where, cap=cap, from_retries=from_retries,
        starting=moment(starting), ending=moment(ending), report=report,
        changes=dict(_assignment(text) for text in changes), is_dry_run=not is_real,
        target=target(job, is_real, guarantee, rate, brokers))
    found = run(job.spark, request, number, job.say)
    if job.json_output:
        job.document(sent=is_real, report=found.place, brokers=found.brokers, messages=[
            {"topic": topic, "status": status, "messages": count} for (topic, status), count in found.counts.items()])
    else:
        job.results()
        print_table(("topic", "status", "messages"), [(*key, count) for key, count in sorted(found.counts.items())])
        if found.place and found.count(SENT):
            click.echo(f"what was sent is in {found.place}")
    job.verdict(found.sentence() + _unless_real(is_real))


@job.command()
@click.option("--topic", "topics", required=True, multiple=True, help="May be given several times.")
@click.option("--from", "starting", type=Moment(), required=True, help="First store time.")
@click.option("--until", "ending", type=Moment(), required=True, help="Store time to stop before.")
@click.option("--into", help="The topic to send to; each message to its own if not given.")
@click.option("--speed", type=Finite(0, min_open=True),
              help="1 as it was, 10 ten times as fast; as fast as it goes if not given.")
@click.option("--where", help="A condition in SQL over the columns.")
@click.option("--id", "replay_id", help="A name; a failed replay of that name is continued.")
@sending_options
@with_job
def replay(job: Job, topics: Sequence[str], starting: int, ending: int, into: str | None, speed: float | None,
           where: str | None, replay_id: str | None, is_real: bool, guarantee: str, rate: int | None,
           brokers: tuple[str, ...]) -> None:
    """Send messages of a time range once more into a topic, at a chosen speed."""
    from regulus.pipeline.jobs.replay import ReplayRequest
    from regulus.pipeline.jobs.replay import replay as run

    now = datetime.now(UTC)
    name = replay_id or f"{now:%Y%m%dT%H%M%S.%f}"
    start, end = moment(starting), moment(ending)
    assert start is not None
    assert end is not None
    # Each run has a sink id of its own, so that brokers do not take rows of different runs with the same numbers for
    # duplicates.
    sink_id = f"replay-{uuid.uuid4().hex}"
    request = ReplayRequest(
        source=job.source_to_send_from, name=name, goes_on=replay_id is not None, topics=tuple(topics), starting=start,
        ending=end, into=into, speed=speed, where=where, is_dry_run=not is_real,
        target=target(job, is_real, guarantee, rate, brokers, sink_id))
    found = run(job.spark, request, monotonic, sleep, job.say)
    if job.json_output:
        job.document(sent=is_real, id=name, messages=found.messages, slices=found.slices, seconds=found.seconds,
                     behind_ms=found.behind_ms, brokers=found.brokers)
    job.results()
    if is_real and not job.json_output:
        click.echo(f"its name is {name}: with --id {name} the same command continues after a failure")
    job.verdict(found.sentence() + _unless_real(is_real))


@job.command()
@click.option("--topic", required=True)
@click.option("--group", help="The consumer group whose retries and dead letters belong to the topic.")
@click.option("--stubs", required=True, metavar="TABLE", help="What was to be sent; written as --effects.")
@click.option("--stubs-key", default="key", show_default=True, help="Its column with the business key.")
@click.option("--stubs-time", help="Its column with the time when the stub was made.")
@click.option("--stubs-body", help="Its column with the message's body, needed to send.")
@click.option("--stubs-tags", help="Its column with the message's tag.")
@click.option("--stubs-zone", metavar="ZONE", help="The time zone of --stubs-time, where its values do not say theirs: "
              "UTC, Europe/Paris.")
@click.option("--due", metavar="SQL", help="The condition over the stub table's columns by which a stub is to be sent: "
              "\"status = 'NEW'\". All are, if not given.")
@click.option("--min-age-ms", type=LIMIT, help="Send only stubs that are at least that old.")
@click.option("--cap", type=COUNT, help="Send at most this many a run, the oldest first.")
@click.option("--mark", help="A column of the stub table that gets the verdict, where it is not fine.")
@effects_options
@click.option("--late-ms", type=LIMIT, default=60_000, show_default=True)
@click.option("--verdicts", metavar="TABLE", help="Table that keeps the verdicts: sqlite:, postgresql:, mysql: or "
              "mariadb:.")
@click.option("--report", help="Directory that keeps what each run sent, as Parquet; on a cluster one that all "
              "executors see.")
@sending_options
@with_job
def reconcile(job: Job, topic: str, group: str | None, stubs: str, stubs_key: str, stubs_time: str | None,
              stubs_body: str | None, stubs_tags: str | None, stubs_zone: str | None, due: str | None,
              min_age_ms: int | None, cap: int | None, mark: str | None, effects: str | None, effects_key: str,
              effects_time: str | None, late_ms: int, verdicts: str | None, report: str | None, is_real: bool,
              guarantee: str, rate: int | None, brokers: tuple[str, ...]) -> None:
    """Business tables against the log: lost, unmade, twice, late, stuck; lost ones are sent again.

    --send needs --stubs-body, --stubs-time, --due, --min-age-ms, --cap and --brokers: what is sent again is not
    guessed.
    """
    needed = {"--stubs-body": stubs_body, "--stubs-time": stubs_time, "--due": due, "--min-age-ms": min_age_ms,
              "--cap": cap}
    if is_real and (missing := [option for option, value in needed.items() if value is None]):
        raise click.UsageError(f"--send needs {', '.join(missing)}, too: what is sent again is not guessed")
    from regulus.pipeline.jobs.reconcile import ReconcileRequest, ResendLimits, StubColumns
    from regulus.pipeline.jobs.reconcile import reconcile as run
    from regulus.pipeline.steps.verdicts import BAD_VERDICTS
    from regulus.pipeline.tables.outside import parse_outside_table

    now = datetime.now(UTC)
    number = round(now.timestamp() * 1000)
    # The request checks the arguments, so it is made before Spark starts, which the effects need.
    request = ReconcileRequest(
        source=job.source_to_send_from, topic=topic, group=group, late_ms=late_ms, stubs=parse_outside_table(stubs),
        columns=StubColumns(key=stubs_key, created=stubs_time, body=stubs_body, tags=stubs_tags, mark=mark,
                            zone=stubs_zone, due=due),
        limits=None if min_age_ms is None or cap is None else ResendLimits(min_age_ms=min_age_ms, cap=cap),
        report=report, verdicts=parse_outside_table(verdicts) if verdicts else None,
        is_dry_run=not is_real, target=target(job, is_real, guarantee, rate, brokers, dedup_key="keys"),
        effects=outside(job, effects, effects_key, effects_time, "applied_time"))
    found = run(job.spark, request, now, number, job.say)
    bad = found.frame.where(found.frame["verdict"].isin(*BAD_VERDICTS))
    if job.json_output:
        job.document(verdicts=found.counts, sent=found.sent, left_out=dict(found.left_out), written=found.written,
                     brokers=found.brokers,
                     rows=[row.asDict() for row in job.some(bad.orderBy("verdict", "key"))])
    else:
        rows = job.some(bad.orderBy("verdict", "key"))
        job.results()
        job.table("not fine", rows)
        click.echo()
    job.verdict(found.sentence())


def _unless_real(is_real: bool) -> str:
    return "" if is_real else "; this was a dry run, --send does it"


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not COLUMN=SQL", param_hint="--set")
    return name.strip(), value
