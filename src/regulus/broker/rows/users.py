"""Requests of operators about accounts (ACL 1.0), users and policies (ACL 2.0)."""

from regulus.access.needs import GET, UPDATE, cluster
from regulus.broker.handlers.acl_config import (
    handle_delete_acl_config,
    handle_get_broker_cluster_acl_info,
    handle_update_and_create_acl_config,
    handle_update_global_white_addrs_config,
)
from regulus.broker.handlers.auth_admin import (
    handle_auth_create_acl,
    handle_auth_create_user,
    handle_auth_delete_acl,
    handle_auth_delete_user,
    handle_auth_get_acl,
    handle_auth_get_user,
    handle_auth_list_acl,
    handle_auth_list_user,
    handle_auth_update_user,
)
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    Answered(code=Code.UPDATE_AND_CREATE_ACL_CONFIG, header=headers.UpdateAndCreateAclConfigRequest,
             handler=handle_update_and_create_acl_config, needs=cluster(UPDATE), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.DELETE_ACL_CONFIG, header=headers.DeleteAclConfigRequest, handler=handle_delete_acl_config,
             needs=cluster(UPDATE), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_BROKER_CLUSTER_ACL_INFO, header=None, handler=handle_get_broker_cluster_acl_info,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header=headers.UpdateGlobalWhiteAddrsConfigRequest,
             handler=handle_update_global_white_addrs_config, needs=cluster(UPDATE), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.AUTH_CREATE_USER, header=headers.AuthUserRequest, handler=handle_auth_create_user,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.AUTH_UPDATE_USER, header=headers.AuthUserRequest, handler=handle_auth_update_user,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.AUTH_DELETE_USER, header=headers.AuthUserRequest, handler=handle_auth_delete_user,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    # An ordinary account of ACL 1.0 has GET of the cluster, but a broker with such accounts has no users to show.
    Answered(code=Code.AUTH_GET_USER, header=headers.AuthUserRequest, handler=handle_auth_get_user,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.AUTH_LIST_USER, header=headers.AuthListUserRequest, handler=handle_auth_list_user,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.AUTH_CREATE_ACL, header=headers.AuthAclRequest, handler=handle_auth_create_acl,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.AUTH_UPDATE_ACL, header=headers.AuthAclRequest, handler=handle_auth_create_acl,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.AUTH_DELETE_ACL, header=headers.AuthAclRequest, handler=handle_auth_delete_acl,
             needs=cluster(UPDATE), where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.AUTH_GET_ACL, header=headers.AuthAclRequest, handler=handle_auth_get_acl,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.AUTH_LIST_ACL, header=headers.AuthListAclRequest, handler=handle_auth_list_acl,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
)
