"""Registration of brokers, their heartbeats, and their departure.

REGISTER_BROKER, UNREGISTER_BROKER, QUERY_DATA_VERSION, BROKER_HEARTBEAT, GET_BROKER_MEMBER_GROUP.
"""

from collections.abc import Generator, Iterator
from zlib import crc32

from regulus.model.peer import Peer
from regulus.model.topics import DataVersion
from regulus.nameserver.handlers.reached import reached_address, reached_addresses
from regulus.nameserver.handlers.steps import Steps
from regulus.nameserver.kv_config import ORDER_TOPIC_CONFIG
from regulus.nameserver.route_table import Registration
from regulus.nameserver.state import NameServerState
from regulus.wire.bodies import (
    BrokerMemberGroup,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    RegisterBrokerBody,
    decode_data_version,
    encode_data_version,
)
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from regulus.wire.remoting_command import RemotingCommand

CHECKED_A_STEP = 1 << 20
"""Bytes of a body that are checksummed in one step."""
TOPICS_A_STEP = 512
"""Topics of a registration that are freed in one step."""
_VERSION_WITH_FILTER_SERVERS = 37
"""V3_0_11: from this version on the body is a RegisterBrokerBody, before it the topic table alone."""


def handle_register_broker(request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> Steps:
    """Register a broker. The request is read in steps, because a broker may have very many topics; the tables change in
    one step."""
    header = RegisterBrokerRequest.decode(request)
    if header.body_crc32 and (yield from _checksum(request.body)) & 0x7FFFFFFF != header.body_crc32:
        return request.response(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    registration = yield from _registration(request, header, peer)
    result = state.routes.register(registration, state.steady_ms, state.config.delete_topic_with_broker_registration)
    yield from _let_go(registration)
    if not result.accepted:
        return request.response(ResponseCode.SYSTEM_ERROR, "register broker failed")
    if result.min_broker_id_changed:
        state.tell([state.routes.min_broker_id_change(header.broker_name, None, header.ha_server_addr)])
    response = RegisterBrokerResponse(
        ha_server_addr=_reached(result.ha_server_addr, peer), master_addr=_reached(result.master_addr, peer))
    order_table = state.kv_config.namespace(ORDER_TOPIC_CONFIG)
    wanted = state.config.return_order_topic_config_to_broker and order_table is not None
    return request.response(ResponseCode.SUCCESS, ext=response.ext(),
                            body=KVTable(table=order_table or {}).encode() if wanted else b"")


def handle_unregister_broker(request: RemotingCommand, peer: Peer, state: NameServerState,
                             now_ms: int) -> RemotingCommand:
    header = UnregisterBrokerRequest.decode(request)
    state.tell([state.routes.unregister(header.cluster_name, header.broker_name, header.broker_addr,
                                        header.broker_id)])
    return request.response(ResponseCode.SUCCESS)


def handle_query_data_version(request: RemotingCommand, peer: Peer, state: NameServerState,
                              now_ms: int) -> RemotingCommand:
    """Answers whether the broker must register again; this request alone keeps it alive."""
    header = QueryDataVersionRequest.decode(request)
    asked = decode_data_version(request.body)
    known = state.routes.data_version(header.cluster_name, header.broker_addr)
    state.routes.heartbeat(header.cluster_name, header.broker_addr, state.steady_ms)
    # Another broker with this name and id may have replaced it and left: then only the one that asks remains.
    has_changed = known != asked or not state.routes.has_place(header.broker_name, header.broker_id)
    return request.response(ResponseCode.SUCCESS, ext=QueryDataVersionResponse(changed=has_changed).ext(),
                            body=b"" if known is None else encode_data_version(known))


def handle_broker_heartbeat(request: RemotingCommand, peer: Peer, state: NameServerState,
                            now_ms: int) -> RemotingCommand:
    header = BrokerHeartbeatRequest.decode(request)
    state.routes.heartbeat(header.cluster_name, header.broker_addr, state.steady_ms)
    return request.response(ResponseCode.SUCCESS)


def handle_get_broker_member_group(request: RemotingCommand, peer: Peer, state: NameServerState,
                                   now_ms: int) -> RemotingCommand:
    """An unknown broker name has no members."""
    header = GetBrokerMemberGroupRequest.decode(request)
    row = state.routes.brokers.get(header.broker_name)
    known = row is not None and row.cluster_name == header.cluster_name
    group = BrokerMemberGroup(cluster=header.cluster_name, broker_name=header.broker_name,
                              broker_addrs=reached_addresses(row.broker_addrs, peer) if row and known else {})
    body = GetBrokerMemberGroupResponseBody(broker_member_group=group)
    return request.response(ResponseCode.SUCCESS, body=body.encode())


def _registration(request: RemotingCommand, header: RegisterBrokerRequest,
                  peer: Peer) -> Generator[None, None, Registration]:
    body = yield from _register_broker_body(request)
    wrapper = body.topic_config_serialize_wrapper if body else None
    return Registration(
        cluster_name=header.cluster_name, broker_name=header.broker_name, broker_id=header.broker_id,
        broker_addr=header.broker_addr, ha_server_addr=header.ha_server_addr, channel=peer.channel,
        data_version=wrapper.data_version if wrapper else DataVersion(),
        topics=wrapper.topic_config_table if wrapper else None,
        gone_topics=tuple(body.regulus_gone_topics or ()) if body else (),
        filter_servers=tuple(body.filter_server_list) if body else None,
        timeout_ms=header.heartbeat_timeout_millis, enable_acting_master=header.enable_acting_master,
        zone_name=header.zone_name)


def _register_broker_body(request: RemotingCommand) -> Generator[None, None, RegisterBrokerBody | None]:
    if not request.body:
        return None
    if request.version < _VERSION_WITH_FILTER_SERVERS:
        return (yield from RegisterBrokerBody.decode_wrapper_in_steps(request.body))
    return (yield from RegisterBrokerBody.decode_in_steps(request.body))


def _let_go(registration: Registration) -> Iterator[None]:
    """Free what was made of the request in steps, because freeing it at once takes long. Yields after each step but the
    last."""
    topics = registration.topics
    number = 0
    while isinstance(topics, dict) and topics:
        if number and number % TOPICS_A_STEP == 0:
            yield
        topics.popitem()
        number += 1


def _checksum(body: bytes) -> Generator[None, None, int]:
    checksum = 0
    for first in range(0, len(body), CHECKED_A_STEP):
        if first:
            yield
        checksum = crc32(memoryview(body)[first:first + CHECKED_A_STEP], checksum)
    return checksum


def _reached(address: str | None, peer: Peer) -> str | None:
    return None if address is None else reached_address(address, peer)
