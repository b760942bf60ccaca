"""mqadmin 5.3.3 prints about a master and a slave of ours what it prints about RocketMQ's."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from admin import AdminTool
from clients import JAVA
from conftest import NewRun
from pairs import TOPIC, Pair

COMMANDS = {
    "haStatus -b {master}": r"^<address> \d+ 0 <rate> OK \d+$",
    "haStatus -b {slave}": r"^#CommitLogMaxOffset [1-9]\d*$",
    "clusterList": "^DefaultCluster broker-a 1 <address> V5_3_3 .* false$",
}
"""Each with what it prints when it does what it is here for."""
_RUN_VALUES = (
    (re.compile(r"(\d{1,3}\.){3}\d{1,3}:\d+"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "<time>"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"\d+\.\d+"), "<rate>"),
    (re.compile(r"\d+-\d+(?=\()"), "<rate>"),
)


def shape(text: str) -> list[str]:
    for pattern, value in _RUN_VALUES:
        text = pattern.sub(value, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def printed(new_run: NewRun) -> Iterator[list[dict[str, str]]]:
    """What the commands print of ours, and of RocketMQ's."""
    def story(kind: str, home: Path) -> dict[str, str]:
        with ExitStack() as stack:
            pair = Pair(kind, kind, home, stack)
            options = {"namesrv": pair.name_server, "topic": TOPIC, "group": "PairsProducer"}
            JAVA["5.3.3"].produce(home, **options, prefix="first", count=50)
            pair.await_copy()
            with AdminTool("5.3.3", home / "mqadmin", pair.name_server) as tool:
                texts = {command: tool.run(*command.format(**pair.addresses).split()) for command in COMMANDS}
            (home / "printed.txt").write_text("\n".join(f"$ mqadmin {name}\n{text}" for name, text in texts.items()))
            return texts

    kinds = ("regulus", "java-5.3.3")
    with ThreadPoolExecutor(2) as pool:
        yield list(pool.map(story, kinds, [new_run(f"shown-{kind}") for kind in kinds]))


@pytest.mark.parametrize("command", COMMANDS)
def test_mqadmin_shows_the_same_of_both(printed: list[dict[str, str]], command: str) -> None:
    ours, theirs = (shape(texts[command]) for texts in printed)
    for lines in (ours, theirs):
        assert any(re.search(COMMANDS[command], line) for line in lines), lines
    assert ours == theirs
