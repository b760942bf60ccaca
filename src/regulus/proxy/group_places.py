"""Gives a new consumer group its first offsets when a consumer sends its settings, and not only at its first pop.

The group then gets all messages that are sent after the settings were answered. RocketMQ's brokers answer the request
that is used for it, but set no offsets.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress

from regulus.errors import CallRefused
from regulus.proxy import routing
from regulus.proxy.brokers import Brokers
from regulus.proxy.catalog import Catalog
from regulus.proxy.popping import TIMEOUT_MS
from regulus.proxy.status import checked
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc.codes import Code
from regulus.wire.headers import NotificationRequest
from regulus.wire.headers.pop_message import ANY_QUEUE, INIT_MAX
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

PLACES_S_MAX = 1.0
"""How long the answer to settings may wait for brokers: clients give up after two or three seconds."""
TOLD_MAX = 8
"""Topics that one warning names."""


class GroupPlaces:
    """Has the brokers of a topic set the first offsets of a group."""

    def __init__(self, brokers: Brokers, catalog: Catalog) -> None:
        self._brokers = brokers
        self._catalog = catalog

    async def begin(self, group: str, topics: Collection[str]) -> set[str]:
        """Have the brokers of each topic set the group's first offsets there.

        Returns the topics for which all brokers have done so within PLACES_S_MAX; a warning names the others."""
        waits: dict[str, set[str] | None] = dict.fromkeys(topics)   # brokers to ask; None: no route yet
        with suppress(TimeoutError):
            async with asyncio.timeout(PLACES_S_MAX):
                of_broker = await self._brokers_of(waits)
                await asyncio.gather(*(self._begin_at(broker, group, asked, waits)
                                       for broker, asked in of_broker.items()))
        begun = {topic for topic, brokers in waits.items() if brokers is not None and not brokers}
        left = [topic for topic in waits if topic not in begun]
        if left:
            _log.warning("group %s has no offsets yet in %d topics; it may miss messages that are sent there before "
                         "its first receive: %s", group, len(left), ", ".join(left[:TOLD_MAX]))
        return begun

    async def _brokers_of(self, waits: dict[str, set[str] | None]) -> dict[str, list[str]]:
        """The topics of each broker. A topic that does not exist, or has no queue to read, is removed from `waits`: the
        group will get its first message anyway."""
        of_broker: dict[str, list[str]] = {}
        for topic in list(waits):
            try:
                names = routing.readable_brokers(await self._catalog.route(topic))
            except CallRefused as error:
                if error.code != Code.TOPIC_NOT_FOUND:
                    continue
                names = []
            if not names:
                del waits[topic]
                continue
            waits[topic] = set(names)
            for name in names:
                of_broker.setdefault(name, []).append(topic)
        return of_broker

    async def _begin_at(self, broker: str, group: str, topics: Sequence[str],
                        waits: dict[str, set[str] | None]) -> None:
        """Ask one broker for one topic after the other. Runs once for each broker, so a silent one delays no other."""
        for topic in topics:
            header = NotificationRequest(consumer_group=group, topic=topic, queue_id=ANY_QUEUE, poll_time=0,
                                         born_time=0, init_mode=INIT_MAX)
            command = RemotingCommand.request(RequestCode.NOTIFICATION, header.ext())
            try:
                answer = await self._brokers.ask(broker, command, TIMEOUT_MS)
                if answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    checked(answer)
            except CallRefused as error:
                _log.info("group %s gets no offsets yet in topic %s at broker %s: %s", group, topic, broker, error)
            else:
                brokers = waits[topic]
                assert brokers is not None
                brokers.discard(broker)
