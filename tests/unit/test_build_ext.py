"""A compiled copy is made anew by content alone: of a project of one small module, as `make` calls it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.build import changed_project

MODULE = "regulus.model.java_hash"
SOURCE = "src/regulus/model/java_hash.py"


def _build(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "build_ext.py", "build/copy", MODULE], cwd=project, capture_output=True,
                          text=True, timeout=300, check=False,
                          env={**os.environ, "REGULUS_REQUIRE_CYTHON": "1", **environment})


@pytest.mark.once
def test_what_was_compiled_once_is_taken_whatever_its_time_and_compiled_again_when_its_text_changes(
        tmp_path: Path) -> None:
    project = changed_project(tmp_path / "project", {})
    first = _build(project)
    assert first.returncode == 0, first.stderr
    [compiled] = (project / "build/copy/regulus/model").glob("java_hash*.so")
    before = compiled.read_bytes()
    without_compiler = {"PATH": str(tmp_path)}

    compiled.unlink()
    (project / SOURCE).touch()
    assert _build(project, **without_compiler).returncode == 0
    assert compiled.read_bytes() == before

    text = (project / SOURCE).read_text(encoding="utf-8")
    (project / SOURCE).write_text(text + "\n\nCHANGED = 1\n", encoding="utf-8")
    assert _build(project, **without_compiler).returncode != 0      # so it does need the compiler now
    assert _build(project).returncode == 0
    assert compiled.read_bytes() != before
