"""Old files deleted by one broker: the other opens what is left, and finds the same messages in the same places."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients import Event
from conftest import NewRun
from handover import Handover, Reader, bounds_of, messages_of
from ports import free_broker_port

from regulus.client.administration.admin import Admin

COUNT = 45
SETTINGS = {"mappedFileSizeCommitLog": str(16 << 10)}
AGE_S = 100 * 3600
# The real broker begins to delete a minute after its start.
DELETED_TIMEOUT_S = 120
PAIRS = [("regulus", "java-5.3.3"), ("regulus", "java-4.9.8"),
         *[pytest.param((real, "regulus"), marks=pytest.mark.long) for real in ("java-5.3.3", "java-4.9.8")]]


@dataclass
class Story:
    """What was read: before the deletion, after it by the broker that deleted, by the other one, and by the first once
    the other had appended more. `start` is where the log begins since the deletion."""

    names: tuple[str, str]
    start: int
    written: list[Event]
    kept: list[Event]
    taken_over: list[Event]
    both: list[Event]
    handed_back: list[Event]


def log_files(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


async def order(name_server: str, broker: str) -> None:
    async with Admin(name_server) as admin:
        await admin.delete_expired_commit_log(broker)


def is_old(file: Path) -> bool:
    """A file that went since it was listed was old."""
    try:
        return time.time() - file.stat().st_mtime > AGE_S / 2
    except FileNotFoundError:
        return True


def await_deletion(store: Path) -> int:
    """Until only the newest files are left, which are not old; where the log begins then."""
    deadline = time.monotonic() + DELETED_TIMEOUT_S
    while is_old(log_files(store)[0]):
        assert time.monotonic() < deadline, f"{log_files(store)[0]} was not deleted"
        time.sleep(0.1)
    return int(log_files(store)[0].name)


@pytest.fixture(scope="module", params=PAIRS, ids="-then-".join)
def story(request: pytest.FixtureRequest, new_run: NewRun) -> Story:
    deleter, opener = request.param
    home = new_run("retention")
    handover = Handover(home / "store", free_broker_port(), new_run, SETTINGS)
    server = handover.open(deleter)
    try:
        reader = Reader(server, home / "client")
        reader.write("first", 0, COUNT)
        written = reader.read()
        server.stop()
        files = log_files(handover.store)
        assert len(files) > 3
        long_ago = time.time() - AGE_S
        for file in files[:-2]:
            os.utime(file, (long_ago, long_ago))
        server = handover.open(deleter)
        asyncio.run(order(server.name_server_address, server.broker_address))
        start = await_deletion(handover.store)
        server.stop()
        server = handover.open(deleter)
        kept = Reader(server, home / "client").read()
        server.stop()
        server = handover.open(opener)
        reader = Reader(server, home / "client")
        taken_over = reader.survey()
        reader.write("second", COUNT, COUNT)
        both = reader.read()
        server.stop()
        server = handover.open(deleter)
        handed_back = Reader(server, home / "client").read()
    finally:
        server.kill()
    return Story((deleter, opener), start, written, kept, taken_over, both, handed_back)


def test_what_the_log_still_has_is_read_by_both(story: Story) -> None:
    expected = [event for event in messages_of(story.written) if int(event["physicalOffset"]) >= story.start]
    assert 0 < len(expected) < len(messages_of(story.written)) - COUNT
    assert messages_of(story.kept) == expected
    assert messages_of(story.taken_over) == expected
    assert messages_of(story.taken_over, "viewed") == expected


def test_the_queues_have_the_same_bounds(story: Story) -> None:
    """Of 4.9.8 only the ends: a queue whose messages are all gone keeps its old beginning there."""
    kept, taken_over = bounds_of(story.kept), bounds_of(story.taken_over)
    if "java-4.9.8" in story.names:
        kept, taken_over = [[(*bounds[:2], bounds[3]) for bounds in each] for each in (kept, taken_over)]
    assert kept == taken_over


def test_messages_are_appended_behind_what_was_kept(story: Story) -> None:
    both = messages_of(story.both)
    kept = [event for event in both if event["body"].startswith("first-")]
    assert kept == messages_of(story.kept)
    assert len(both) - len(kept) == 5 * COUNT
    ends = {(topic, queue): int(end) for topic, queue, _, end in bounds_of(story.kept)}
    for event in both:
        if event["body"].startswith("second-"):
            assert int(event["queueOffset"]) >= ends[event["topic"], event["queueId"]]
    assert messages_of(story.handed_back) == both
