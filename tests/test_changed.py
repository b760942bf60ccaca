"""`make check` runs the tests of what changed."""

from pathlib import Path

import pytest

from tests.changed import HOUSE, paths_to_test


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("tests/unit/store/test_disk.py", "tests/unit/store/test_index.py",
                 "tests/unit/broker/pop/test_pops.py", "tests/interop/test_pop.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(("changed", "tests"), [
    ("src/regulus/store/disk.py", ["tests/unit/store/test_disk.py"]),
    ("src/regulus/store/disk.pxd", ["tests/unit/store/test_disk.py"]),
    ("src/regulus/store/old_files.py", ["tests/unit/store"]),
    ("src/regulus/broker/pop/orders.py", ["tests/unit/broker/pop"]),
    ("src/regulus/errors.py", []),
    ("src/regulus/nowhere/new.py", []),
    ("tests/unit/store/test_index.py", ["tests/unit/store/test_index.py"]),
    ("tests/unit/store/test_removed.py", []),
    ("tests/interop/test_pop.py", []),
    ("tests/waiting.py", []),
    ("docs/client.md", ["tests/unit/test_readme.py"]),
    ("Makefile", []),
])
def test_a_changed_file_has_its_tests(root: Path, changed: str, tests: list[str]) -> None:
    assert paths_to_test([changed], root) == sorted([HOUSE, *tests])


def test_a_room_that_runs_whole_is_named_once(root: Path) -> None:
    assert paths_to_test(["src/regulus/store/disk.py", "src/regulus/store/old_files.py"], root) == [
        HOUSE, "tests/unit/store"]
