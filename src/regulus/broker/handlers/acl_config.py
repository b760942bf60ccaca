"""Changes accounts of ACL 1.0 for operators.

UPDATE_AND_CREATE_ACL_CONFIG, DELETE_ACL_CONFIG, GET_BROKER_CLUSTER_ACL_INFO, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG.

Changes are rare, so a file is read and written while other requests wait. The codes of failures are those of 4.9; in
5.x 209 to 211 have other meanings.

Source: AdminBrokerProcessor.updateAndCreateAccessConfig, ResponseCode of 4.9.8.
"""

from collections.abc import Callable

from regulus.access.plain_acl import AccountEntry
from regulus.broker.access_documents import AccessDocuments
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.broker_address import broker_address
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.errors import ConfigError, StoreError
from regulus.model.peer import Peer
from regulus.wire import json_fields
from regulus.wire.bodies import encode_data_version
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    DeleteAclConfigRequest,
    GetBrokerClusterAclInfoResponse,
    UpdateAndCreateAclConfigRequest,
    UpdateGlobalWhiteAddrsConfigRequest,
)
from regulus.wire.remoting_command import RemotingCommand

UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
DELETE_ACL_CONFIG_FAILED = 210
UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211
NO_ACCOUNTS = "this broker has no accounts: set aclEnable=true and rocketmqHome"


def handle_update_and_create_acl_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    """Fields that the request leaves out stay unchanged."""
    header = UpdateAndCreateAclConfigRequest.decode(request)
    entry = AccountEntry(
        access_key=header.access_key, secret_key=header.secret_key, white_remote_address=header.white_remote_address,
        admin=header.admin, default_topic_perm=header.default_topic_perm, default_group_perm=header.default_group_perm,
        topic_perms=_list(header.topic_perms), group_perms=_list(header.group_perms))
    return _change(request, broker, UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
                   lambda documents: documents.update_account(entry, now_ms))


def handle_delete_acl_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    access_key = DeleteAclConfigRequest.decode(request).access_key
    return _change(request, broker, DELETE_ACL_CONFIG_FAILED,
                   lambda documents: documents.delete_account(access_key, now_ms))


def handle_update_global_white_addrs_config(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                            now_ms: int) -> Outcome:
    header = UpdateGlobalWhiteAddrsConfigRequest.decode(request)
    patterns = header.global_white_addrs.split(",")
    return _change(request, broker, UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
                   lambda documents: documents.update_white_addresses(patterns, header.acl_file_full_path, now_ms))


def handle_get_broker_cluster_acl_info(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                       now_ms: int) -> Outcome:
    """Versions of the files, without any account."""
    if broker.access_documents is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, NO_ACCOUNTS)
    version, versions = broker.access_documents.versions()
    answer = GetBrokerClusterAclInfoResponse(
        version=encode_data_version(version).decode(), all_acl_file_version=json_fields.encode(dict(versions)).decode(),
        broker_name=broker.config.broker_name, broker_addr=broker_address(broker, peer),
        cluster_name=broker.config.broker_cluster_name)
    return succeed(request, ext=answer.ext())


def _change(request: RemotingCommand, broker: BrokerState, code: int,
            change: Callable[[AccessDocuments], None]) -> Outcome:
    if broker.access_documents is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, NO_ACCOUNTS)
    try:
        change(broker.access_documents)
    except (ConfigError, StoreError) as error:
        return refuse(request, code, str(error))
    return succeed(request)


def _list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part for part in text.split(",") if part)
