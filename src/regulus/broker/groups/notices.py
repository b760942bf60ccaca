"""Notifies consumers that members of their group joined or left, so that they share the queues again.

A group is notified at most once in NOTICE_INTERVAL_MS: after a quiet time in the next tick, otherwise when the interval
is over. All members get the same frame, some of them in each tick. A client that joins may be notified of itself, which
makes it ask for the members once more.

Source: DefaultConsumerIdsChangeListener, Broker2Client.notifyConsumerIdsChanged.
"""

from collections import deque

from regulus.broker.groups.clients import Clients
from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.outcome import Notice, Reply
from regulus.wire.codes import RequestCode
from regulus.wire.headers import NotifyConsumerIdsChangedRequest
from regulus.wire.remoting_command import ONEWAY_FLAG, Buffer, RemotingCommand

NOTICE_INTERVAL_MS = 100    # bounds the notices when many members join or leave at once
MEMBERS_TOLD_MAX = 256
"""Members notified in one tick; if there are more, the next tick is due at once."""


class _OneFrame(RemotingCommand):
    """A one-way request to many, encoded once."""

    def __init__(self, code: int, ext: dict[str, str]) -> None:
        super().__init__(code, ext, flag=ONEWAY_FLAG)
        self._parts = super().encode_parts()

    def encode_parts(self) -> list[Buffer]:
        return self._parts


class GroupNotices:
    """Groups to notify. The requests go to `notices`."""

    def __init__(self, clients: Clients, groups: SubscriptionGroups, notices: deque[Notice]) -> None:
        self._clients = clients
        self._groups = groups
        self._notices = notices
        self._changed: dict[str, None] = {}
        self._untold: deque[tuple[list[int], Reply]] = deque()
        """Current round: channels, and the request for them."""
        self._round_ms: int | None = None

    def note(self, group: str) -> None:
        """Note that the members of a group, or its subscriptions, changed."""
        self._changed[group] = None

    def tick(self, steady_ms: int) -> int | None:
        """Send notices. Returns ms until the next call; None when there is nothing to send."""
        if not self._untold and self._changed and self._pause_ms(steady_ms) == 0:
            self._begin_round(steady_ms)
        self._tell()
        if self._untold:
            return 0
        return self._pause_ms(steady_ms) if self._changed else None

    def _pause_ms(self, steady_ms: int) -> int:
        """Ms until a round may begin."""
        return 0 if self._round_ms is None else max(0, self._round_ms + NOTICE_INTERVAL_MS - steady_ms)

    def _begin_round(self, steady_ms: int) -> None:
        self._round_ms = steady_ms
        changed, self._changed = self._changed, {}
        for group in changed:
            consumers = self._clients.consumer_group(group)
            settings = self._groups.get(group)
            if consumers is None or consumers.is_broadcasting or (
                    settings is not None and not settings.notify_consumer_ids_changed_enable):
                continue
            ext = NotifyConsumerIdsChangedRequest(consumer_group=group).ext()
            self._untold.append((list(consumers.clients),
                                 Reply(_OneFrame(int(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED), ext))))

    def _tell(self) -> None:
        left = MEMBERS_TOLD_MAX
        while self._untold and left:
            channels, reply = self._untold[0]
            told, channels[:] = channels[:left], channels[left:]
            self._notices.extend(Notice(channel, reply) for channel in told)
            left -= len(told)
            if not channels:
                self._untold.popleft()
