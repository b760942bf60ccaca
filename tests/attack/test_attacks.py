"""A short round of each kind of attack, with a fixed seed; `make attack` plays as many as one has time for.

Run once, against the compiled form: what is attacked is what is installed.
"""

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


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_withstands(kind: str) -> None:
    if kind == "full-disk" and not may_mount():
        pytest.skip("this machine lets nobody mount a disk in a name space: `unshare --user --mount` fails")
    played = play(kind, SEED, SECONDS, FRAMES)
    assert played.findings == (), f"make attack ATTACK='--kind {kind} --seed {SEED}'"
