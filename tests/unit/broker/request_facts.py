"""What RocketMQ's requests must be to this broker: the tests' own list, which no row of the broker makes.

Numbers and names are those of RequestCode of RocketMQ 5.3.3; 50 to 54 are of 4.9.8 alone, 200070 to 200079 of 5.4.0,
and 20001 to 20007 are ours.

`needs` is what a request needs that names the topic `orders` and the group `billing`: one of the actions, on that
topic or group, on any, or on the cluster. `where`: a slave takes no messages and settings, and a slave whose log parted
from its master's answers nothing that comes from its log or that changes it. RocketMQ's slaves refuse
INVOKE_BROKER_TO_RESET_OFFSET; a slave of ours resets, and its master hears of it (docs/replication.md).
"""

from typing import NamedTuple

ANYWHERE, SOUND_LOG, MASTER = "ANYWHERE", "SOUND_LOG", "MASTER"
EVERY_CHANGE, WHAT_IT_USED, BY_ITSELF = "EVERY_CHANGE", "WHAT_IT_USED", "BY_ITSELF"


class Facts(NamedTuple):
    number: int
    name: str
    header: str
    needs: str
    where: str
    saved_first: str


ANSWERED = (
    Facts(10, "SEND_MESSAGE", "SendMessageRequest", "PUB topic", MASTER, BY_ITSELF),
    Facts(11, "PULL_MESSAGE", "PullMessageRequest", "SUB group, SUB topic", ANYWHERE, BY_ITSELF),
    Facts(12, "QUERY_MESSAGE", "QueryMessageRequest", "SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(14, "QUERY_CONSUMER_OFFSET", "QueryConsumerOffsetRequest",
          "SUB/GET group, SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(15, "UPDATE_CONSUMER_OFFSET", "UpdateConsumerOffsetRequest",
          "SUB/UPDATE group, SUB/UPDATE topic", SOUND_LOG, WHAT_IT_USED),
    Facts(17, "UPDATE_AND_CREATE_TOPIC", "UpdateAndCreateTopicRequest", "CREATE topic", MASTER, EVERY_CHANGE),
    Facts(18, "UPDATE_AND_CREATE_TOPIC_LIST", "", "seen in parts", MASTER, EVERY_CHANGE),
    Facts(21, "GET_ALL_TOPIC_CONFIG", "", "LIST any topic", ANYWHERE, WHAT_IT_USED),
    Facts(25, "UPDATE_BROKER_CONFIG", "", "UPDATE cluster", ANYWHERE, WHAT_IT_USED),
    Facts(26, "GET_BROKER_CONFIG", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(28, "GET_BROKER_RUNTIME_INFO", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(29, "SEARCH_OFFSET_BY_TIMESTAMP", "SearchOffsetByTimestampRequest",
          "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(30, "GET_MAX_OFFSET", "GetMaxOffsetRequest", "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(31, "GET_MIN_OFFSET", "GetMinOffsetRequest", "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(32, "GET_EARLIEST_MSG_STORETIME", "GetEarliestMsgStoretimeRequest",
          "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(33, "VIEW_MESSAGE_BY_ID", "ViewMessageByIdRequest", "GET any topic", SOUND_LOG, WHAT_IT_USED),
    Facts(34, "HEART_BEAT", "", "seen in parts", ANYWHERE, WHAT_IT_USED),
    Facts(35, "UNREGISTER_CLIENT", "UnregisterClientRequest", "SUB group", ANYWHERE, WHAT_IT_USED),
    Facts(36, "CONSUMER_SEND_MSG_BACK", "ConsumerSendMsgBackRequest", "SUB group, SUB topic", MASTER, WHAT_IT_USED),
    Facts(37, "END_TRANSACTION", "EndTransactionRequest", "PUB topic", MASTER, WHAT_IT_USED),
    Facts(38, "GET_CONSUMER_LIST_BY_GROUP", "GetConsumerListByGroupRequest", "SUB/GET group", ANYWHERE, WHAT_IT_USED),
    Facts(41, "LOCK_BATCH_MQ", "", "seen in parts", MASTER, WHAT_IT_USED),
    Facts(42, "UNLOCK_BATCH_MQ", "", "seen in parts", MASTER, WHAT_IT_USED),
    Facts(43, "GET_ALL_CONSUMER_OFFSET", "", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(45, "GET_ALL_DELAY_OFFSET", "", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(46, "CHECK_CLIENT_CONFIG", "", "SUB group, SUB topic", ANYWHERE, WHAT_IT_USED),
    Facts(50, "UPDATE_AND_CREATE_ACL_CONFIG", "UpdateAndCreateAclConfigRequest",
          "UPDATE cluster", ANYWHERE, WHAT_IT_USED),
    Facts(51, "DELETE_ACL_CONFIG", "DeleteAclConfigRequest", "UPDATE cluster", ANYWHERE, WHAT_IT_USED),
    Facts(52, "GET_BROKER_CLUSTER_ACL_INFO", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(53, "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG", "UpdateGlobalWhiteAddrsConfigRequest",
          "UPDATE cluster", ANYWHERE, WHAT_IT_USED),
    Facts(60, "GET_TIMER_CHECK_POINT", "", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(61, "GET_TIMER_METRICS", "", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(200, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "", "UPDATE group", MASTER, EVERY_CHANGE),
    Facts(201, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "", "LIST any group", ANYWHERE, WHAT_IT_USED),
    Facts(202, "GET_TOPIC_STATS_INFO", "GetTopicStatsInfoRequest", "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(203, "GET_CONSUMER_CONNECTION_LIST", "GetConsumerConnectionListRequest",
          "SUB/GET group", ANYWHERE, WHAT_IT_USED),
    Facts(204, "GET_PRODUCER_CONNECTION_LIST", "GetProducerConnectionListRequest",
          "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(207, "DELETE_SUBSCRIPTIONGROUP", "DeleteSubscriptiongroupRequest", "DELETE group", MASTER, EVERY_CHANGE),
    Facts(208, "GET_CONSUME_STATS", "GetConsumeStatsRequest", "GET group, GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(215, "DELETE_TOPIC_IN_BROKER", "DeleteTopicInBrokerRequest", "DELETE topic", MASTER, EVERY_CHANGE),
    Facts(222, "INVOKE_BROKER_TO_RESET_OFFSET", "InvokeBrokerToResetOffsetRequest",
          "UPDATE group, UPDATE topic", SOUND_LOG, WHAT_IT_USED),
    Facts(223, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "InvokeBrokerToGetConsumerStatusRequest",
          "SUB/GET group, SUB/GET topic", ANYWHERE, WHAT_IT_USED),
    Facts(225, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "", "seen in parts", MASTER, EVERY_CHANGE),
    Facts(300, "QUERY_TOPIC_CONSUME_BY_WHO", "QueryTopicConsumeByWhoRequest",
          "PUB/SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(303, "QUERY_CONSUME_TIME_SPAN", "QueryConsumeTimeSpanRequest",
          "SUB/GET group, SUB/GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(305, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "", "LIST any topic", ANYWHERE, WHAT_IT_USED),
    Facts(306, "CLEAN_EXPIRED_CONSUMEQUEUE", "", "UPDATE cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(307, "GET_CONSUMER_RUNNING_INFO", "GetConsumerRunningInfoRequest", "SUB/GET group", ANYWHERE, WHAT_IT_USED),
    Facts(308, "QUERY_CORRECTION_OFFSET", "QueryCorrectionOffsetRequest",
          "GET topic, GET other group", SOUND_LOG, WHAT_IT_USED),
    Facts(309, "CONSUME_MESSAGE_DIRECTLY", "ConsumeMessageDirectlyRequest",
          "SUB group, SUB any topic", SOUND_LOG, WHAT_IT_USED),
    Facts(310, "SEND_MESSAGE_V2", "SendMessageRequest", "PUB topic", MASTER, BY_ITSELF),
    Facts(314, "CLONE_GROUP_OFFSET", "CloneGroupOffsetRequest",
          "UPDATE group, UPDATE other group, UPDATE topic", SOUND_LOG, WHAT_IT_USED),
    Facts(315, "VIEW_BROKER_STATS_DATA", "ViewBrokerStatsDataRequest", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(316, "CLEAN_UNUSED_TOPIC", "", "DELETE any topic", SOUND_LOG, WHAT_IT_USED),
    Facts(317, "GET_BROKER_CONSUME_STATS", "GetBrokerConsumeStatsRequest", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(320, "SEND_BATCH_MESSAGE", "SendMessageRequest", "PUB topic", MASTER, BY_ITSELF),
    Facts(321, "QUERY_CONSUME_QUEUE", "QueryConsumeQueueRequest", "GET group, GET topic", SOUND_LOG, WHAT_IT_USED),
    Facts(323, "RESUME_CHECK_HALF_MESSAGE", "ResumeCheckHalfMessageRequest", "UPDATE cluster", MASTER, WHAT_IT_USED),
    Facts(324, "SEND_REPLY_MESSAGE", "SendMessageRequest", "PUB topic", MASTER, WHAT_IT_USED),
    Facts(325, "SEND_REPLY_MESSAGE_V2", "SendMessageRequest", "PUB topic", MASTER, WHAT_IT_USED),
    Facts(328, "GET_ALL_PRODUCER_INFO", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(329, "DELETE_EXPIRED_COMMITLOG", "", "UPDATE cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(343, "QUERY_TOPICS_BY_CONSUMER", "QueryTopicsByConsumerRequest", "SUB/GET group", SOUND_LOG, WHAT_IT_USED),
    Facts(345, "QUERY_SUBSCRIPTION_BY_CONSUMER", "QuerySubscriptionByConsumerRequest",
          "SUB/GET group, SUB/GET topic", ANYWHERE, WHAT_IT_USED),
    Facts(351, "GET_TOPIC_CONFIG", "GetTopicConfigRequest", "PUB/SUB/GET topic", ANYWHERE, WHAT_IT_USED),
    Facts(352, "GET_SUBSCRIPTIONGROUP_CONFIG", "GetSubscriptiongroupConfigRequest",
          "SUB/GET group", ANYWHERE, WHAT_IT_USED),
    Facts(353, "UPDATE_AND_GET_GROUP_FORBIDDEN", "UpdateAndGetGroupForbiddenRequest",
          "UPDATE group, UPDATE topic", MASTER, EVERY_CHANGE),
    Facts(361, "LITE_PULL_MESSAGE", "PullMessageRequest", "SUB group, SUB topic", ANYWHERE, BY_ITSELF),
    Facts(370, "RECALL_MESSAGE", "RecallMessageRequest", "PUB topic", MASTER, WHAT_IT_USED),
    Facts(400, "QUERY_ASSIGNMENT", "", "SUB group, SUB topic", ANYWHERE, WHAT_IT_USED),
    Facts(401, "SET_MESSAGE_REQUEST_MODE", "", "UPDATE group, UPDATE topic", MASTER, EVERY_CHANGE),
    Facts(402, "GET_ALL_MESSAGE_REQUEST_MODE", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(907, "GET_BROKER_HA_STATUS", "", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(3001, "AUTH_CREATE_USER", "AuthUserRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3002, "AUTH_UPDATE_USER", "AuthUserRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3003, "AUTH_DELETE_USER", "AuthUserRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3004, "AUTH_GET_USER", "AuthUserRequest", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(3005, "AUTH_LIST_USER", "AuthListUserRequest", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(3006, "AUTH_CREATE_ACL", "AuthAclRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3007, "AUTH_UPDATE_ACL", "AuthAclRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3008, "AUTH_DELETE_ACL", "AuthAclRequest", "UPDATE cluster", MASTER, EVERY_CHANGE),
    Facts(3009, "AUTH_GET_ACL", "AuthAclRequest", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(3010, "AUTH_LIST_ACL", "AuthListAclRequest", "GET cluster", ANYWHERE, WHAT_IT_USED),
    Facts(20001, "GET_LOG_STATE", "", "GET cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(20002, "UPDATE_ARCHIVED_OFFSET", "UpdateArchivedOffsetRequest", "UPDATE cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(20003, "READ_COMMIT_LOG", "ReadCommitLogRequest", "SUB any topic", SOUND_LOG, WHAT_IT_USED),
    Facts(20004, "GET_SINK_MARKS", "GetSinkMarksRequest", "", SOUND_LOG, WHAT_IT_USED),
    Facts(20005, "BULK_PULL", "BulkPullRequest", "SUB topic", SOUND_LOG, WHAT_IT_USED),
    Facts(20006, "RELEASE_SINK_MARKS", "ReleaseSinkMarksRequest", "", SOUND_LOG, WHAT_IT_USED),
    Facts(20007, "GET_DOCUMENT", "GetDocumentRequest", "UPDATE cluster", SOUND_LOG, WHAT_IT_USED),
    Facts(200050, "POP_MESSAGE", "PopMessageRequest", "SUB group, SUB topic", MASTER, WHAT_IT_USED),
    Facts(200051, "ACK_MESSAGE", "AckMessageRequest", "SUB group, SUB topic", MASTER, WHAT_IT_USED),
    Facts(200052, "PEEK_MESSAGE", "PeekMessageRequest", "SUB group, SUB topic", SOUND_LOG, WHAT_IT_USED),
    Facts(200053, "CHANGE_MESSAGE_INVISIBLETIME", "ChangeMessageInvisibletimeRequest",
          "SUB group, SUB topic", MASTER, WHAT_IT_USED),
    Facts(200054, "NOTIFICATION", "NotificationRequest", "SUB group, SUB topic", SOUND_LOG, WHAT_IT_USED),
    Facts(200055, "POLLING_INFO", "PollingInfoRequest", "SUB/GET group, SUB/GET topic", ANYWHERE, WHAT_IT_USED),
    Facts(200151, "BATCH_ACK_MESSAGE", "", "SUB group, SUB topic", MASTER, WHAT_IT_USED),
)

REFUSED = {
    ("ask a name server", "UPDATE cluster"): {
        100: "PUT_KV_CONFIG", 101: "GET_KV_CONFIG", 102: "DELETE_KV_CONFIG", 103: "REGISTER_BROKER",
        104: "UNREGISTER_BROKER", 105: "GET_ROUTEINFO_BY_TOPIC", 106: "GET_BROKER_CLUSTER_INFO",
        205: "WIPE_WRITE_PERM_OF_BROKER", 206: "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", 216: "DELETE_TOPIC_IN_NAMESRV",
        217: "REGISTER_TOPIC_IN_NAMESRV", 219: "GET_KVLIST_BY_NAMESPACE", 224: "GET_TOPICS_BY_CLUSTER",
        304: "GET_SYSTEM_TOPIC_LIST_FROM_NS", 311: "GET_UNIT_TOPIC_LIST", 312: "GET_HAS_UNIT_SUB_TOPIC_LIST",
        313: "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", 318: "UPDATE_NAMESRV_CONFIG", 319: "GET_NAMESRV_CONFIG",
        322: "QUERY_DATA_VERSION", 327: "ADD_WRITE_PERM_OF_BROKER", 901: "GET_BROKER_MEMBER_GROUP",
        904: "BROKER_HEARTBEAT"},
    ("brokers send this to clients", "UPDATE cluster"): {
        39: "CHECK_TRANSACTION_STATE", 40: "NOTIFY_CONSUMER_IDS_CHANGED", 220: "RESET_CONSUMER_CLIENT_OFFSET",
        221: "GET_CONSUMER_STATUS_FROM_CLIENT", 326: "PUSH_REPLY_MESSAGE_TO_CLIENT"},
    ("no current broker serves it", "UPDATE cluster"): {
        13: "QUERY_BROKER_OFFSET", 22: "GET_TOPIC_CONFIG_LIST", 23: "GET_TOPIC_NAME_LIST", 27: "TRIGGER_DELETE_FILES",
        47: "GET_CLIENT_CONFIG", 209: "SUSPEND_CONSUMER", 210: "RESUME_CONSUMER",
        211: "RESET_CONSUMER_OFFSET_IN_CONSUMER", 212: "RESET_CONSUMER_OFFSET_IN_BROKER",
        213: "ADJUST_CONSUMER_THREAD_POOL", 214: "WHO_CONSUME_THE_MESSAGE", 301: "REGISTER_FILTER_SERVER",
        302: "REGISTER_MESSAGE_FILTER_CLASS"},
    ("its answer would have the secrets of all accounts, and RocketMQ 4.9.8 no longer has it", "UPDATE cluster"): {
        54: "GET_BROKER_CLUSTER_ACL_CONFIG"},
    ("pops are noted in the log, not in RocksDB", "UPDATE cluster"): {
        200056: "POP_ROLLBACK"},
    ("lite topics are not served", "UPDATE cluster"): {
        200070: "POP_LITE_MESSAGE", 200071: "LITE_SUBSCRIPTION_CTL", 200072: "ACK_LITE_MESSAGE",
        200073: "NOTIFY_UNSUBSCRIBE_LITE", 200079: "TRIGGER_LITE_DISPATCH"},
    ("lite topics are not served", "GET cluster"): {
        200074: "GET_BROKER_LITE_INFO", 200075: "GET_PARENT_TOPIC_INFO", 200076: "GET_LITE_TOPIC_INFO",
        200077: "GET_LITE_CLIENT_INFO", 200078: "GET_LITE_GROUP_INFO"},
    ("static topics are not served", "CREATE any topic"): {
        513: "UPDATE_AND_CREATE_STATIC_TOPIC"},
    ("queues are in files, not in RocksDB", "GET cluster"): {
        354: "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", 355: "EXPORT_ROCKSDB_CONFIG_TO_JSON"},
    ("no slave acts for its master", "UPDATE cluster"): {
        905: "NOTIFY_MIN_BROKER_ID_CHANGE", 906: "EXCHANGE_BROKER_HA_INFO", 908: "RESET_MASTER_FLUSH_OFFSET"},
    ("there is no controller", "GET cluster"): {
        1007: "GET_BROKER_EPOCH_CACHE"},
    ("there is no controller", "UPDATE cluster"): {
        1001: "CONTROLLER_ALTER_SYNC_STATE_SET", 1002: "CONTROLLER_ELECT_MASTER", 1003: "CONTROLLER_REGISTER_BROKER",
        1004: "CONTROLLER_GET_REPLICA_INFO", 1005: "CONTROLLER_GET_METADATA_INFO",
        1006: "CONTROLLER_GET_SYNC_STATE_DATA", 1008: "NOTIFY_BROKER_ROLE_CHANGED", 1009: "UPDATE_CONTROLLER_CONFIG",
        1010: "GET_CONTROLLER_CONFIG", 1011: "CLEAN_BROKER_DATA", 1012: "CONTROLLER_GET_NEXT_BROKER_ID",
        1013: "CONTROLLER_APPLY_BROKER_ID"},
    ("a process holds one broker", "UPDATE cluster"): {
        902: "ADD_BROKER", 903: "REMOVE_BROKER"},
    ("reads of cold data are not limited", "UPDATE cluster"): {
        2001: "UPDATE_COLD_DATA_FLOW_CTR_CONFIG", 2002: "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
        2004: "SET_COMMITLOG_READ_MODE"},
    ("reads of cold data are not limited", "GET cluster"): {
        2003: "GET_COLD_DATA_FLOW_CTR_INFO"},
}
"""By the reason that the asker reads and what the request needs."""
