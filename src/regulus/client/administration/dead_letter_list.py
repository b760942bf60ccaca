"""Counts the dead letters of all groups, mostly without reading them."""

from collections.abc import Sequence
from dataclasses import dataclass

from regulus.client.administration.admin import Admin
from regulus.client.administration.dead_letters import QueueRange, letter_ranges, letters_in
from regulus.errors import TopicMissing
from regulus.model.topics import DLQ_PREFIX

HOUR_MS = 3_600_000
LOOKED_AT_MAX = 1_000
"""The newest letters of each queue, which are read to see from which topics a group's letters came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSummary:
    """`topics`: those from which the newest letters came. `expires_ms`: when the first letter's broker may remove it;
    None if the broker does not say. `last_hour`: letters of the last hour."""

    group: str
    count: int
    oldest_ms: int
    newest_ms: int
    topics: tuple[str, ...]
    expires_ms: int | None
    last_hour: int


async def groups_with_letters(admin: Admin) -> list[str]:
    """The groups that have a dead-letter topic, which may be empty."""
    return [topic[len(DLQ_PREFIX):] for topic in await admin.list_topics() if topic.startswith(DLQ_PREFIX)]


async def summaries(admin: Admin, now_ms: int) -> list[LetterSummary]:
    """Each group that has dead letters."""
    reserved = await _reserved_ms(admin)
    found = []
    for group in await groups_with_letters(admin):
        try:
            ranges = [each for each in await letter_ranges(admin, group) if each.end > each.start]
        except TopicMissing:
            continue    # the topic was deleted after it was listed
        if ranges:
            found.append(await _summary(admin, group, ranges, reserved, now_ms))
    return found


async def _summary(admin: Admin, group: str, ranges: Sequence[QueueRange], reserved: dict[str, int],
                   now_ms: int) -> LetterSummary:
    stats = await admin.topic_stats(f"{DLQ_PREFIX}{group}")
    firsts = {each: await admin.earliest_store_time(each.queue) for each in ranges}
    recent = [each.end - max(each.start, await admin.search_offset(each.queue, now_ms - HOUR_MS)) for each in ranges]
    ends = [first + reserved[each.queue.broker_name] for each, first in firsts.items()
            if each.queue.broker_name in reserved]
    newest = [each._replace(start=max(each.start, each.end - LOOKED_AT_MAX)) for each in ranges]
    topics = {letter.origin async for letter in letters_in(admin, group, newest)}
    return LetterSummary(
        group=group, count=sum(each.end - each.start for each in ranges), oldest_ms=min(firsts.values()),
        newest_ms=max(ends.last_update_timestamp for queue, ends in stats.items()), topics=tuple(sorted(topics)),
        expires_ms=min(ends, default=None), last_hour=sum(max(0, count) for count in recent))


async def _reserved_ms(admin: Admin) -> dict[str, int]:
    """How long each broker keeps messages, if it says so."""
    reserved = {}
    for name, address in (await admin.readable_brokers()).items():
        hours = (await admin.broker_config(address)).get("fileReservedTime", "")
        if hours.isascii() and hours.isdigit() and len(hours) < 10:
            reserved[name] = int(hours) * HOUR_MS
    return reserved
