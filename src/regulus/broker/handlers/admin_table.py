"""Which handler answers which request of an operator."""

from collections.abc import Callable

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
from regulus.broker.handlers.broker_config import handle_get_broker_config, handle_update_broker_config
from regulus.broker.handlers.broker_runtime_info import handle_get_broker_runtime_info
from regulus.broker.handlers.broker_stats import handle_view_broker_stats_data
from regulus.broker.handlers.connections import (
    handle_get_all_producer_info,
    handle_get_consumer_connection_list,
    handle_get_producer_connection_list,
)
from regulus.broker.handlers.consume_stats import (
    handle_get_broker_consume_stats,
    handle_get_consume_stats,
    handle_query_consume_time_span,
    handle_query_subscription_by_consumer,
    handle_query_topic_consume_by_who,
    handle_query_topics_by_consumer,
)
from regulus.broker.handlers.documents import handle_get_document
from regulus.broker.handlers.ha_status import handle_get_broker_ha_status
from regulus.broker.handlers.log_state import (
    handle_get_log_state,
    handle_read_commit_log,
    handle_update_archived_offset,
)
from regulus.broker.handlers.offsets_admin import (
    handle_clone_group_offset,
    handle_get_all_consumer_offset,
    handle_get_all_delay_offset,
    handle_query_correction_offset,
)
from regulus.broker.handlers.query_consume_queue import handle_query_consume_queue
from regulus.broker.handlers.relay import (
    handle_consume_message_directly,
    handle_get_consumer_running_info,
    handle_invoke_broker_to_get_consumer_status,
    handle_invoke_broker_to_reset_offset,
)
from regulus.broker.handlers.retention import handle_clean_expired_consumequeue, handle_delete_expired_commitlog
from regulus.broker.handlers.subscription_group import (
    handle_delete_subscriptiongroup,
    handle_get_all_subscriptiongroup_config,
    handle_get_subscriptiongroup_config,
    handle_update_and_create_subscriptiongroup,
    handle_update_and_create_subscriptiongroup_list,
    handle_update_and_get_group_forbidden,
)
from regulus.broker.handlers.topic import (
    handle_clean_unused_topic,
    handle_delete_topic_in_broker,
    handle_get_all_topic_config,
    handle_get_system_topic_list_from_broker,
    handle_get_topic_config,
    handle_update_and_create_topic,
    handle_update_and_create_topic_list,
)
from regulus.broker.handlers.topic_stats import handle_get_topic_stats_info
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

Handler = Callable[[RemotingCommand, Peer, BrokerState, int], Outcome]

ADMIN_HANDLERS: dict[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: handle_update_and_create_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: handle_update_and_create_topic_list,
    RequestCode.DELETE_TOPIC_IN_BROKER: handle_delete_topic_in_broker,
    RequestCode.GET_ALL_TOPIC_CONFIG: handle_get_all_topic_config,
    RequestCode.GET_TOPIC_CONFIG: handle_get_topic_config,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: handle_get_system_topic_list_from_broker,
    RequestCode.CLEAN_UNUSED_TOPIC: handle_clean_unused_topic,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: handle_clean_expired_consumequeue,
    RequestCode.DELETE_EXPIRED_COMMITLOG: handle_delete_expired_commitlog,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: handle_update_and_create_subscriptiongroup,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: handle_update_and_create_subscriptiongroup_list,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: handle_delete_subscriptiongroup,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: handle_get_all_subscriptiongroup_config,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: handle_get_subscriptiongroup_config,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: handle_update_and_get_group_forbidden,
    RequestCode.UPDATE_BROKER_CONFIG: handle_update_broker_config,
    RequestCode.GET_BROKER_CONFIG: handle_get_broker_config,
    RequestCode.GET_BROKER_RUNTIME_INFO: handle_get_broker_runtime_info,
    RequestCode.VIEW_BROKER_STATS_DATA: handle_view_broker_stats_data,
    RequestCode.GET_TOPIC_STATS_INFO: handle_get_topic_stats_info,
    RequestCode.GET_CONSUME_STATS: handle_get_consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: handle_get_broker_consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: handle_query_consume_time_span,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: handle_query_topic_consume_by_who,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: handle_query_topics_by_consumer,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: handle_query_subscription_by_consumer,
    RequestCode.QUERY_CONSUME_QUEUE: handle_query_consume_queue,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: handle_get_consumer_connection_list,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: handle_get_producer_connection_list,
    RequestCode.GET_ALL_PRODUCER_INFO: handle_get_all_producer_info,
    RequestCode.GET_ALL_CONSUMER_OFFSET: handle_get_all_consumer_offset,
    RequestCode.GET_ALL_DELAY_OFFSET: handle_get_all_delay_offset,
    RequestCode.QUERY_CORRECTION_OFFSET: handle_query_correction_offset,
    RequestCode.CLONE_GROUP_OFFSET: handle_clone_group_offset,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: handle_invoke_broker_to_reset_offset,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: handle_invoke_broker_to_get_consumer_status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: handle_get_consumer_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: handle_consume_message_directly,
    RequestCode.GET_BROKER_HA_STATUS: handle_get_broker_ha_status,
    RequestCode.GET_DOCUMENT: handle_get_document,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: handle_update_and_create_acl_config,
    RequestCode.DELETE_ACL_CONFIG: handle_delete_acl_config,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: handle_get_broker_cluster_acl_info,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: handle_update_global_white_addrs_config,
    RequestCode.AUTH_CREATE_USER: handle_auth_create_user,
    RequestCode.AUTH_UPDATE_USER: handle_auth_update_user,
    RequestCode.AUTH_DELETE_USER: handle_auth_delete_user,
    RequestCode.AUTH_GET_USER: handle_auth_get_user,
    RequestCode.AUTH_LIST_USER: handle_auth_list_user,
    RequestCode.AUTH_CREATE_ACL: handle_auth_create_acl,
    RequestCode.AUTH_UPDATE_ACL: handle_auth_create_acl,
    RequestCode.AUTH_DELETE_ACL: handle_auth_delete_acl,
    RequestCode.AUTH_GET_ACL: handle_auth_get_acl,
    RequestCode.AUTH_LIST_ACL: handle_auth_list_acl,
    RequestCode.GET_LOG_STATE: handle_get_log_state,
    RequestCode.UPDATE_ARCHIVED_OFFSET: handle_update_archived_offset,
    RequestCode.READ_COMMIT_LOG: handle_read_commit_log,
}
