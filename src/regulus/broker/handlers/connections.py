"""Who is connected: GET_CONSUMER_CONNECTION_LIST, GET_PRODUCER_CONNECTION_LIST, GET_ALL_PRODUCER_INFO."""

from regulus.broker.clients import Client
from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.bodies import Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo
from regulus.wire.codes import LanguageCode, ResponseCode
from regulus.wire.headers import GetConsumerConnectionListRequest, GetProducerConnectionListRequest
from regulus.wire.remoting_command import RemotingCommand

_LANGUAGES = {int(code): code.name for code in LanguageCode}


def handle_get_consumer_connection_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetConsumerConnectionListRequest.decode(request).consumer_group
    consumers = broker.clients.consumer_group(group)
    if consumers is None:
        return refuse(request, ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
    body = ConsumerConnection(
        connection_set=[_connection(client) for client in consumers.clients.values()],
        subscription_table=dict(consumers.subscriptions), consume_type=consumers.consume_type,
        message_model=consumers.message_model, consume_from_where=consumers.consume_from_where)
    return succeed(request, body.encode())


def handle_get_producer_connection_list(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    group = GetProducerConnectionListRequest.decode(request).producer_group
    producers = broker.clients.producer_group(group)
    if not producers:
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    body = ProducerConnection(connection_set=[_connection(client) for client in producers])
    return succeed(request, body.encode())


def handle_get_all_producer_info(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    data = {group: [_producer_info(client) for client in clients]
            for group, clients in broker.clients.producer_groups().items()}
    return succeed(request, ProducerTableInfo(data=data).encode())


def _connection(client: Client) -> Connection:
    return Connection(client_id=client.client_id, client_addr=client.remote_text, language=_language(client),
                      version=client.version)


def _producer_info(client: Client) -> ProducerInfo:
    """The address has the slash that Java prints before one."""
    return ProducerInfo(client_id=client.client_id, remote_ip=f"/{client.remote_text}", language=_language(client),
                        version=client.version, last_update_timestamp=client.last_update_timestamp)


def _language(client: Client) -> str:
    return _LANGUAGES.get(client.language, LanguageCode.OTHER.name)
