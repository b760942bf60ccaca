"""`regulus why`: explains why messages do not arrive."""

from collections.abc import Sequence
from typing import Any

import click

from regulus.cli.connection import Server, with_server
from regulus.cli.exit_codes import ExitCode
from regulus.cli.group import parse_queue
from regulus.cli.options import OFFSET
from regulus.cli.output import print_json, with_output
from regulus.diagnosis.checks import Diagnosis, diagnose, healthy_text, lag
from regulus.diagnosis.facts import Question
from regulus.diagnosis.findings import Finding, Level
from regulus.diagnosis.gathering import gather
from regulus.model.wording import one_line
from regulus.transport import event_loop

_INDENT = "  "
_COLOURS = {Level.CAUSE: "red", Level.WAITS: "yellow", Level.NOTE: "cyan"}


@click.command()
@click.argument("group_name", metavar="[GROUP]", required=False, default="")
@click.argument("topic_name", metavar="[TOPIC]", required=False, default="")
@click.option("-g", "--group", "group_option", default="", help="The group, in place of GROUP.")
@click.option("-t", "--topic", "topic_option", default="", help="The topic, in place of TOPIC.")
@click.option("--message", "message_id", default="", metavar="ID",
              help="The message with this offset id or unique key. A unique key needs a topic or a group.")
@click.option("--key", default="", help="The newest message that has this key; needs a topic.")
@click.option("--offset", type=OFFSET, help="The message at this place of a queue; needs a topic.")
@click.option("--queue", "queue_text", metavar="BROKER/ID", help="The queue that --offset is for.")
@with_output
@with_server
def why(server: Server, group_name: str, topic_name: str, group_option: str, topic_option: str, message_id: str,
        key: str, offset: int | None, queue_text: str | None, json_output: bool) -> None:
    """Explain why messages do not arrive: at group GROUP, in its topic TOPIC, or one message.

    Checks name servers, brokers, the group, its members and the message in a fixed order, and shows the first cause on
    top, with the evidence and what to do. Without GROUP, all groups of the topic are looked at. Ends with status 6 when
    there is a cause, and with 0 when there is none."""
    question = _question(_one("group", group_name, group_option), _one("topic", topic_name, topic_option), message_id,
                         key, offset, queue_text)
    every = event_loop.run(gather(server.name_server, server.client_config(), question))
    diagnoses = [diagnose(facts) for facts in every]
    if json_output:
        print_json([_document(each) for each in diagnoses])
    else:
        for number, each in enumerate(diagnoses):
            if number:
                click.echo()
            _print(each)
    if not all(each.is_healthy for each in diagnoses):
        click.get_current_context().exit(ExitCode.CAUSE_FOUND)


def _one(noun: str, argument: str, option: str) -> str:
    if argument and option and argument != option:
        raise click.UsageError(f"two names of a {noun} are given: {argument} and {option}")
    return argument or option


def _question(group: str, topic: str, message_id: str, key: str, offset: int | None,
              queue_text: str | None) -> Question:
    """Raises UsageError."""
    if sum((bool(message_id), bool(key), offset is not None)) > 1:
        raise click.UsageError("give one of --message, --key and --offset")
    if (key or offset is not None) and not topic:
        raise click.UsageError("--key and --offset need the topic")
    if not (group or topic or message_id):
        raise click.UsageError("name a group, a topic or a message")
    if offset is None:
        return Question(group=group, topic=topic, message_id=message_id, key=key)
    queue = parse_queue(topic, queue_text)
    return Question(group=group, topic=topic, broker_name=queue.broker_name, queue_id=queue.queue_id,
                    queue_offset=offset)


def _print(diagnosis: Diagnosis) -> None:
    facts = diagnosis.facts
    subject = f"group {facts.group.name}" + (f", topic {facts.topic.name}" if facts.topic.name else "")
    click.echo(click.style(one_line(subject + (f", message {facts.message.text}" if facts.message else "")), bold=True))
    if diagnosis.is_healthy:
        click.echo(healthy_text(facts))
    for finding in diagnosis.findings:
        _print_finding(finding)
    if diagnosis.unknown:
        click.echo("Not known:")
        for each in diagnosis.unknown:
            click.echo(f"{_INDENT}{one_line(f'{each.what}: {each.why}')}")


def _print_finding(finding: Finding) -> None:
    level = click.style(finding.level.name.lower(), fg=_COLOURS[finding.level])
    click.echo(f"{level} {finding.cause}: {one_line(finding.sentence)}")
    for line in finding.evidence:
        click.echo(f"{_INDENT}- {one_line(line)}")
    if finding.remedy:
        click.echo(f"{_INDENT}> {one_line(finding.remedy)}")


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    facts = diagnosis.facts
    return {
        "group": facts.group.name, "topic": facts.topic.name or None,
        "message": facts.message.text if facts.message else None, "healthy": diagnosis.is_healthy,
        "members": len(facts.group.members) + facts.group.members_left_out,
        "lag": lag(facts),
        "findings": [_finding(each) for each in diagnosis.findings],
        "unknown": [{"what": each.what, "why": each.why} for each in diagnosis.unknown]}


def _finding(finding: Finding) -> dict[str, str | Sequence[str]]:
    return {"cause": finding.cause.value, "level": finding.level.name.lower(), "sentence": finding.sentence,
            "evidence": list(finding.evidence), "remedy": finding.remedy}
