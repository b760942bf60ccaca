"""The examples of docs/grpc.md in Java, Go and Node.js, as they stand there, at `regulus up`.

That in Python is run by test_grpc_front; there is no .NET here for that in C#.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import NewRun
from ports import free_ports
from regulus_server import RegulusServer
from toolchain import CLIENTS5, PROJECT, clients5_go, clients5_java, clients5_node, tool

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig

pytestmark = pytest.mark.long
PROGRAM_WITHIN_S = 120


def example(language: str) -> str:
    page = (PROJECT / "docs" / "grpc.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(found)


def java(home: Path) -> tuple[list[str], dict[str, str]]:
    (home / "SendOrder.java").write_text(example("java"))
    return [tool("java"), f"-Duser.home={home}", "-cp", clients5_java(), str(home / "SendOrder.java")], {}


def go(home: Path) -> tuple[list[str], dict[str, str]]:
    clients5_go()       # so that its modules are there
    for name in ("go.mod", "go.sum"):
        shutil.copy(CLIENTS5 / "go" / name, home / name)
    (home / "main.go").write_text(example("go"))
    return [tool("go"), "run", "."], {}


def node(home: Path) -> tuple[list[str], dict[str, str]]:
    (home / "example.js").write_text(example("js"))
    return [tool("node"), str(home / "example.js")], {"NODE_PATH": str(clients5_node().parent / "node_modules")}


@pytest.fixture(scope="module")
def endpoint(new_run: NewRun) -> Iterator[str]:
    (port,) = free_ports(1)
    ours = RegulusServer(new_run("grpc-page"), grpc_port=port)
    try:
        ours.start()
        with Admin(ours.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name="orders", attributes={"message.type": "NORMAL"}))
        yield f"127.0.0.1:{port}"
    finally:
        ours.kill()


@pytest.mark.parametrize("program", [java, go, node], ids=lambda program: program.__name__)
def test_the_example_of_the_page_runs(endpoint: str, tmp_path: Path,
                                      program: Callable[[Path], tuple[list[str], dict[str, str]]]) -> None:
    words, environment = program(tmp_path)
    result = subprocess.run([*words, endpoint], cwd=tmp_path, env={**os.environ, **environment}, capture_output=True,
                            text=True, timeout=PROGRAM_WITHIN_S, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.search(r"^sent [0-9A-F]+$", result.stdout, re.MULTILINE), result.stdout
