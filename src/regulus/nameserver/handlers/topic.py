"""Topic lists, and changes of topics and permissions in the name server alone.

GET_ALL_TOPIC_LIST_FROM_NAMESERVER, GET_TOPICS_BY_CLUSTER, GET_SYSTEM_TOPIC_LIST_FROM_NS, GET_UNIT_TOPIC_LIST,
GET_HAS_UNIT_SUB_TOPIC_LIST, GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, DELETE_TOPIC_IN_NAMESRV, REGISTER_TOPIC_IN_NAMESRV,
WIPE_WRITE_PERM_OF_BROKER, ADD_WRITE_PERM_OF_BROKER.
"""

from regulus.model.peer import Peer
from regulus.nameserver.handlers.reached import reached_address
from regulus.nameserver.route_table import TOPIC_SYS_FLAG_UNIT, TOPIC_SYS_FLAG_UNIT_SUB, QueueRow
from regulus.nameserver.state import NameServerState
from regulus.wire.bodies import TopicList, TopicRouteData
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteTopicInNamesrvRequest,
    GetTopicsByClusterRequest,
    RegisterTopicInNamesrvRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from regulus.wire.remoting_command import RemotingCommand


def handle_get_all_topic_list_from_nameserver(request: RemotingCommand, peer: Peer, state: NameServerState,
                                              now_ms: int) -> RemotingCommand:
    if not state.config.enable_all_topic_list:
        return request.response(ResponseCode.SYSTEM_ERROR, "disable")
    return _topic_list(request, list(state.routes.topics))


def handle_get_topics_by_cluster(request: RemotingCommand, peer: Peer, state: NameServerState,
                                 now_ms: int) -> RemotingCommand:
    """An unknown cluster has no topics."""
    header = GetTopicsByClusterRequest.decode(request)
    return _topic_list_if_enabled(request, state, state.routes.topics_of_cluster(header.cluster))


def handle_get_system_topic_list_from_ns(request: RemotingCommand, peer: Peer, state: NameServerState,
                                         now_ms: int) -> RemotingCommand:
    """The list includes a topic for each cluster name and each broker name."""
    routes = state.routes
    names = [name for cluster, brokers in routes.clusters.items() for name in (cluster, *sorted(brokers))]
    addresses = (address for row in routes.brokers.values() for address in row.broker_addrs.values())
    address = next(addresses, None)
    return _topic_list(request, names, None if address is None else reached_address(address, peer))


def handle_get_unit_topic_list(request: RemotingCommand, peer: Peer, state: NameServerState,
                               now_ms: int) -> RemotingCommand:
    return _topic_list_if_enabled(request, state, state.routes.topics_with_flag(TOPIC_SYS_FLAG_UNIT))


def handle_get_has_unit_sub_topic_list(request: RemotingCommand, peer: Peer, state: NameServerState,
                                       now_ms: int) -> RemotingCommand:
    return _topic_list_if_enabled(request, state, state.routes.topics_with_flag(TOPIC_SYS_FLAG_UNIT_SUB))


def handle_get_has_unit_sub_ununit_topic_list(request: RemotingCommand, peer: Peer, state: NameServerState,
                                              now_ms: int) -> RemotingCommand:
    topics = state.routes.topics_with_flag(TOPIC_SYS_FLAG_UNIT_SUB, TOPIC_SYS_FLAG_UNIT)
    return _topic_list_if_enabled(request, state, topics)


def handle_delete_topic_in_namesrv(request: RemotingCommand, peer: Peer, state: NameServerState,
                                   now_ms: int) -> RemotingCommand:
    header = DeleteTopicInNamesrvRequest.decode(request)
    state.routes.delete_topic(header.topic, header.cluster_name or None)
    return request.response(ResponseCode.SUCCESS)


def handle_register_topic_in_namesrv(request: RemotingCommand, peer: Peer, state: NameServerState,
                                     now_ms: int) -> RemotingCommand:
    header = RegisterTopicInNamesrvRequest.decode(request)
    route = TopicRouteData.decode(request.body) if request.body else None
    rows = {data.broker_name: QueueRow(data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag)
            for data in (route.queue_datas if route else ())}
    state.routes.register_topic(header.topic, rows)
    return request.response(ResponseCode.SUCCESS)


def handle_wipe_write_perm_of_broker(request: RemotingCommand, peer: Peer, state: NameServerState,
                                     now_ms: int) -> RemotingCommand:
    count = state.routes.wipe_write_perm(WipeWritePermOfBrokerRequest.decode(request).broker_name)
    return request.response(ResponseCode.SUCCESS, ext=WipeWritePermOfBrokerResponse(wipe_topic_count=count).ext())


def handle_add_write_perm_of_broker(request: RemotingCommand, peer: Peer, state: NameServerState,
                                    now_ms: int) -> RemotingCommand:
    count = state.routes.add_write_perm(AddWritePermOfBrokerRequest.decode(request).broker_name)
    return request.response(ResponseCode.SUCCESS, ext=AddWritePermOfBrokerResponse(add_topic_count=count).ext())


def _topic_list_if_enabled(request: RemotingCommand, state: NameServerState, topics: list[str]) -> RemotingCommand:
    if not state.config.enable_topic_list:
        return request.response(ResponseCode.SYSTEM_ERROR, "disable")
    return _topic_list(request, topics)


def _topic_list(request: RemotingCommand, topics: list[str], broker_addr: str | None = None) -> RemotingCommand:
    return request.response(ResponseCode.SUCCESS, body=TopicList(topic_list=topics, broker_addr=broker_addr).encode())
