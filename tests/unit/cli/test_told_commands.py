"""Commands that errors, docstrings and pages tell to type are there, with their options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from regulus.cli.main import regulus

PROJECT = Path(__file__).parents[3]
SOURCES = sorted((PROJECT / "src" / "regulus").rglob("*.py"))
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def _texts(source: Path) -> Iterator[str]:
    """The string literals, with X in place of what is put in."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.replace("%s", "X")


def _told(text: str) -> list[str]:
    return re.findall(r"`regulus ([^`]+)`", text)


def _typed(page: str) -> list[str]:
    """In blocks of code, where a backslash goes on in the next line."""
    blocks = re.findall(r"^```sh\n(.*?)^```$|^((?: {4}.*\n)+)", page, re.MULTILINE | re.DOTALL)
    lines = "\n".join(map("".join, blocks)).replace("\\\n", " ").splitlines()
    return [line.split("#")[0].strip().removeprefix("regulus ") for line in lines
            if line.strip().startswith("regulus ")]


def lacks(words: str) -> list[str]:
    """What of a command is not there."""
    command: click.Command = regulus
    context = click.Context(regulus)
    parts = words.split()
    while isinstance(command, click.Group) and parts and re.fullmatch(r"[a-z][a-z-]*", parts[0]):
        found = command.get_command(context, parts[0])
        if found is None:
            return [parts[0]]
        command, parts = found, parts[1:]
    if isinstance(command, click.Group) and parts and not parts[0].startswith("-"):
        return []       # it means several
    known = {name for option in command.params if isinstance(option, click.Option) for name in option.opts}
    known |= {"--help", "-h", *(("--version",) if command is regulus else ())}
    return [part for part in (part.split("=")[0] for part in parts)
            if re.fullmatch(r"--[a-z-]+|-[a-z]", part) and part not in known]


def test_what_is_not_there_is_seen() -> None:
    assert lacks("group create kitchen --in-order") == []
    assert lacks("group create kitchen --orderly --cluster c") == ["--orderly"]
    assert lacks("groups create kitchen") == ["groups"]
    assert lacks("group make kitchen") == ["make"]


def test_the_program_tells_commands_that_are_there() -> None:
    told = [words for source in SOURCES for text in _texts(source) for words in _told(text)]
    assert "group create X --in-order" in told
    assert {words: missing for words in told if (missing := lacks(words))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_a_page_tells_commands_that_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    told = [*_told(" ".join(text.split("```")[::2])), *_typed(text)]
    assert {words: missing for words in told if (missing := lacks(words))} == {}
