"""PUT_KV_CONFIG, GET_KV_CONFIG, DELETE_KV_CONFIG, GET_KVLIST_BY_NAMESPACE."""

from regulus.model.peer import Peer
from regulus.nameserver.state import NameServerState
from regulus.wire.bodies import KVTable
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    DeleteKvConfigRequest,
    GetKvConfigRequest,
    GetKvConfigResponse,
    GetKvlistByNamespaceRequest,
    PutKvConfigRequest,
)
from regulus.wire.remoting_command import RemotingCommand


def handle_put_kv_config(request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> RemotingCommand:
    header = PutKvConfigRequest.decode(request)
    state.kv_config.put(header.namespace, header.key, header.value)
    return request.response(ResponseCode.SUCCESS)


def handle_get_kv_config(request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> RemotingCommand:
    header = GetKvConfigRequest.decode(request)
    value = state.kv_config.get(header.namespace, header.key)
    if value is None:
        return request.response(ResponseCode.QUERY_NOT_FOUND,
                                f"No config item, Namespace: {header.namespace} Key: {header.key}")
    return request.response(ResponseCode.SUCCESS, ext=GetKvConfigResponse(value=value).ext())


def handle_delete_kv_config(request: RemotingCommand, peer: Peer, state: NameServerState,
                            now_ms: int) -> RemotingCommand:
    header = DeleteKvConfigRequest.decode(request)
    state.kv_config.delete(header.namespace, header.key)
    return request.response(ResponseCode.SUCCESS)


def handle_get_kvlist_by_namespace(request: RemotingCommand, peer: Peer, state: NameServerState,
                                   now_ms: int) -> RemotingCommand:
    header = GetKvlistByNamespaceRequest.decode(request)
    table = state.kv_config.namespace(header.namespace)
    if table is None:
        return request.response(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
    return request.response(ResponseCode.SUCCESS, body=KVTable(table=table).encode())
