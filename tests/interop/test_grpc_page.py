"""The examples of docs/grpc.md in Java, Go, Node.js and Rust, as they stand there, at `regulus up`.

That in Python is run by test_grpc_front; there is no .NET here for that in C#.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import NewRun
from ports import free_ports
from regulus_server import RegulusServer
from toolchain import PROJECT, clients5_go, clients5_java, clients5_node, clients5_rust, tool

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig

pytestmark = pytest.mark.long
PROGRAM_WITHIN_S = 120
NOT_RUN = {"csharp"}


def _examples() -> dict[str, str]:
    """Those of the part about clients, by their languages."""
    page = (PROJECT / "docs" / "grpc.md").read_text(encoding="utf-8").partition("## With your client\n")[2]
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(dict(found)) == len(found)
    return dict(found)


def _written(path: Path, language: str) -> Path:
    path.write_text(_examples()[language])
    return path


def java(home: Path) -> tuple[list[str], dict[str, str]]:
    source = _written(home / "SendOrder.java", "java")
    return [tool("java"), f"-Duser.home={home}", "-cp", clients5_java(), str(source)], {}


def go(home: Path) -> tuple[list[str], dict[str, str]]:
    return [str(clients5_go("clients5-go-page", _written(home / "main.go", "go")))], {}


def js(home: Path) -> tuple[list[str], dict[str, str]]:
    source = _written(home / "example.js", "js")
    return [tool("node"), str(source)], {"NODE_PATH": str(clients5_node().parent / "node_modules")}


def rust(home: Path) -> tuple[list[str], dict[str, str]]:
    return [str(clients5_rust("clients5-rust-page", _written(home / "main.rs", "rust")))], {}


PROGRAMS = (java, go, js, rust)


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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_example_of_the_page_runs(endpoint: str, tmp_path: Path,
                                      program: Callable[[Path], tuple[list[str], dict[str, str]]]) -> None:
    words, environment = program(tmp_path)
    result = subprocess.run([*words, endpoint], cwd=tmp_path, env={**os.environ, **environment}, capture_output=True,
                            text=True, timeout=PROGRAM_WITHIN_S, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.search(r"^sent [0-9A-Fa-f]+$", result.stdout, re.MULTILINE), result.stdout


def test_no_example_of_the_page_is_left_out() -> None:
    assert set(_examples()) == {"python", *(program.__name__ for program in PROGRAMS), *NOT_RUN}
