"""Requests that RocketMQ knows and this broker does not support, each with its reason.

They are answered with REQUEST_CODE_NOT_SUPPORTED, as by an older broker, and the reason. Permissions are checked first,
so that a client without any learns nothing else. A request that no broker supports needs an operator's permission, the
least that it would need if a broker supported it.
"""

from regulus.access.needs import CREATE, GET, UPDATE, Read, cluster, every_topic
from regulus.broker.request_row import Refused
from regulus.wire.codes import RequestCode as Code

_ASK_A_NAME_SERVER = "ask a name server"
_SENT_TO_CLIENTS = "brokers send this to clients"
_NOT_SERVED_ANY_MORE = "no current broker serves it"
_HAS_SECRETS = "its answer would have the secrets of all accounts, and RocketMQ 4.9.8 no longer has it"
_POPS_ARE_IN_THE_LOG = "pops are noted in the log, not in RocksDB"
_NO_LITE_TOPICS = "lite topics are not served"
_NO_STATIC_TOPICS = "static topics are not served"
_QUEUES_ARE_FILES = "queues are in files, not in RocksDB"
_NO_ACTING_MASTER = "no slave acts for its master"
_NO_CONTROLLER = "there is no controller"
_ONE_BROKER = "a process holds one broker"
_NO_COLD_LIMIT = "reads of cold data are not limited"

_READS: Read = cluster(GET)
_CHANGES: Read = cluster(UPDATE)

ROWS: tuple[Refused, ...] = (
    Refused(code=Code.PUT_KV_CONFIG, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_KV_CONFIG, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.DELETE_KV_CONFIG, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.REGISTER_BROKER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.UNREGISTER_BROKER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_ROUTEINFO_BY_TOPIC, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_BROKER_CLUSTER_INFO, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.WIPE_WRITE_PERM_OF_BROKER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.DELETE_TOPIC_IN_NAMESRV, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.REGISTER_TOPIC_IN_NAMESRV, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_KVLIST_BY_NAMESPACE, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_TOPICS_BY_CLUSTER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_UNIT_TOPIC_LIST, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_HAS_UNIT_SUB_TOPIC_LIST, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.UPDATE_NAMESRV_CONFIG, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_NAMESRV_CONFIG, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.QUERY_DATA_VERSION, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.ADD_WRITE_PERM_OF_BROKER, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.GET_BROKER_MEMBER_GROUP, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.BROKER_HEARTBEAT, needs=_CHANGES, reason=_ASK_A_NAME_SERVER),
    Refused(code=Code.CHECK_TRANSACTION_STATE, needs=_CHANGES, reason=_SENT_TO_CLIENTS),
    Refused(code=Code.NOTIFY_CONSUMER_IDS_CHANGED, needs=_CHANGES, reason=_SENT_TO_CLIENTS),
    Refused(code=Code.RESET_CONSUMER_CLIENT_OFFSET, needs=_CHANGES, reason=_SENT_TO_CLIENTS),
    Refused(code=Code.GET_CONSUMER_STATUS_FROM_CLIENT, needs=_CHANGES, reason=_SENT_TO_CLIENTS),
    Refused(code=Code.PUSH_REPLY_MESSAGE_TO_CLIENT, needs=_CHANGES, reason=_SENT_TO_CLIENTS),
    Refused(code=Code.QUERY_BROKER_OFFSET, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.GET_TOPIC_CONFIG_LIST, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.GET_TOPIC_NAME_LIST, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.TRIGGER_DELETE_FILES, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.GET_CLIENT_CONFIG, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.SUSPEND_CONSUMER, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.RESUME_CONSUMER, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.RESET_CONSUMER_OFFSET_IN_CONSUMER, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.RESET_CONSUMER_OFFSET_IN_BROKER, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.ADJUST_CONSUMER_THREAD_POOL, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.WHO_CONSUME_THE_MESSAGE, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.REGISTER_FILTER_SERVER, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.REGISTER_MESSAGE_FILTER_CLASS, needs=_CHANGES, reason=_NOT_SERVED_ANY_MORE),
    Refused(code=Code.GET_BROKER_CLUSTER_ACL_CONFIG, needs=_CHANGES, reason=_HAS_SECRETS),
    Refused(code=Code.POP_ROLLBACK, needs=_CHANGES, reason=_POPS_ARE_IN_THE_LOG),
    Refused(code=Code.POP_LITE_MESSAGE, needs=_CHANGES, reason=_NO_LITE_TOPICS),
    Refused(code=Code.LITE_SUBSCRIPTION_CTL, needs=_CHANGES, reason=_NO_LITE_TOPICS),
    Refused(code=Code.ACK_LITE_MESSAGE, needs=_CHANGES, reason=_NO_LITE_TOPICS),
    Refused(code=Code.NOTIFY_UNSUBSCRIBE_LITE, needs=_CHANGES, reason=_NO_LITE_TOPICS),
    Refused(code=Code.GET_BROKER_LITE_INFO, needs=_READS, reason=_NO_LITE_TOPICS),
    Refused(code=Code.GET_PARENT_TOPIC_INFO, needs=_READS, reason=_NO_LITE_TOPICS),
    Refused(code=Code.GET_LITE_TOPIC_INFO, needs=_READS, reason=_NO_LITE_TOPICS),
    Refused(code=Code.GET_LITE_CLIENT_INFO, needs=_READS, reason=_NO_LITE_TOPICS),
    Refused(code=Code.GET_LITE_GROUP_INFO, needs=_READS, reason=_NO_LITE_TOPICS),
    Refused(code=Code.TRIGGER_LITE_DISPATCH, needs=_CHANGES, reason=_NO_LITE_TOPICS),
    Refused(code=Code.UPDATE_AND_CREATE_STATIC_TOPIC, needs=every_topic(CREATE), reason=_NO_STATIC_TOPICS),
    Refused(code=Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, needs=_READS, reason=_QUEUES_ARE_FILES),
    Refused(code=Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, needs=_READS, reason=_QUEUES_ARE_FILES),
    Refused(code=Code.NOTIFY_MIN_BROKER_ID_CHANGE, needs=_CHANGES, reason=_NO_ACTING_MASTER),
    Refused(code=Code.EXCHANGE_BROKER_HA_INFO, needs=_CHANGES, reason=_NO_ACTING_MASTER),
    Refused(code=Code.RESET_MASTER_FLUSH_OFFSET, needs=_CHANGES, reason=_NO_ACTING_MASTER),
    Refused(code=Code.GET_BROKER_EPOCH_CACHE, needs=_READS, reason=_NO_CONTROLLER),
    Refused(code=Code.NOTIFY_BROKER_ROLE_CHANGED, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_ALTER_SYNC_STATE_SET, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_ELECT_MASTER, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_REGISTER_BROKER, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_GET_REPLICA_INFO, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_GET_METADATA_INFO, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_GET_SYNC_STATE_DATA, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.UPDATE_CONTROLLER_CONFIG, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.GET_CONTROLLER_CONFIG, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CLEAN_BROKER_DATA, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_GET_NEXT_BROKER_ID, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.CONTROLLER_APPLY_BROKER_ID, needs=_CHANGES, reason=_NO_CONTROLLER),
    Refused(code=Code.ADD_BROKER, needs=_CHANGES, reason=_ONE_BROKER),
    Refused(code=Code.REMOVE_BROKER, needs=_CHANGES, reason=_ONE_BROKER),
    Refused(code=Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, needs=_CHANGES, reason=_NO_COLD_LIMIT),
    Refused(code=Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, needs=_CHANGES, reason=_NO_COLD_LIMIT),
    Refused(code=Code.GET_COLD_DATA_FLOW_CTR_INFO, needs=_READS, reason=_NO_COLD_LIMIT),
    Refused(code=Code.SET_COMMITLOG_READ_MODE, needs=_CHANGES, reason=_NO_COLD_LIMIT),
)
