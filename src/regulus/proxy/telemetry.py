"""Handles the settings that clients send, and passes brokers' questions about transactions to producers.

Source: ClientActivity, GrpcClientChannel.
"""

import asyncio
import logging
from collections.abc import Collection

from regulus.errors import CallRefused, HeaderError, RecordError
from regulus.model import message_properties as names
from regulus.model.topics import SubscriptionGroupConfig
from regulus.proxy import settings, topic_types
from regulus.proxy.access import CallAccess
from regulus.proxy.caller import Caller
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import TOPICS_OF_CLIENT_MAX, Clients, Stream
from regulus.proxy.config import ProxyConfig
from regulus.proxy.group_places import GroupPlaces
from regulus.proxy.names import full_name, group_name, topic_name
from regulus.proxy.received import to_message
from regulus.proxy.status import status
from regulus.proxy.transaction_id import TransactionId
from regulus.record import message_record
from regulus.wire.codes import RequestCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code, Language, MessageType
from regulus.wire.headers import CheckTransactionStateRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

ROUTES_S_MAX = 1.0
"""How long the answer to settings may wait for the routes of their topics: clients give up after two or three
seconds."""
NODE_JS_REPEATS_S = (1.0, 3.0)
"""Delays after which a Node.js client gets its settings again: it may not have listened for the first answer."""


class Telemetry:
    """Serves telemetry commands. `access` is None if there is no access control."""

    def __init__(self, catalog: Catalog, places: GroupPlaces, clients: Clients, config: ProxyConfig,
                 access: CallAccess | None = None) -> None:
        self._access = access
        self._catalog = catalog
        self._places = places
        self._clients = clients
        self._config = config

    async def take(self, command: messages.TelemetryCommand, caller: Caller, stream: Stream) -> None:
        """Handle one command of a client; all except settings are ignored, because this server asks nothing that is
        answered on the stream. Raises CallRefused for a command that ends the stream."""
        if command.WhichOneof("command") == "settings":
            await self._take_settings(command.settings, caller, stream)

    async def _take_settings(self, told: messages.Settings, caller: Caller, stream: Stream) -> None:
        kind = told.WhichOneof("pub_sub")
        group = ""
        consumed: list[str] = []
        if told.client_type in settings.LITE_CONSUMERS:
            self._clients.heard(caller).client_type = told.client_type      # its next QueryRoute is refused as well
            raise CallRefused(Code.NOT_IMPLEMENTED, topic_types.NO_LITE_CONSUMERS)
        if kind == "publishing":
            topics = _topics(told.publishing.topics, caller)
            merged = settings.merged(told, self._config, None)
        elif kind == "subscription":
            group = group_name(full_name(told.subscription.group, caller.namespace))
            topics = []     # topics that it sends to
            consumed = _topics([entry.topic for entry in told.subscription.subscriptions], caller)
            merged = settings.merged(told, self._config, await self._group(group))
            self._clients.heard(caller).group = group
        else:
            raise CallRefused(Code.BAD_REQUEST, "the settings are neither a producer's nor a consumer's")
        client = self._clients.heard(caller)
        client.client_type, client.language = told.client_type, told.user_agent.language
        self._clients.opened(caller, stream)
        await self._sends_to(topics, caller)
        if told.client_type in settings.CONSUMERS:
            await self._begin(group, consumed, stream)
        answer = messages.TelemetryCommand(status=status(Code.OK), settings=merged)
        stream.send(answer)
        if client.language == Language.NODE_JS:
            self._repeat_soon(answer, stream)

    async def _sends_to(self, topics: list[str], caller: Caller) -> None:
        """Note that the client sends to those of the topics that exist. Heartbeats name these topics to brokers.

        A topic that is made later, or whose route does not come in time, is noted at the client's first transaction."""
        try:
            async with asyncio.timeout(ROUTES_S_MAX):
                for topic in topics:
                    if await self._is_there(topic):
                        self._clients.sends_to(caller, topic)
        except TimeoutError:
            _log.warning("client %s cannot be asked yet about transactions of all its topics: their routes did not "
                         "come within %s s", caller.client_id, ROUTES_S_MAX)

    async def _begin(self, group: str, topics: Collection[str], stream: Stream) -> None:
        """Have brokers set the group's first offsets in new topics. Clients send their settings again and again, so
        topics that are done are remembered."""
        known = {(group, topic) for topic in topics} & stream.begun
        asked = [topic for topic in dict.fromkeys(topics) if (group, topic) not in known]
        begun = await self._places.begin(group, asked) if asked else ()
        stream.begun = known | {(group, topic) for topic in begun}

    async def _is_there(self, topic: str) -> bool:
        try:
            await self._catalog.route(topic)
        except CallRefused:
            return False
        return True

    async def _group(self, group: str) -> SubscriptionGroupConfig:
        """The settings of the group; the defaults if no broker answers, as a client must be able to start without
        one."""
        try:
            return await self._catalog.group(group)
        except CallRefused as error:
            _log.warning("group %s gets the default settings: %s", group, error)
            return SubscriptionGroupConfig(group_name=group)

    def _repeat_soon(self, answer: messages.TelemetryCommand, stream: Stream) -> None:
        """Send the newest settings of the stream again after NODE_JS_REPEATS_S. Only the first call sets timers."""
        if not stream.has_repeats:
            stream.has_repeats, stream.repeated = True, answer
            loop = asyncio.get_running_loop()
            for delay_s in NODE_JS_REPEATS_S:
                loop.call_later(delay_s, _repeat, stream, delay_s == NODE_JS_REPEATS_S[-1])
        elif stream.repeated is not None:
            stream.repeated = answer

    # --- requests of brokers -----------------------------------------------------------------------------------------

    async def hear(self, broker: str, command: RemotingCommand) -> RemotingCommand | None:
        """Handle a request of a broker to a client. Returns None, because none gets an answer."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check_transaction(broker, command)
        return None

    def _check_transaction(self, broker: str, command: RemotingCommand) -> None:
        """Ask a producer of the topic for the outcome of a transaction. If none is connected, the broker asks again
        later."""
        try:
            header = CheckTransactionStateRequest.decode(command)
            half = message_record.decode(command.body)
        except (HeaderError, RecordError) as error:
            _log.warning("broker %s asks about a transaction that cannot be read: %s", broker, error)
            return
        topic = half.properties.get(names.REAL_TOPIC) or header.topic or half.topic
        access = self._access
        stream = self._clients.producer_stream(
            topic, lambda client: access is None or access.may_end(client.user, client.host, topic))
        if stream is None:
            _log.info("no producer of topic %s can be asked about a transaction", topic)
            return
        unique_key = half.message_id or header.transaction_id or ""
        text = TransactionId(unique_key, broker, header.tran_state_table_offset, header.commit_log_offset).text()
        asked = messages.TelemetryCommand()
        asked.status.CopyFrom(status(Code.OK))
        asked.recover_orphaned_transaction_command.message.CopyFrom(
            to_message(half, topic, self._config.max_message_size, kind=MessageType.TRANSACTION))
        asked.recover_orphaned_transaction_command.transaction_id = text
        stream.send(asked)


def _topics(resources: Collection[messages.Resource], caller: Caller) -> list[str]:
    """The full names of topics. Raises CallRefused for too many, or for a bad name."""
    if len(resources) > TOPICS_OF_CLIENT_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"{len(resources)} topics; {TOPICS_OF_CLIENT_MAX} are the most")
    return [topic_name(full_name(each, caller.namespace)) for each in resources]


def _repeat(stream: Stream, is_last: bool) -> None:
    if stream.repeated is not None:
        stream.send(stream.repeated)
    if is_last:
        stream.repeated = None
