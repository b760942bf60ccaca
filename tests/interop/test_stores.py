"""A store directory is handed from one broker to another and back, and nothing of it is lost or changed.

Ours and the real one write in turn to the same directory; the real Java client reads it, in full and by every index.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients import Event
from conftest import NewRun, Server
from handover import GROUP, Handover, Reader, bounds_of, messages_of
from ports import free_broker_port

from regulus.errors import RegulusError
from regulus.wire import fastjson

COUNT = 12
SAVED_TIMEOUT_S = 120


@dataclass
class Story:
    """What was read from the directory: by its writer, by the one it was handed to, and by the writer again."""

    end: str
    written: list[Event]
    taken_over: list[Event]
    first_consumed: list[str]
    then_consumed: list[str]
    both: list[Event]
    handed_back: list[Event]


def wait_until_saved(store: Path, count: int) -> None:
    """Until the files say that `count` delayed messages were delivered and `count` were consumed.

    Either broker saves these offsets every few seconds; a broker that is killed before delivers and consumes again.
    """
    deadline = time.monotonic() + SAVED_TIMEOUT_S
    while True:
        delivered = saved_table(store / "config" / "delayOffset.json").get("1", 0)
        consumed = sum(saved_table(store / "config" / "consumerOffset.json").get(f"Plain@{GROUP}", {}).values())
        if (delivered, consumed) == (count, count):
            return
        assert time.monotonic() < deadline, f"{delivered} delivered and {consumed} consumed are saved, not {count}"
        time.sleep(0.2)


def saved_table(path: Path) -> dict[str, Any]:
    """Empty while the file is not there or just being written."""
    try:
        return fastjson.loads(path.read_bytes()).get("offsetTable", {})
    except (OSError, ValueError, RegulusError):
        return {}


PAIRS = [("regulus", "java-4.9.8", "stop"), ("regulus", "java-5.3.3", "kill"), ("java-4.9.8", "regulus", "kill"),
         ("java-5.3.3", "regulus", "stop")]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}-after-{pair[2]}")
def story(request: pytest.FixtureRequest, new_run: NewRun) -> Story:
    writer_name, reader_name, end = request.param
    home = new_run("handover")
    handover = Handover(home / "store", free_broker_port(), new_run)
    open_servers: list[Server] = []

    def with_server(name: str, end: str, deed: Callable[[Reader], None], count: int) -> None:
        server = handover.open(name)
        open_servers.append(server)
        deed(Reader(server, home / "client"))
        if end == "stop":
            server.stop()
        else:
            wait_until_saved(handover.store, count)
            server.kill()

    told: dict[str, list[Event]] = {}
    consumed: dict[str, list[str]] = {}
    first, second = ([f"{prefix}-{index}" for index in range(COUNT)] for prefix in ("first", "second"))

    def write(reader: Reader) -> None:
        reader.write("first", 0, COUNT)
        consumed["first"] = reader.consume(first)
        told["written"] = reader.read()

    def take_over(reader: Reader) -> None:
        told["taken over"] = reader.survey()
        reader.write("second", COUNT, COUNT)
        consumed["second"] = reader.consume(second)
        told["both"] = reader.read()

    try:
        with_server(writer_name, end, write, COUNT)
        with_server(reader_name, end, take_over, 2 * COUNT)
        with_server(writer_name, "kill", lambda reader: told.update({"back": reader.read()}), 2 * COUNT)
    finally:
        for server in open_servers:
            server.kill()
    return Story(end, told["written"], told["taken over"], consumed["first"], consumed["second"], told["both"],
                 told["back"])


def test_all_that_was_written_is_read(story: Story) -> None:
    assert len(messages_of(story.written)) == 5 * COUNT
    assert messages_of(story.taken_over) == messages_of(story.written)


def test_the_queues_have_the_same_bounds(story: Story) -> None:
    assert bounds_of(story.taken_over) == bounds_of(story.written)


def test_messages_are_found_by_key(story: Story) -> None:
    keyed = [event for event in messages_of(story.written) if event["topic"] == "Keyed"]
    assert messages_of(story.taken_over, "found") == keyed


def test_messages_are_found_by_their_id(story: Story) -> None:
    assert messages_of(story.taken_over, "viewed") == messages_of(story.written)


def test_a_group_goes_on_where_it_was(story: Story) -> None:
    """After a kill the last seconds of consumer offsets may be lost: messages come again, but none is left out."""
    first, second = (sorted(f"{prefix}-{index}" for index in range(COUNT)) for prefix in ("first", "second"))
    assert story.first_consumed == first
    if story.end == "stop":
        assert story.then_consumed == second
    else:
        assert set(second) <= set(story.then_consumed) <= {*first, *second}


def test_what_is_appended_comes_after_what_was_there(story: Story) -> None:
    before = messages_of(story.written)
    both = messages_of(story.both)
    assert len(both) == 10 * COUNT
    assert [event for event in both if event["body"].startswith("first-")] == before
    last = max(int(event["physicalOffset"]) for event in before)
    assert all(int(event["physicalOffset"]) > last for event in both if event["body"].startswith("second-"))


def test_the_first_broker_reads_what_the_second_appended(story: Story) -> None:
    assert messages_of(story.handed_back) == messages_of(story.both)
    assert bounds_of(story.handed_back) == bounds_of(story.both)
