"""`regulus acl`: who may do what, and by which rule."""

from pathlib import Path

import click

from regulus.access.decision import Action, Allowed, Denied, Need, ResourceKind
from regulus.access.needs import group_need, topic_need
from regulus.cli.output import print_facts, print_json, with_output
from regulus.server.access_files import accounts_of

_ACTIONS = {action.name: action for action in Action}
_LOCAL = "127.0.0.1"


@click.group()
def acl() -> None:
    """See which rule lets a user in, or does not."""


@acl.command()
@click.argument("user")
@click.argument("name", metavar="TOPIC")
@click.argument("action", type=click.Choice(list(_ACTIONS), case_sensitive=False))
@click.option("--group", "is_group", is_flag=True, help="TOPIC is the name of a group.")
@click.option("--source", default=_LOCAL, show_default=True, help="Address of the client.")
@click.option("--home", type=click.Path(file_okay=False, path_type=Path), required=True, envvar="ROCKETMQ_HOME",
              show_envvar=True, help="The broker's rocketmqHome: its conf/plain_acl.yml is read.")
@with_output
def explain(user: str, name: str, action: str, is_group: bool, source: str, home: Path, json_output: bool) -> None:
    """Say whether USER may do ACTION with TOPIC, and which rule decides. Asks no broker. Status 1: it may not."""
    rules = accounts_of(str(home), "").rules
    verdict = rules.permit(user, source, (_need(name, _ACTIONS[action.upper()], is_group=is_group),))
    facts = {"user": user, "verdict": "allowed" if isinstance(verdict, Allowed) else "denied", "rule": verdict.rule}
    if json_output:
        print_json(facts)
    else:
        print_facts(facts.items())
    if isinstance(verdict, Denied):
        raise click.exceptions.Exit(1)


def _need(name: str, action: Action, *, is_group: bool) -> Need:
    if name == "*":
        return Need(ResourceKind.GROUP if is_group else ResourceKind.TOPIC, name, (action,))
    return group_need(name, (action,)) if is_group else topic_need(name, (action,))
