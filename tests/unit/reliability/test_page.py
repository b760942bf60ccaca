"""The page of the reliability layer: its examples have all that they use, but for what is the reader's own."""

import ast
import builtins
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reliability.md"
READERS_OWN = frozenset({"business_engine", "engine", "hook", "producer", "secret"})
"""Engines, addresses and clients of a program that has more than the example."""

EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_there_are_examples():
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[-1])
def test_an_example_has_all_that_it_uses(example):
    tree = compile(example, PAGE.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins)) | READERS_OWN
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known |= {node.name, *(argument.arg for argument in node.args.args)}
    assert {node.id for node in names} - known == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.splitlines()[-1])
def test_what_an_example_imports_is_there(example):
    for node in ast.walk(compile(example, PAGE.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if isinstance(node, ast.ImportFrom) and node.module != "shop":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                getattr(module, alias.name, None) or importlib.import_module(f"{node.module}.{alias.name}")
