"""`regulus job outbox`: the tables of the reliability layer against the log."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from regulus.cli.database import EFFECTS_VARIABLE, VARIABLE, opened
from regulus.cli.job_run import Job, with_job
from regulus.cli.options import COUNT, LIMIT, names

if TYPE_CHECKING:
    from regulus.pipeline.jobs.outbox_reconcile import OutboxReport
    from regulus.reliability.retry_policy import ResendPolicy

_DAY_MS = 86_400_000


@click.command()
@click.option("--database", envvar=VARIABLE, show_envvar=True, required=True, metavar="URL",
              help="Of the stubs, as SQLAlchemy writes it: postgresql+psycopg://user:password@host/name, "
                   "sqlite:////path/shop.sqlite.")
@click.option("--effects", envvar=EFFECTS_VARIABLE, show_envvar=True, metavar="URL",
              help="Of the consumer's own database, where it has one.")
@click.option("--topic", "topics", multiple=True, help="May be given several times; those of all stubs if not given.")
@click.option("--group", "groups", multiple=True, help="Whose retries and dead letters are looked at, too, beside "
              "those that have received something; may be given several times.")
@click.option("--confirmations", "confirmation_topic", metavar="TOPIC", help="The topic on which consumers with a "
              "database of their own confirm; regulus_confirmations if not given.")
@click.option("--policy", "settings", multiple=True, metavar="NAME=NUMBER",
              help="A setting of the relays that is not the default: attempts_max=5. May be given several times.")
@click.option("--late-ms", type=LIMIT, default=60_000, show_default=True,
              help="From when on an effect came late, and what is due is stuck.")
@click.option("--kept-days", type=click.IntRange(1, 36_500), default=30, show_default=True,
              help="Stubs are kept so long; a message that is older may have had one.")
@click.option("--send", "is_real", is_flag=True,
              help="Make lost stubs due, so that a relay sends them; without this only say which.")
@click.option("--cap", type=COUNT, help="At most this many stubs, the oldest first.")
@click.option("--brokers", metavar="NAMES", callback=names, help="All brokers of -n, with commas between them, each of "
              "which must be there: without them a stub whose place is not known is not called lost.")
@with_job
def outbox(job: Job, database: str, effects: str | None, topics: Sequence[str], groups: Sequence[str],
           confirmation_topic: str | None, settings: Sequence[str], late_ms: int, kept_days: int, is_real: bool,
           cap: int | None, brokers: tuple[str, ...]) -> None:
    """Stubs of an outbox against the log: lost, unmade, twice, late, stuck; a relay sends lost ones again.

    --send needs --cap, and a relay that works on the table: the job itself sends nothing.
    """
    if is_real and cap is None:
        raise click.UsageError("--send needs --cap, too: the most that a run makes due")
    if is_real and job.accepts_gaps:
        raise click.UsageError("--accept-gaps and --send do not go together: what cannot be read would seem lost")
    policy = _policy(settings)
    with ExitStack() as at_end:
        business = at_end.enter_context(opened(database))
        of_consumer = at_end.enter_context(opened(effects, option="--effects")) if effects else None
        from regulus.pipeline.jobs.outbox_reconcile import OutboxRequest, reconcile_outbox
        from regulus.pipeline.tables.outbox_database import OutboxDatabase
        from regulus.reliability.confirms import CONFIRMATION_TOPIC

        request = OutboxRequest(
            source=job.source, database=OutboxDatabase(business), policy=policy, topics=tuple(topics),
            effects=None if of_consumer is None else OutboxDatabase(of_consumer), groups=tuple(groups),
            confirmation_topic=confirmation_topic or CONFIRMATION_TOPIC, late_ms=late_ms,
            keep_ms=kept_days * _DAY_MS, brokers=brokers, cap=cap if is_real else None)
        _print(job, reconcile_outbox(job.spark, request, job.say))


def _print(job: Job, found: "OutboxReport") -> None:
    rows = job.some(found.not_good)
    if job.json_output:
        job.document(verdicts=found.counts, due=found.due, would_be_due=found.lost_again, left_out=dict(found.left_out),
                     changed=found.changed, brokers=found.brokers, rows=[row.asDict() for row in rows])
    else:
        job.results()
        job.table("not fine", rows)
        click.echo()
    job.verdict(found.sentence())


def _policy(settings: Sequence[str]) -> "ResendPolicy":
    """Raises ConfigError for numbers that do not go together."""
    from regulus.reliability.retry_policy import ResendPolicy

    known, given = {each.name for each in fields(ResendPolicy)}, {}
    for setting in settings:
        name, _, number = setting.partition("=")
        if name not in known or not number.isdecimal():
            raise click.BadParameter(f"{setting!r} is no NAME=NUMBER of {', '.join(sorted(known))}",
                                     param_hint="--policy")
        given[name] = int(number)
    return ResendPolicy(**given)
