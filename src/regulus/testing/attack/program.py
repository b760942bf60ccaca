"""Plays rounds of each kind for a number of seconds, and prints a table of the rounds and their findings."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regulus.errors import RegulusError
from regulus.testing.attack import corrupt, frames, ids, storm
from regulus.testing.attack.churn import churn
from regulus.testing.attack.field import Attack, Field
from regulus.testing.attack.full_disk import full_disk
from regulus.testing.attack.kill import kill

KINDS: Mapping[str, Attack] = {
    "kill": kill,
    "corrupt-log": corrupt.log,
    "corrupt-queues": corrupt.queues,
    "corrupt-index": corrupt.index,
    "corrupt-documents": corrupt.documents,
    "corrupt-rest": corrupt.rest,
    "storm-members": storm.members,
    "storm-holds": storm.holds,
    "storm-topics": storm.topics,
    "storm-groups": storm.groups,
    "churn": churn,
    "full-disk": full_disk,
    "frames": frames.mutations,
    "frames-unfinished": frames.unfinished,
    "ids-halves": ids.halves,
    "ids-places": ids.places,
    "ids-names": ids.names,
}

SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Round:
    kind: str
    seed: int
    seconds: float
    note: str
    findings: tuple[str, ...]

    def __str__(self) -> str:
        result = f"{len(self.findings)} findings" if self.findings else "well"
        return f"{self.kind:18} {self.seed:>10} {self.seconds:7.1f} s  {result:12} {self.note}"


def kinds_named(wanted: Sequence[str]) -> list[str]:
    """The kinds of attack for names, each of which may be the beginning of several: `corrupt` means all of corrupt-*.
    None means all.

    Raises ValueError for an unknown name.
    """
    chosen = []
    for name in wanted:
        found = [kind for kind in KINDS if kind == name or kind.startswith(name + "-")]
        if not found:
            raise ValueError(f"{name!r} is not a kind of attack; there are {', '.join(KINDS)}")
        chosen += found
    return list(dict.fromkeys(chosen)) or list(KINDS)


def play(kind: str, seed: int, seconds: float, recorded: Path | None = None) -> Round:
    """Play one round. An error of the round itself is a finding: the broker gave no answer, or a nonsensical one."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="regulus-attack-") as home, \
            Field(kind, seed, Path(home), begun + seconds, recorded) as field:
        try:
            asyncio.run(KINDS[kind](field))
        except (RegulusError, OSError, TimeoutError) as error:
            field.find(f"the round broke off: {type(error).__name__}: {error}")
    return Round(kind, seed, time.monotonic() - begun, field.note, tuple(field.findings))


def campaign(kinds: Sequence[str], seed: int, seconds: float, recorded: Path | None,
             say: Callable[[str], None]) -> list[Round]:
    """Play rounds of each kind, with consecutive seeds, until its seconds are over: at least one."""
    rounds = []
    for kind in kinds:
        until = time.monotonic() + seconds
        number = seed
        while number == seed or time.monotonic() < until:
            played = play(kind, number, max(0.0, until - time.monotonic()), recorded)
            rounds.append(played)
            say(str(played))
            for text in played.findings:
                say(f"    {text}")
            if played.findings:
                say(f"    again: python -m regulus.testing.attack --kind {kind} --seed {number}")
            number += 1
    return rounds


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m regulus.testing.attack", description=__doc__)
    parser.add_argument("--kind", action="append", default=[], metavar="KIND",
                        help=f"one of {', '.join(KINDS)}, or a first part such as corrupt; may be given again [all]")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each kind [%(default)s]")
    parser.add_argument("--seed", type=int, default=None, help="of the first round [the time of day]")
    parser.add_argument("--frames", type=Path, default=None, metavar="DIRECTORY",
                        help="recorded frames to mutate besides our own: *.jsonl with frame_base64")
    given = parser.parse_args(arguments)
    try:
        kinds = kinds_named(given.kind)
    except ValueError as error:
        parser.error(str(error))
    seed = given.seed if given.seed is not None else int(time.time())
    rounds = campaign(kinds, seed, given.seconds, given.frames, lambda line: print(line, flush=True))
    bad = [played for played in rounds if played.findings]
    print(f"{len(rounds)} rounds, {len(bad)} with findings", file=sys.stdout)
    return 1 if bad else 0
