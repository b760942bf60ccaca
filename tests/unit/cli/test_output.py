"""How commands print."""

import json

import click
from click.testing import CliRunner

from regulus.cli.output import (
    print_body,
    print_facts,
    print_json,
    print_properties,
    print_rows,
    print_table,
    with_output,
)


def test_a_table_aligns_numbers_to_the_right(capsys):
    print_table(("NAME", "COUNT"), [("a", 5), ("long name", 1234)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["NAME       COUNT", "a              5", "long name   1234"]


def test_an_empty_table_is_its_header(capsys):
    print_table(("NAME", "COUNT"), [])
    assert capsys.readouterr().out.split() == ["NAME", "COUNT"]


def test_facts_stand_in_a_column_without_a_colour_for_a_program(capsys):
    print_facts([("topic", "Orders"), ("offset id", 7)])
    assert capsys.readouterr().out == "topic      Orders\noffset id  7\n"


def test_brackets_and_colons_of_a_cell_are_printed_as_they_are(capsys):
    print_table(("NAME",), [("[red]a[/red] :smile: %DLQ%",)])
    assert "[red]a[/red] :smile: %DLQ%" in capsys.readouterr().out


def test_no_line_is_folded_for_a_program_that_reads(capsys):
    print_table(("NAME",), [("x" * 500,)])
    assert "x" * 500 in capsys.readouterr().out


@click.command()
@with_output
def listing(json_output):
    print_rows(("name", "count"), [("a", 5)], json_output=json_output)


def test_a_listing_is_a_table_or_json():
    assert json.loads(CliRunner().invoke(listing, ["--output", "json"]).output) == [{"name": "a", "count": 5}]
    assert CliRunner().invoke(listing, []).output.split() == ["NAME", "COUNT", "a", "5"]
    assert "--output [table|json]" in CliRunner().invoke(listing, ["--help"]).output


HOSTILE = "a\x1b[2J\x9b1mb\nc"


def test_text_of_a_stranger_controls_no_terminal(capsys):
    """A message's body, keys or cause may hold sequences that clear the screen, or lines that look like ours."""
    print_table(("NAME",), [(HOSTILE,)])
    print_facts([("keys", HOSTILE)])
    print_properties({HOSTILE: HOSTILE})
    print_body(HOSTILE.encode())
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x9b"} & set(shown)
    assert shown.count(r"a\x1b[2J\x9b1mb\nc") == 4
    assert shown.endswith("body, 12 bytes\na\\x1b[2J\\x9b1mb\nc\n")


def test_json_is_what_the_message_said_and_controls_no_terminal(capsys):
    print_json({"body": HOSTILE})
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x9b"} & set(shown)
    assert json.loads(shown) == {"body": HOSTILE}
