"""GET_ROUTEINFO_BY_TOPIC, GET_BROKER_CLUSTER_INFO."""

from regulus.model.peer import Peer
from regulus.nameserver.handlers.reached import reached_addresses
from regulus.nameserver.kv_config import ORDER_TOPIC_CONFIG
from regulus.nameserver.route_table import BrokerRow, TopicRoute, in_zone, with_acting_master
from regulus.nameserver.state import NameServerState
from regulus.wire.bodies import BrokerData, ClusterInfo, QueueData, TopicRouteData
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import GetRouteinfoByTopicRequest
from regulus.wire.remoting_command import RemotingCommand

_HELP = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def handle_get_routeinfo_by_topic(request: RemotingCommand, peer: Peer, state: NameServerState,
                                  now_ms: int) -> RemotingCommand:
    """The code TOPIC_NOT_EXIST matters: producers react to it by asking for the template topic."""
    header = GetRouteinfoByTopicRequest.decode(request)
    config = state.config
    if config.need_wait_for_service and state.steady_ms < state.started_ms + config.wait_seconds_for_service * 1000:
        return request.response(ResponseCode.SYSTEM_ERROR, "name server not ready")
    route = state.routes.route(header.topic)
    if route is None:
        return request.response(ResponseCode.TOPIC_NOT_EXIST,
                                f"No topic route info in name server for the topic: {header.topic}{_HELP}")
    if config.support_acting_master:
        route = with_acting_master(route, header.topic)
    if header.zone_mode and header.zone_name:
        route = in_zone(route, header.zone_name)
    order_conf = state.kv_config.get(ORDER_TOPIC_CONFIG, header.topic) if config.order_message_enable else None
    return request.response(ResponseCode.SUCCESS, body=_topic_route_data(route, order_conf, peer).encode())


def handle_get_broker_cluster_info(request: RemotingCommand, peer: Peer, state: NameServerState,
                                   now_ms: int) -> RemotingCommand:
    body = ClusterInfo(
        broker_addr_table={name: _broker_data(row, peer) for name, row in state.routes.brokers.items()},
        cluster_addr_table={cluster: sorted(names) for cluster, names in state.routes.clusters.items()})
    return request.response(ResponseCode.SUCCESS, body=body.encode())


def _topic_route_data(route: TopicRoute, order_conf: str | None, peer: Peer) -> TopicRouteData:
    queue_datas = [QueueData(broker_name=name, read_queue_nums=row.read_queue_nums,
                             write_queue_nums=row.write_queue_nums, perm=row.perm, topic_sys_flag=row.topic_sys_flag)
                   for name, row in route.queues.items()]
    return TopicRouteData(order_topic_conf=order_conf, queue_datas=queue_datas,
                          broker_datas=[_broker_data(row, peer) for row in route.brokers.values()],
                          filter_server_table=route.filter_servers)


def _broker_data(row: BrokerRow, peer: Peer) -> BrokerData:
    return BrokerData(cluster=row.cluster_name, broker_name=row.broker_name,
                      broker_addrs=reached_addresses(row.broker_addrs, peer),
                      enable_acting_master=row.enable_acting_master, zone_name=row.zone_name)
