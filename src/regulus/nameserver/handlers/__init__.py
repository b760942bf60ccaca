"""The handlers of a name server: one table of request codes."""

from collections.abc import Callable

from regulus.errors import HeaderError
from regulus.model.peer import Peer
from regulus.model.steps import run_to_end
from regulus.nameserver.handlers.config import handle_get_namesrv_config, handle_update_namesrv_config
from regulus.nameserver.handlers.kv_config import (
    handle_delete_kv_config,
    handle_get_kv_config,
    handle_get_kvlist_by_namespace,
    handle_put_kv_config,
)
from regulus.nameserver.handlers.registration import (
    handle_broker_heartbeat,
    handle_get_broker_member_group,
    handle_query_data_version,
    handle_register_broker,
    handle_unregister_broker,
)
from regulus.nameserver.handlers.route import handle_get_broker_cluster_info, handle_get_routeinfo_by_topic
from regulus.nameserver.handlers.steps import Steps
from regulus.nameserver.handlers.topic import (
    handle_add_write_perm_of_broker,
    handle_delete_topic_in_namesrv,
    handle_get_all_topic_list_from_nameserver,
    handle_get_has_unit_sub_topic_list,
    handle_get_has_unit_sub_ununit_topic_list,
    handle_get_system_topic_list_from_ns,
    handle_get_topics_by_cluster,
    handle_get_unit_topic_list,
    handle_register_topic_in_namesrv,
    handle_wipe_write_perm_of_broker,
)
from regulus.nameserver.state import NameServerState
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

Handler = Callable[[RemotingCommand, Peer, NameServerState, int], RemotingCommand | Steps]

HANDLERS: dict[int, Handler] = {
    RequestCode.PUT_KV_CONFIG: handle_put_kv_config,
    RequestCode.GET_KV_CONFIG: handle_get_kv_config,
    RequestCode.DELETE_KV_CONFIG: handle_delete_kv_config,
    RequestCode.REGISTER_BROKER: handle_register_broker,
    RequestCode.UNREGISTER_BROKER: handle_unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: handle_get_routeinfo_by_topic,
    RequestCode.GET_BROKER_CLUSTER_INFO: handle_get_broker_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: handle_wipe_write_perm_of_broker,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: handle_get_all_topic_list_from_nameserver,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: handle_delete_topic_in_namesrv,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: handle_register_topic_in_namesrv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: handle_get_kvlist_by_namespace,
    RequestCode.GET_TOPICS_BY_CLUSTER: handle_get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: handle_get_system_topic_list_from_ns,
    RequestCode.GET_UNIT_TOPIC_LIST: handle_get_unit_topic_list,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: handle_get_has_unit_sub_topic_list,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: handle_get_has_unit_sub_ununit_topic_list,
    RequestCode.UPDATE_NAMESRV_CONFIG: handle_update_namesrv_config,
    RequestCode.GET_NAMESRV_CONFIG: handle_get_namesrv_config,
    RequestCode.QUERY_DATA_VERSION: handle_query_data_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: handle_add_write_perm_of_broker,
    RequestCode.GET_BROKER_MEMBER_GROUP: handle_get_broker_member_group,
    RequestCode.BROKER_HEARTBEAT: handle_broker_heartbeat,
}

ROUTE_CHANGES = frozenset((
    RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.REGISTER_TOPIC_IN_NAMESRV))
"""Requests that later ones may undo or repeat: they take effect in the order in which they arrived."""

SETTINGS = frozenset((RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG))
"""A success answer to these means that the change is made and saved, even if nothing had to be changed."""


def handle(request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> RemotingCommand | None:
    """The response to one request; None for a one-way one."""
    response = run_to_end(handle_in_steps(request, peer, state, now_ms))
    return None if request.is_oneway else response


def handle_in_steps(request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> Steps:
    """Like `handle`, but returns a response for a one-way request too."""
    handler = HANDLERS.get(request.code)
    if handler is None:
        return request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                                f" request type {request.code} not supported")
    try:
        response = handler(request, peer, state, now_ms)
        return response if isinstance(response, RemotingCommand) else (yield from response)
    except HeaderError as error:
        return request.response(ResponseCode.SYSTEM_ERROR, str(error))
