"""`regulus acl`: shows what a user may do, and which rule decides."""

from pathlib import Path

import click

from regulus.access.decision import Action, Allowed, Denied, Need, ResourceKind, Rules
from regulus.access.needs import group_need, topic_need
from regulus.access.user_rules import Switches, UserRules
from regulus.broker.state import ACCESS_DOCUMENT
from regulus.broker.users import parse_users
from regulus.cli.options import LocalPath
from regulus.cli.output import print_facts, print_json, with_output
from regulus.errors import ConfigError, HeaderError
from regulus.server.access_files import accounts_of
from regulus.store.json_file import JsonFiles

_ACTIONS = {action.name: action for action in Action}
_LOCAL = "127.0.0.1"


@click.group()
def acl() -> None:
    """See which rule allows or denies an action."""


@acl.command()
@click.argument("user")
@click.argument("name", metavar="TOPIC")
@click.argument("action", type=click.Choice(list(_ACTIONS), case_sensitive=False))
@click.option("--group", "is_group", is_flag=True, help="TOPIC is the name of a group.")
@click.option("--source", default=_LOCAL, show_default=True, help="Address of the client.")
@click.option("--home", type=LocalPath(file_okay=False), envvar="ROCKETMQ_HOME", show_envvar=True,
              help="The broker's rocketmqHome: its conf/plain_acl.yml is read (aclEnable).")
@click.option("--store", type=LocalPath(file_okay=False),
              help="The broker's store: its users and policies are read (authenticationEnabled).")
@with_output
def explain(user: str, name: str, action: str, is_group: bool, source: str, home: Path | None, store: Path | None,
            json_output: bool) -> None:
    """Say whether USER may do ACTION with TOPIC, and which rule decides. Contacts no broker. Status 1: denied."""
    rules = _rules(home, store)
    verdict = rules.permit(user, source, (_need(name, _ACTIONS[action.upper()], is_group=is_group),))
    facts = {"user": user, "verdict": "allowed" if isinstance(verdict, Allowed) else "denied", "rule": verdict.rule}
    if json_output:
        print_json(facts)
    else:
        print_facts(facts.items())
    if isinstance(verdict, Denied):
        raise click.exceptions.Exit(1)


def _rules(home: Path | None, store: Path | None) -> Rules:
    """The rules of a store or a home. If both are given the store counts, because the home may come from the
    environment. Raises ConfigError."""
    if store is not None:
        return _user_rules(store)
    if home is None:
        raise click.UsageError("name the broker's rocketmqHome (--home) or its store (--store)")
    return accounts_of(str(home), "").rules


def _user_rules(store: Path) -> UserRules:
    text = JsonFiles(store / "config").load(ACCESS_DOCUMENT)
    if text is None:
        raise ConfigError(f"{store / 'config'} has no {ACCESS_DOCUMENT}.json: no broker with "
                          "authenticationEnabled=true has used this store")
    try:
        return UserRules(Switches(cluster=""), parse_users(text))
    except HeaderError as error:
        raise ConfigError(f"{store / 'config' / ACCESS_DOCUMENT}.json: {error}") from error


def _need(name: str, action: Action, *, is_group: bool) -> Need:
    if name == "*":
        return Need(ResourceKind.GROUP if is_group else ResourceKind.TOPIC, name, (action,))
    return group_need(name, (action,)) if is_group else topic_need(name, (action,))
