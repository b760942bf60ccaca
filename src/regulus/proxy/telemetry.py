"""The telemetry stream of a client, and what brokers ask of clients. Source: ClientActivity, GrpcClientChannel."""

import logging
from collections.abc import Callable
from typing import Any

from regulus.errors import CallRefused, HeaderError, RecordError
from regulus.model import message_properties as names
from regulus.model.topics import SubscriptionGroupConfig
from regulus.proxy import settings
from regulus.proxy.caller import Caller
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import TOPICS_OF_CLIENT_MAX, Clients, Stream
from regulus.proxy.config import ProxyConfig
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

NODE_JS_REPEATS_S = (1.0, 3.0)
"""When a Node.js client is told its settings once more: it may not have listened the first time."""


class Telemetry:
    def __init__(self, catalog: Catalog, clients: Clients, config: ProxyConfig, now_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._clients = clients
        self._config = config
        self._now_ms = now_ms

    async def take(self, command: Any, caller: Caller, stream: Stream) -> None:
        """One command of a client. Raises CallRefused for one that ends the stream."""
        kind = command.WhichOneof("command")
        if kind == "settings":
            await self._take_settings(command.settings, caller, stream)
        elif kind in ("thread_stack_trace", "verify_message_result"):
            self._clients.answered(getattr(command, kind).nonce, command)

    async def _take_settings(self, told: Any, caller: Caller, stream: Stream) -> None:
        kind = told.WhichOneof("pub_sub")
        if kind == "publishing":
            topics = [topic_name(full_name(topic, caller.namespace)) for topic in told.publishing.topics]
            if len(topics) > TOPICS_OF_CLIENT_MAX:
                raise CallRefused(Code.BAD_REQUEST, f"{len(topics)} topics; {TOPICS_OF_CLIENT_MAX} are the most")
            merged = settings.merged(told, self._config, None)
            for topic in topics:
                self._clients.sends_to(caller, topic, self._now_ms())
        elif kind == "subscription":
            group = group_name(full_name(told.subscription.group, caller.namespace))
            for entry in told.subscription.subscriptions[:TOPICS_OF_CLIENT_MAX]:
                topic_name(full_name(entry.topic, caller.namespace))
            merged = settings.merged(told, self._config, await self._group(group))
            self._clients.heard(caller, self._now_ms()).group = group
        else:
            raise CallRefused(Code.BAD_REQUEST, "the settings are neither a producer's nor a consumer's")
        client = self._clients.heard(caller, self._now_ms())
        client.client_type, client.settings = told.client_type, merged
        self._clients.opened(caller, stream, self._now_ms())
        stream.send(messages.TelemetryCommand(status=status(Code.OK), settings=merged))

    async def _group(self, group: str) -> Any:
        """What the group is set to; the defaults where no broker can say so: a client must start without one."""
        try:
            return await self._catalog.group(group)
        except CallRefused as error:
            _log.warning("group %s gets the default settings: %s", group, error)
            return SubscriptionGroupConfig(group_name=group)

    def wants_repeats(self, caller: Caller) -> bool:
        client = self._clients.get(caller.client_id)
        return (client is not None and client.settings is not None
                and client.settings.user_agent.language == Language.NODE_JS)

    def repeat(self, caller: Caller, stream: Stream) -> None:
        client = self._clients.get(caller.client_id)
        if client is not None and client.stream is stream and client.settings is not None:
            stream.send(messages.TelemetryCommand(status=status(Code.OK), settings=client.settings))

    # --- what brokers ask --------------------------------------------------------------------------------------------

    async def hear(self, broker: str, command: RemotingCommand) -> RemotingCommand | None:
        """A broker's request to a client."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._check_transaction(broker, command)
        return None

    def _check_transaction(self, broker: str, command: RemotingCommand) -> None:
        """Ask a producer of the topic what became of a transaction; with none there, the broker asks again later."""
        try:
            header = CheckTransactionStateRequest.decode(command)
            half = message_record.decode(command.body)
        except (HeaderError, RecordError) as error:
            _log.warning("broker %s asks for a transaction that cannot be read: %s", broker, error)
            return
        topic = half.properties.get(names.REAL_TOPIC) or header.topic or half.topic
        stream = self._clients.producer_stream(topic)
        if stream is None:
            _log.info("no producer of topic %s is there to say what became of a transaction", topic)
            return
        unique_key = half.message_id or header.transaction_id or ""
        text = TransactionId(unique_key, broker, header.tran_state_table_offset, header.commit_log_offset).text()
        asked = messages.TelemetryCommand()
        asked.status.CopyFrom(status(Code.OK))
        asked.recover_orphaned_transaction_command.message.CopyFrom(
            to_message(half, topic, kind=MessageType.TRANSACTION))
        asked.recover_orphaned_transaction_command.transaction_id = text
        stream.send(asked)
