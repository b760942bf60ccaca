"""Connected clients: GET_CONSUMER_CONNECTION_LIST, GET_PRODUCER_CONNECTION_LIST, GET_ALL_PRODUCER_INFO."""

from collections.abc import Iterator

from regulus.broker.groups.clients import Client, ConsumerGroup
from regulus.broker.handlers.stepped import joined_in_steps
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.bodies import Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo
from regulus.wire.codes import LanguageCode, ResponseCode
from regulus.wire.headers import GetConsumerConnectionListRequest, GetProducerConnectionListRequest
from regulus.wire.json_fields import encode_entry, splice
from regulus.wire.remoting_command import RemotingCommand

_LANGUAGES = {int(code): code.name for code in LanguageCode}


def handle_get_consumer_connection_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetConsumerConnectionListRequest.decode(request).consumer_group
    consumers = broker.clients.consumer_group(group)
    if consumers is None:
        return refuse(request, ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
    return broker.long_answers.begin(request, peer, _consumers(request, consumers))


def _consumers(request: RemotingCommand, consumers: ConsumerGroup) -> Steps:
    clients = list(consumers.clients.values())
    parts = yield from joined_in_steps(_connection(client).encode() for client in clients)
    body = ConsumerConnection(
        subscription_table=dict(consumers.subscriptions), consume_type=consumers.consume_type,
        message_model=consumers.message_model, consume_from_where=consumers.consume_from_where)
    return request.response(ResponseCode.SUCCESS, body=splice(body, "connection_set", parts))


def handle_get_producer_connection_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetProducerConnectionListRequest.decode(request).producer_group
    producers = broker.clients.producer_group(group)
    if not producers:
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    return broker.long_answers.begin(request, peer, _producers(request, producers))


def _producers(request: RemotingCommand, producers: list[Client]) -> Steps:
    parts = yield from joined_in_steps(_connection(client).encode() for client in producers)
    return request.response(ResponseCode.SUCCESS, body=splice(ProducerConnection(), "connection_set", parts))


def handle_get_all_producer_info(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return broker.long_answers.begin(request, peer, _all_producers(request, broker))


def _all_producers(request: RemotingCommand, broker: BrokerState) -> Steps:
    parts = yield from joined_in_steps(_group_texts(broker.clients.producer_groups()), b"")
    return request.response(ResponseCode.SUCCESS, body=splice(ProducerTableInfo(), "data", parts))


def _group_texts(groups: dict[str, list[Client]]) -> Iterator[bytes]:
    """JSON of a map from each group to the list of its clients, in pieces."""
    for number, (group, clients) in enumerate(groups.items()):
        empty = encode_entry(group, [])
        yield b"," + empty[:-1] if number else empty[:-1]
        for client_number, client in enumerate(clients):
            text = _producer_info(client).encode()
            yield b"," + text if client_number else text
        yield empty[-1:]


def _connection(client: Client) -> Connection:
    return Connection(client_id=client.client_id, client_addr=client.remote_text, language=_language(client),
                      version=client.version)


def _producer_info(client: Client) -> ProducerInfo:
    """The address begins with a slash, as Java prints it."""
    return ProducerInfo(client_id=client.client_id, remote_ip=f"/{client.remote_text}", language=_language(client),
                        version=client.version, last_update_timestamp=client.last_update_timestamp)


def _language(client: Client) -> str:
    return _LANGUAGES.get(client.language, LanguageCode.OTHER.name)
