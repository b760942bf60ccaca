"""The examples of docs/testing.md run as they stand there."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_has_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_passes(example, request):
    names = {}
    exec(example, names)
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    passed = test(*(request.getfixturevalue(fixture) for fixture in inspect.signature(test).parameters))
    if inspect.iscoroutine(passed):
        asyncio.run(passed)
