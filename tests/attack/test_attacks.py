"""A short round of each kind of attack, with a fixed seed; `make attack` plays as many as one has time for.

Run once, against the compiled form: what is attacked is what is installed.
"""

from pathlib import Path

import pytest

from regulus.testing.attack.full_disk import may_mount
from regulus.testing.attack.program import KINDS, play

pytestmark = pytest.mark.once

SEED = 2
SECONDS = 1.0
FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_withstands(kind: str) -> None:
    if kind == "full-disk" and not may_mount():
        pytest.skip("this machine lets nobody mount a disk in a name space: `unshare --user --mount` fails")
    played = play(kind, SEED, SECONDS, FRAMES)
    assert played.findings == (), f"make attack ATTACK='--kind {kind} --seed {SEED}'"
