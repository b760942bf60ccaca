"""Options that had another name before."""

import click
from click.testing import CliRunner

from regulus.cli.options import renamed


@click.command()
@renamed("--from", "begin", old="--begin", help="First time.")
def command(begin):
    click.echo(begin)


def test_the_old_name_works_and_only_the_new_one_is_shown():
    assert CliRunner().invoke(command, ["--begin", "1"]).output == "1\n"
    assert CliRunner().invoke(command, ["--from", "2"]).output == "2\n"
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "--from" in shown
    assert "--begin" not in shown
