"""Requests that RocketMQ knows and this broker does not serve, each with its reason.

Whoever sends one gets REQUEST_CODE_NOT_SUPPORTED, as from an older broker, and can read why.
"""

from regulus.wire.codes import RequestCode as Code

_REASONS: dict[str, tuple[Code, ...]] = {
    "ask a name server": (
        Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER,
        Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO, Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.DELETE_TOPIC_IN_NAMESRV, Code.REGISTER_TOPIC_IN_NAMESRV,
        Code.GET_KVLIST_BY_NAMESPACE, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION, Code.ADD_WRITE_PERM_OF_BROKER,
        Code.GET_BROKER_MEMBER_GROUP, Code.BROKER_HEARTBEAT),
    "brokers send this to clients": (
        Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CONSUMER_CLIENT_OFFSET,
        Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.PUSH_REPLY_MESSAGE_TO_CLIENT),
    "no current broker serves it": (
        Code.QUERY_BROKER_OFFSET, Code.GET_TOPIC_CONFIG_LIST, Code.GET_TOPIC_NAME_LIST, Code.TRIGGER_DELETE_FILES,
        Code.GET_CLIENT_CONFIG, Code.SUSPEND_CONSUMER, Code.RESUME_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        Code.RESET_CONSUMER_OFFSET_IN_BROKER, Code.ADJUST_CONSUMER_THREAD_POOL, Code.WHO_CONSUME_THE_MESSAGE,
        Code.REGISTER_FILTER_SERVER, Code.REGISTER_MESSAGE_FILTER_CLASS),
    "its answer would have the secrets of all accounts, so that RocketMQ 4.9.8 has it no more": (
        Code.GET_BROKER_CLUSTER_ACL_CONFIG,),
    "pops are noted in the log, not in RocksDB": (Code.POP_ROLLBACK,),
    "lite topics are not served": (
        Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL, Code.ACK_LITE_MESSAGE, Code.NOTIFY_UNSUBSCRIBE_LITE,
        Code.GET_BROKER_LITE_INFO, Code.GET_PARENT_TOPIC_INFO, Code.GET_LITE_TOPIC_INFO, Code.GET_LITE_CLIENT_INFO,
        Code.GET_LITE_GROUP_INFO, Code.TRIGGER_LITE_DISPATCH),
    "static topics are not served": (Code.UPDATE_AND_CREATE_STATIC_TOPIC,),
    "queues stand in files, not in RocksDB": (
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON),
    "no slave acts for its master": (
        Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO, Code.RESET_MASTER_FLUSH_OFFSET),
    "there is no controller": (
        Code.GET_BROKER_EPOCH_CACHE, Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_ELECT_MASTER, Code.CONTROLLER_REGISTER_BROKER,
        Code.CONTROLLER_GET_REPLICA_INFO, Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.UPDATE_CONTROLLER_CONFIG, Code.GET_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID, Code.CONTROLLER_APPLY_BROKER_ID),
    "a process holds one broker": (Code.ADD_BROKER, Code.REMOVE_BROKER),
    "reads of cold data are not limited": (
        Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, Code.GET_COLD_DATA_FLOW_CTR_INFO,
        Code.SET_COMMITLOG_READ_MODE),
}

REFUSALS: dict[int, str] = {int(code): reason for reason, codes in _REASONS.items() for code in codes}


def refusal_remark(code: int) -> str:
    """What is answered to a request without a handler."""
    reason = REFUSALS.get(code)
    return f" request type {code} not supported" + (f": {reason}" if reason else "")
