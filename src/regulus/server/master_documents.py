"""Has a slave know what its master knows beside the log: topics, groups, what was consumed, what was delivered.

Asked for now and then, over a connection of its own; a document that has not changed changes nothing here. A master of
ours is asked for what RocketMQ has no request for, too. Offsets that consumers committed here while the master was away
are told to it, and stay until it has decided.

Source: SlaveSynchronize.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from regulus.access.credentials import Credentials, sign_as
from regulus.broker.groups.consumer_offsets import Ahead
from regulus.broker.state import (
    CONSUMER_OFFSET_DOCUMENT,
    DELAY_OFFSET_DOCUMENT,
    OFFSET_SET_BACKS_DOCUMENT,
    OWN_DOCUMENTS,
    POP_ORDERS_DOCUMENT,
    REQUEST_MODES_DOCUMENT,
    SUBSCRIPTION_GROUP_DOCUMENT,
    TOPICS_DOCUMENT,
)
from regulus.errors import BrokerRefused, RegulusError
from regulus.record.timer_units import TimerCheck, decode_check
from regulus.server.kept_task import KeptTask
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, split_address
from regulus.wire.bodies.topic_list import KVTable
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetDocumentRequest, GetDocumentResponse, UpdateConsumerOffsetRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

INTERVAL_S = 10.0
HURRY_S = 0.02
TIMEOUT_MS = 5_000

_REQUESTS = {
    REQUEST_MODES_DOCUMENT: RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    TOPICS_DOCUMENT: RequestCode.GET_ALL_TOPIC_CONFIG,
    SUBSCRIPTION_GROUP_DOCUMENT: RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    CONSUMER_OFFSET_DOCUMENT: RequestCode.GET_ALL_CONSUMER_OFFSET,
    DELAY_OFFSET_DOCUMENT: RequestCode.GET_ALL_DELAY_OFFSET}
_NOT_OF_4_9 = (REQUEST_MODES_DOCUMENT,)

_WITH_EVERY_ROUND = (OFFSET_SET_BACKS_DOCUMENT, DELAY_OFFSET_DOCUMENT, POP_ORDERS_DOCUMENT)
"""They belong to others which have no version, or to the log, and may be passed by before that is the master's."""


_DISPENSABLE = POP_ORDERS_DOCUMENT
"""It may be too large for a frame, of groups that have very many queues out, and a slave goes on without it: it hands
out once more then, as the next master, what is out."""


class MasterDocuments:
    """`log_end` tells where the log here ends. `take` gets the texts of all documents, by name, and where that was
    before they were asked for, and says which offsets the master lacks; what it raises is told. `told` hears of each of
    these that the master has decided about. `take_timers` gets what the master's timers have done, and where its log
    ended then or a little later. `inner`: how requests are signed."""

    def __init__(self, log_end: Callable[[], int], take: Callable[[Mapping[str, str], int], Sequence[Ahead]],
                 told: Callable[[Ahead], None], take_timers: Callable[[TimerCheck, int, str], None],
                 transport_config: TransportConfig, inner: Credentials | None = None) -> None:
        self._transport_config = transport_config
        self._inner = inner
        self._log_end = log_end
        self._take = take
        self._is_told = told
        self._take_timers = take_timers
        self.log_begin = -1
        """Where the master's log begins, as it said last; -1 before it has."""
        self._versions: dict[str, str] = {}
        self._has_own = True
        self._address = ""
        self._is_found = asyncio.Event()
        self._is_hurried = asyncio.Event()
        self._connection: Connection | None = None
        self._connected_to = ""
        self._told = ""
        self._lacking = False
        self._task = KeptTask("asking the master for its topics, groups and offsets", self._keep_asking, INTERVAL_S)

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()
        self._disconnect()

    def hurry(self) -> None:
        """Ask now: the log speaks of what is not known here."""
        self._is_hurried.set()

    def master_at(self, address: str) -> None:
        """What a name server says of the master."""
        if address:
            self._address = address
            self._is_found.set()

    async def _keep_asking(self) -> None:
        """Until cancelled. A fault is told once, and so is its end."""
        while True:
            await self._is_found.wait()
            address = self._address
            try:
                log_end = self._log_end()
                await self._tell(self._take(await self._ask(address), log_end))
                await self._ask_for_log_and_timers()
                if self._told:
                    _log.info("topics, groups and offsets of the master at %s are known again", address)
                self._told = ""
            except (RegulusError, ValueError) as error:
                self._disconnect()
                text = f"topics, groups and offsets of the master at {address} are not known: {error}"
                _log.log(logging.DEBUG if text == self._told else logging.WARNING, "%s; trying on", text)
                self._told = text
            await self._rest()

    async def _rest(self) -> None:
        """Until the next time; sooner where somebody wants it, and no more often than every HURRY_S."""
        await asyncio.sleep(HURRY_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_S - HURRY_S):
                await self._is_hurried.wait()
        self._is_hurried.clear()

    async def _ask(self, address: str) -> dict[str, str]:
        """Raises ClientError, ValueError for what is no address."""
        if self._connection is None or not self._connection.is_open or address != self._connected_to:
            self._disconnect()
            self._connection = await connect(*split_address(address), config=self._transport_config)
            self._connected_to = address
            self._versions.clear()
            self._has_own = True
        # Topics before their epochs: one that is made in between would be taken for another when its epoch comes, and
        # what consumers have committed here since would go.
        texts: dict[str, str | None] = {TOPICS_DOCUMENT: await self._ask_for(self._connection, TOPICS_DOCUMENT)}
        own, versions = await self._ask_for_own(self._connection)
        texts |= own
        for name in _REQUESTS:
            if name not in texts:
                texts[name] = await self._ask_for(self._connection, name)
        self._versions |= versions
        return {name: text for name, text in texts.items() if text is not None}

    async def _ask_for(self, connection: Connection, name: str) -> str | None:
        """A document that RocketMQ's masters have, too; None for one that those of 4.9 do not have. Raises
        ClientError."""
        answer = await self._signed(connection, RemotingCommand.request(_REQUESTS[name]))
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and name in _NOT_OF_4_9:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark)
        return answer.body.decode("utf-8", "replace")

    async def _ask_for_own(self, connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
        """Texts and versions of what has changed; RocketMQ's masters do not know the request."""
        texts: dict[str, str] = {}
        versions: dict[str, str] = {}
        for name in OWN_DOCUMENTS if self._has_own else ():
            request = GetDocumentRequest(name, self._versions.get(name, ""))
            answer = await self._signed(connection,
                                        RemotingCommand.request(RequestCode.GET_DOCUMENT, request.ext()))
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._has_own = False
                break
            if name == _DISPENSABLE:
                self._tell_lacking(answer)
                if answer.code != ResponseCode.SUCCESS:
                    continue
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(answer.code, answer.remark)
            if answer.body:
                texts[name] = answer.body.decode("utf-8", "replace")
                if name not in _WITH_EVERY_ROUND:
                    versions[name] = GetDocumentResponse.decode(answer).version
        return texts, versions

    def _tell_lacking(self, answer: RemotingCommand) -> None:
        """Once when it begins, and once when it ends."""
        is_lacking = answer.code != ResponseCode.SUCCESS
        if is_lacking and not self._lacking:
            _log.warning("what is popped in order is not known as the master at %s knows it: %s; trying on",
                         self._connected_to, answer.remark)
        elif self._lacking and not is_lacking:
            _log.info("what is popped in order is known again")
        self._lacking = is_lacking

    async def _ask_for_log_and_timers(self) -> None:
        """RocketMQ 4.9's masters have no timers. Raises ClientError, HeaderError."""
        if self._connection is None:
            return
        answer = await self._signed(self._connection, RemotingCommand.request(RequestCode.GET_TIMER_CHECK_POINT))
        facts = await self._signed(self._connection, RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        if facts.code != ResponseCode.SUCCESS:
            raise BrokerRefused(facts.code, facts.remark)
        said = KVTable.decode(facts.body).table
        self.log_begin = int(said.get("commitLogMinOffset", "-1"))
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return
        log_end = said.get("commitLogMaxOffset", "")
        counts = await self._signed(self._connection, RemotingCommand.request(RequestCode.GET_TIMER_METRICS))
        if counts.code != ResponseCode.SUCCESS:
            raise BrokerRefused(counts.code, counts.remark)
        self._take_timers(decode_check(answer.body), int(log_end), counts.body.decode("utf-8", "replace"))

    async def _tell(self, offsets: Iterable[Ahead]) -> None:
        """The master decides what it takes. Raises ClientError."""
        for ahead in offsets:
            request = UpdateConsumerOffsetRequest(
                consumer_group=ahead.group, topic=ahead.topic, queue_id=ahead.queue_id,
                commit_offset=ahead.consumer_offset, set_backs=ahead.set_backs)
            if self._connection is None:
                return
            answer = await self._signed(
                self._connection, RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, request.ext()))
            if answer.code == ResponseCode.SUCCESS:
                self._is_told(ahead)
            else:       # it may not make groups by itself, and its members have still to find it
                _log.debug("the master does not take offset %d of %s for %s yet: %s", ahead.consumer_offset,
                           ahead.topic, ahead.group, answer.remark)

    async def _signed(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        sign_as(request, self._inner)
        return await connection.request(request, TIMEOUT_MS)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
