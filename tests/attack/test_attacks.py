"""A short round of each kind of attack, with a fixed seed; `make attack` plays as many as one has time for.

Run once, against the compiled form: what is attacked is what is installed.
"""

import os
import sys
from pathlib import Path

import pytest

from regulus.testing.attack import churn
from regulus.testing.attack.field import Field, Talk
from regulus.testing.attack.full_disk import may_mount
from regulus.testing.attack.program import KINDS, play
from regulus.testing.running_server import ServerProcess

pytestmark = pytest.mark.once

SEED = 2
SECONDS = 1.0
LEAKED = 2 * churn.ALLOCATOR_GROWTH_MAX // (churn.TOPICS * churn.LAPS_MIN)
"""Bytes for each deleted topic, so that a short round has twice of what is allowed."""
FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"


def test_what_stays_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic a lap that nobody deletes."""
    lap = churn._lap

    async def leaky_lap(field: Field, server: ServerProcess, number: int) -> None:
        await lap(field, server, number)
        async with Talk(server.port) as talk:
            await talk.send(f"left-{number}", b"x")

    monkeypatch.setattr(churn, "_lap", leaky_lap)
    findings = play("churn", SEED, SECONDS).findings
    assert any(text.startswith("queue_folders grew") for text in findings)
    assert any(text.startswith("document_bytes grew") for text in findings)


def test_memory_that_a_broker_keeps_of_each_deletion_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The leak is in a module that Python imports at each start."""
    (tmp_path / "sitecustomize.py").write_text(
        "from regulus.broker.topic_epochs import TopicEpochs\n"
        "kept, note_deleted = [], TopicEpochs.note_deleted\n"
        "def leaky(self, topic):\n"
        f"    kept.append(b'x' * {LEAKED})\n"
        "    note_deleted(self, topic)\n"
        "TopicEpochs.note_deleted = leaky\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    findings = play("churn", SEED, SECONDS).findings
    assert [text.partition(" ")[0] for text in findings] == ["memory"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_withstands(kind: str) -> None:
    if kind == "full-disk" and not may_mount():
        pytest.skip("this machine lets nobody mount a disk in a name space: `unshare --user --mount` fails")
    played = play(kind, SEED, SECONDS, FRAMES)
    assert played.findings == (), f"make attack ATTACK='--kind {kind} --seed {SEED}'"
