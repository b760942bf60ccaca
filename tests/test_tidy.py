"""The house keeps its own rules."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from tests import plain_english

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "regulus").rglob("*.py"))


def compiled_modules() -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("build_ext", ROOT / "build_ext.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("build_ext", module)
    spec.loader.exec_module(module)
    return module.COMPILED_MODULES


@pytest.mark.parametrize("name", compiled_modules())
def test_each_compiled_module_has_its_types_beside_it(name: str) -> None:
    source = ROOT / "src" / f"{name.replace('.', '/')}.py"
    assert source.exists()
    assert source.with_suffix(".pxd").exists()
    assert "cython" not in source.read_text().replace("Cython", ""), "x.py never imports cython"


@pytest.mark.parametrize("name", compiled_modules())
def test_no_compiled_module_counts_from_the_end(name: str) -> None:
    """Without `wraparound` a negative index of a list reads what lies in front of it."""
    tree = ast.parse((ROOT / "src" / f"{name.replace('.', '/')}.py").read_text())
    negative = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript)
                and isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.op, ast.USub)]
    assert negative == []


def test_each_types_file_belongs_to_a_compiled_module() -> None:
    names = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in (ROOT / "src").rglob("*.pxd")}
    packages = {name for name in names if name.endswith("__init__")}
    # These are C for the modules that cimport them.
    inlined = {"regulus.record.byte_runs", "regulus.record.big_endian", "regulus.record.layout",
               "regulus.wire.big_endian"}
    assert names - packages <= set(compiled_modules()) | inlined


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_each_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("path", sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]),
                         ids=lambda path: path.name)
def test_no_page_has_both_sides_of_a_merge(path: Path) -> None:
    """No tool reads pages that would stumble over it."""
    assert [line for line in path.read_text().splitlines() if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []


ROOMS = sorted(path for path in plain_english.SOURCE.iterdir()
               if path.suffix == ".py" or (path / "__init__.py").exists())


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.name)
def test_its_prose_is_plain(room: Path) -> None:
    found = [str(finding) for path in plain_english.modules([room])
             for finding in plain_english.findings(path)]
    assert found == []


def test_errors_are_caught_by_name() -> None:
    """`except Exception` stands only where a fault of a handler or listener must not end server or consumer, where a
    task that died begins anew, and where whatever the work raised is handed on or told, as a thread does it."""
    permitted = {"broker/long_answers.py", "server/request_server.py", "client/foreign_calls.py",
                 "client/tasks.py", "proxy/service.py", "transport/http2/grpc_call.py", "testing/simulation/loop.py",
                     "testing/simulation/world.py"}
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None
                or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
            ):
                found.add(str(path.relative_to(ROOT / "src" / "regulus")))
    assert found <= permitted


def test_the_build_under_test_is_the_one_that_was_asked_for() -> None:
    """`make test` runs both builds and names the one it means."""
    import os

    import regulus.record.message_record as module

    wanted = os.environ.get("REGULUS_TEST_BUILD")
    build = "interpreted" if (module.__file__ or "").endswith(".py") else "compiled"
    assert wanted in (None, build)
