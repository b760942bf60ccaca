"""The finder of what grows, with numbers of an hour; and the sizes from which it computes what may grow."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from regulus.broker.groups.offset_set_backs import OffsetSetBacks
from regulus.broker.topic_epochs import TopicEpochs
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.mapped_file import MappedFilePool
from regulus.testing.attack.churn import REMEMBERED, REMEMBERED_QUEUE_SIZE, Held, grown, growth_max

BEFORE = Held(descriptors=15, maps=285, threads=9, queue_folders=9, routes=14, document_bytes=6_700,
              memory=31 << 20, remembered_queues=30)
HOUR = 3_200
"""Laps."""
NAMES = 2_000


def after(**members: int) -> list[str]:
    now = replace(BEFORE, **members)
    return grown(BEFORE, now, growth_max(HOUR, BEFORE, now))


def test_a_leak_of_some_kib_a_lap_is_found_within_an_hour() -> None:
    assert after() == []
    assert after(memory=BEFORE.memory + HOUR * 3_000) == []
    [found] = after(memory=BEFORE.memory + HOUR * 6_000)
    assert found.startswith(f"memory grew from {BEFORE.memory} to {BEFORE.memory + HOUR * 6_000}, by more than ")


def test_what_is_remembered_may_grow_up_to_its_limits_and_no_further() -> None:
    kept = sum(each.count_max * each.size for each in REMEMBERED.values())
    assert growth_max(1_000_000, BEFORE, BEFORE).memory == growth_max(2_000_000, BEFORE, BEFORE).memory
    assert growth_max(1_000_000, BEFORE, BEFORE).memory - growth_max(0, BEFORE, BEFORE).memory == kept
    many = replace(BEFORE, remembered_queues=BEFORE.remembered_queues + 7)
    assert growth_max(HOUR, BEFORE, many).memory - growth_max(HOUR, BEFORE, BEFORE).memory == 7 * REMEMBERED_QUEUE_SIZE


@pytest.mark.parametrize(("member", "more"), [
    ("descriptors", 5), ("maps", 41), ("threads", 2), ("queue_folders", 1), ("routes", 1), ("document_bytes", 513)])
def test_each_other_growth_is_found(member: str, more: int) -> None:
    was = getattr(BEFORE, member)
    assert after(**{member: was + more - 1}) == []
    assert after(**{member: was + more}) == [f"{member} grew from {was} to {was + more}, by more than {more - 1}"]


def _deleted_topics(names: list[str]) -> object:
    epochs = TopicEpochs()
    for name in names:
        epochs.note_deleted(name)
    epochs.encoded_deleted.encode(len(names))
    return epochs


def _deleted_groups(names: list[str]) -> object:
    set_backs = OffsetSetBacks()
    for name in names:
        set_backs.note_removed(name, 1_700_000_000_000)
    return set_backs


@pytest.mark.parametrize(("kept", "remember"), [("deleted topics", _deleted_topics),
                                                ("deleted groups", _deleted_groups)])
def test_a_deleted_name_takes_no_more_memory_than_is_counted_for_it(
        kept: str, remember: Callable[[list[str]], object]) -> None:
    size = REMEMBERED[kept].size
    used = _memory_of(lambda: remember(_names()))
    assert size / 2 < used / NAMES <= size


def test_a_deleted_queue_takes_no_more_memory_than_is_counted_for_it(tmp_path: Path) -> None:
    def remember() -> ConsumeQueues:
        queues = ConsumeQueues(tmp_path, 20_000, MappedFilePool(16))
        for number, name in enumerate(_names()):
            queues.set_faulty(name, 0, "0 0", "is lost")
            queues.delete(name, 1_000_000 + number)
        assert len(queues.births) == NAMES
        return queues

    assert REMEMBERED_QUEUE_SIZE / 2 < _memory_of(remember) / NAMES <= REMEMBERED_QUEUE_SIZE


def _names() -> list[str]:
    return [f"%RETRY%churners-1700000000-{number}-0_churn-1700000000-{number}-5" for number in range(NAMES)]


def _memory_of(make: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        used = tracemalloc.get_traced_memory()[0] - before
        del made
        return used
    finally:
        tracemalloc.stop()
