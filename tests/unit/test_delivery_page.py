"""docs/delivery.md says which tests hold what is promised of a delivery; here it is held to them."""

import ast
import dataclasses
import re
from functools import cache
from pathlib import Path

from regulus.client.config import ProducerConfig, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.sending.producer import Producer

ROOT = Path(__file__).parents[2]
STATEMENTS = range(1, 107)

PAGE = (ROOT / "docs" / "delivery.md").read_text(encoding="utf-8")
SERVED, REFUSED = PAGE.split("\n## Refused today\n")


def rows(part: str) -> list[list[str]]:
    """The cells of the rows that begin with a number."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in part.splitlines() if re.match(r"\| \d", line)]
    return [[cell.strip() for cell in row] for row in cells]


def numbers(cell: str) -> list[int]:
    """`60, 86–88` is 60, 86, 87 and 88."""
    found: list[int] = []
    for each in cell.split(", "):
        first, _, last = each.partition("–")
        found += range(int(first), int(last or first) + 1)
    return found


def named(text: str) -> list[str]:
    return re.findall(r"`(tests/[^`:]+::\w+)`", text)


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file, without running it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                     and node.name.startswith("test_"))


def test_each_statement_stands_there_once() -> None:
    assert sorted(number for row in rows(PAGE) for number in numbers(row[0])) == list(STATEMENTS)


def test_each_test_that_is_named_is_there() -> None:
    assert [name for name in named(PAGE) if name.partition("::")[2] not in names_in(name.partition("::")[0])] == []


def test_each_row_names_its_tests() -> None:
    assert [row[0] for row in rows(PAGE) if not named(row[2])] == []
    assert [row[0] for row in rows(SERVED) if not named(row[3]) and row[3] != "—"] == []


def test_what_is_proven_from_outside_is_proven_by_what_others_made() -> None:
    paths = {name.partition("::")[0] for row in rows(SERVED) for name in named(row[3])}
    assert [path for path in paths if not path.startswith("tests/interop/")
            and "golden" not in (ROOT / path).read_text(encoding="utf-8").lower()
            and not path.startswith("tests/golden/")] == []


def test_what_the_page_calls_absent_is_not_there() -> None:
    """What has come is to be taken out of the last table, and gets a row with its tests."""
    settings = {field.name for config in (ProducerConfig, PushConsumerConfig) for field in dataclasses.fields(config)}
    calls = {name for client in (Producer, PushConsumer) for name in dir(client)
             if not name.startswith("__")}
    assert [name for name in settings | calls if re.search("detect|hook|namespace", name)] == []
