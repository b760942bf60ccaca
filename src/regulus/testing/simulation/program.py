"""Plays runs: one, with its trace to read, or many in parallel."""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from regulus.testing.simulation.playing import Played, play
from regulus.testing.simulation.stories import STORIES

MODULE = "regulus.testing.simulation"
HASH_SEED = "0"
"""The hash seed of all processes that play: the order of a set of strings must be the same each time."""
_AT_A_TIME = 10
_RUNS_PER_COLLECTION = 5
_FINDINGS_SHOWN = 5

Choice = tuple[str, int]


def has_hash_seed() -> bool:
    """Whether this process may play. If not, start it again with `PYTHONHASHSEED` set to HASH_SEED."""
    return os.environ.get("PYTHONHASHSEED") == HASH_SEED and not sys.flags.hash_randomization


def chosen(stories: Sequence[str], seeds: Iterable[int]) -> list[Choice]:
    """Assign a story to each seed."""
    return [(stories[seed % len(stories)], seed) for seed in seeds]


def play_all(choices: Sequence[Choice], jobs: int) -> Iterator[Played]:
    """Play runs in order, `jobs` at a time, each in a process that plays nothing else."""
    if jobs == 1 and has_hash_seed():
        yield from map(_play, choices)
        return
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin) as pool:
        yield from pool.map(_play, choices, chunksize=_AT_A_TIME)


def _begin() -> None:
    """In a process that only plays, collect memory between runs, and only what they used."""
    gc.disable()
    gc.freeze()


def _play(choice: Choice) -> Played:
    played = play(*choice)
    if choice[1] % _RUNS_PER_COLLECTION == 0:
        gc.collect()
    return played


def replay(played: Played) -> str:
    """The command that shows it again."""
    return f"python -m {MODULE} --story {played.story} --seed {played.seed} --trace"


def tell(played: Played, say: Callable[[str], None]) -> None:
    """Print what is wrong in a run, and how to see it again."""
    say(f"{played.story} {played.seed}: {len(played.findings)} findings")
    for text in played.findings[:_FINDINGS_SHOWN]:
        say(f"    {text}")
    if len(played.findings) > _FINDINGS_SHOWN:
        say(f"    and {len(played.findings) - _FINDINGS_SHOWN} more")
    say(f"    again: {replay(played)}")


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--seeds", type=_range, default=range(100), metavar="FIRST:END",
                        help="play these, END not among them [0:100]")
    parser.add_argument("--story", action="append", default=[], choices=[*STORIES], metavar="STORY",
                        help="may be given again [all, in turn]: " + "; ".join(
                            f"{name}: {story.about}" for name, story in STORIES.items()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes [%(default)s]")
    parser.add_argument("--trace", action="store_true", help="show what happened, line by line")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 when something is wrong in a run."""
    given = _parser().parse_args(arguments)
    stories = given.story or list(STORIES)
    if given.seed is not None:
        (choice,) = chosen(stories, [given.seed])
        played = play(*choice, traced=given.trace)
        for line in played.lines:
            print(line)
        tell(played, print)
        print(f"digest {played.digest:08x}, {played.virtual_s:.1f} s of its time, {played.messages} messages, "
              f"{played.calls} calls")
        return 1 if played.findings else 0
    return _play_many(chosen(stories, given.seeds), given.jobs)


def _play_many(choices: Sequence[Choice], jobs: int) -> int:
    began = time.monotonic()
    bad: Counter[str] = Counter()
    count = 0
    for played in play_all(choices, jobs):
        count += 1
        if played.findings:
            bad[played.story] += 1
            tell(played, print)
            sys.stdout.flush()
    for story, number in bad.items():
        print(f"{story}: {number} runs with findings")
    took_s = time.monotonic() - began
    print(f"{count} runs, {bad.total()} with findings, in {took_s:.1f} s: {took_s * 1000 / max(count, 1):.0f} ms each")
    return 1 if bad else 0
