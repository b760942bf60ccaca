"""Members of a group hear that others came or went."""

from collections import deque

import pytest

from regulus.broker.groups.clients import Client, Clients
from regulus.broker.groups.notices import MEMBERS_TOLD_MAX, NOTICE_INTERVAL_MS, GroupNotices
from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.outcome import Notice
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader


class Told:
    """Groups with members, and what they hear."""

    def __init__(self, **members: int) -> None:
        self.clients = Clients()
        self.notices: deque[Notice] = deque()
        self.group = GroupNotices(self.clients, SubscriptionGroups(True), self.notices)
        for name, count in members.items():
            for channel in range(1, count + 1):
                self.join(name, channel)

    def join(self, group: str, channel: int) -> None:
        client = Client(channel, f"c{channel}", 0, 479, "", 0, 0)
        assert self.clients.register_consumer(group, client, "CONSUME_PASSIVELY", "CLUSTERING", "", [])
        self.group.note(group)

    def take(self, now_ms: int) -> list[int]:
        self.group.tick(now_ms)
        channels = [notice.channel for notice in self.notices]
        self.notices.clear()
        return channels


def test_the_first_change_is_told_at_once_and_the_next_ones_together():
    told = Told(G=1)
    assert told.take(1000) == [1]
    told.join("G", 2)
    assert told.group.tick(1010) == NOTICE_INTERVAL_MS - 10
    told.join("G", 3)
    assert told.take(1000 + NOTICE_INTERVAL_MS - 1) == []
    assert told.take(1000 + NOTICE_INTERVAL_MS) == [1, 2, 3]
    assert told.group.tick(2000) is None


def test_all_get_the_same_frame():
    told = Told(G=3)
    told.group.tick(0)
    frames = {id(notice.reply.answer.encode_parts()[0]) for notice in told.notices}
    assert len(frames) == 1
    reader = FrameReader()
    reader.feed(b"".join(told.notices[0].reply.answer.encode_parts()))
    [command] = reader.frames()
    assert (command.code, command.is_oneway) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True)
    assert command.ext == {"consumerGroup": "G"}


def test_a_great_group_is_told_a_part_each_tick():
    told = Told(G=MEMBERS_TOLD_MAX + 5, H=2)
    assert told.group.tick(0) == 0
    assert len(told.notices) == MEMBERS_TOLD_MAX
    assert told.group.tick(1) is None
    assert len(told.notices) == MEMBERS_TOLD_MAX + 7


def test_a_group_whose_members_all_left_is_passed_over():
    told = Told(G=1)
    told.clients.channel_closed(1)
    assert told.take(0) == []


@pytest.mark.parametrize("members", [200, 400])
def test_members_that_come_and_go_cost_a_notice_each(members):
    """A change each ms: each round is told to all, and there are few rounds."""
    told = Told()
    count = 0
    for number in range(members):
        told.join("G", number)
        count += len(told.take(number))
    for number in range(members):
        told.clients.channel_closed(number)
        told.group.note("G")
        count += len(told.take(members + number))
    assert count <= members * (2 * members // NOTICE_INTERVAL_MS + 1)
