"""What each request to a broker needs: the table of its door.

Every request code stands here, also those that no handler answers; a test holds that. What stands in no table is
denied.

RocketMQ 4.9 knows what ten requests need, and lets all others pass whose signature is right: a batch, a reply, an end
of a transaction, an offset. Here each names its topics and groups. The actions are those of RocketMQ 5.3.3. What a
request of thousands of names needs stands in `listed_needs`.

Source: PlainAccessValidator.parse, DefaultAuthorizationContextBuilder.build, the RocketMQAction of each request header.
"""

from regulus.access import needs
from regulus.access.decision import ANY_NAME, Need
from regulus.access.needs import (
    CREATE,
    DELETE,
    GET,
    LIST,
    PUB,
    SUB,
    SUB_OR_GET,
    SUB_OR_UPDATE,
    UPDATE,
    USE_OR_GET,
    Read,
    group_need,
    of_header,
    topic_need,
)
from regulus.broker.handlers.named_body import decode_named, named_body
from regulus.errors import HeaderError
from regulus.model import receipt_handle
from regulus.wire import bodies, headers
from regulus.wire.codes import RequestCode as Code
from regulus.wire.remoting_command import RemotingCommand


def _send(request: RemotingCommand) -> tuple[Need, ...]:
    return (topic_need(headers.SendMessageRequest.decode(request).topic, PUB),)


def _pull(request: RemotingCommand) -> tuple[Need, ...]:
    header = headers.PullMessageRequest.decode(request)
    return group_need(header.consumer_group, SUB), topic_need(header.topic, SUB)


def _send_back(request: RemotingCommand) -> tuple[Need, ...]:
    """A position in the log may be anybody's message. The handler sees to it that it is of the topic named."""
    header = headers.ConsumerSendMsgBackRequest.decode(request)
    return group_need(header.group, SUB), topic_need(header.origin_topic or ANY_NAME, SUB)


def _check_client_config(request: RemotingCommand) -> tuple[Need, ...]:
    if not request.body:
        return ()
    body = decode_named(bodies.CheckClientConfigBody, request)
    found = [group_need(body.group, SUB)] if body.group else []
    if body.subscription_data is not None and body.subscription_data.topic:
        found.append(topic_need(body.subscription_data.topic, SUB))
    return tuple(found)


def _group_of_body(request: RemotingCommand) -> tuple[Need, ...]:
    return (group_need(bodies.decode_subscription_group_config(named_body(request)).group_name, UPDATE),)


def _query_correction(request: RemotingCommand) -> tuple[Need, ...]:
    header = headers.QueryCorrectionOffsetRequest.decode(request)
    return topic_need(header.topic, GET), group_need(header.compare_group, GET)


def _batch_ack(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.BatchAckMessageRequestBody, request)
    topics = dict.fromkeys(ack.topic for ack in body.acks)
    groups = dict.fromkeys(ack.consumer_group for ack in body.acks)
    return *(group_need(group, SUB) for group in groups), *(topic_need(topic, SUB) for topic in topics)


def _by_receipt(header: type[headers.AckMessageRequest] | type[headers.ChangeMessageInvisibletimeRequest]) -> Read:
    """Of a popped retry clients name the retry topic. Which message it is, its receipt says, which is of this group."""
    def read(request: RemotingCommand) -> tuple[Need, ...]:
        decoded = header.decode(request)
        topic = receipt_handle.normal_topic(decoded.topic, decoded.consumer_group)
        return group_need(decoded.consumer_group, SUB), topic_need(topic, SUB)
    return read


def _query_assignment(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.QueryAssignmentRequestBody, request)
    return group_need(body.consumer_group, SUB), topic_need(body.topic, SUB)


def _message_request_mode(request: RemotingCommand) -> tuple[Need, ...]:
    body = decode_named(bodies.SetMessageRequestModeRequestBody, request)
    return group_need(body.consumer_group, UPDATE), topic_need(body.topic, UPDATE)


def _consume_stats(request: RemotingCommand) -> tuple[Need, ...]:
    header = headers.GetConsumeStatsRequest.decode(request)
    topics = [header.topic or "", *(header.topic_list or "").split(";")]
    return group_need(header.consumer_group, GET), *(topic_need(topic, GET) for topic in topics if topic)


def _consume_directly(request: RemotingCommand) -> tuple[Need, ...]:
    """A client of the group gets any message of the log to consume that the request names by its id."""
    header = headers.ConsumeMessageDirectlyRequest.decode(request)
    return group_need(header.consumer_group, SUB), topic_need(ANY_NAME, SUB)


_SENDS: dict[int, Read] = dict.fromkeys(
    (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
     Code.SEND_REPLY_MESSAGE_V2), _send)

_READS: dict[int, Read] = {
    Code.PULL_MESSAGE: _pull,
    Code.LITE_PULL_MESSAGE: _pull,
    Code.BULK_PULL: of_header(headers.BulkPullRequest, topic="topic", actions=SUB),
    Code.QUERY_MESSAGE: of_header(headers.QueryMessageRequest, topic="topic", actions=SUB_OR_GET),
    # A position in the log may be anybody's message, whatever topic the request names.
    Code.VIEW_MESSAGE_BY_ID: needs.every_topic(GET),
    Code.READ_COMMIT_LOG: needs.every_topic(SUB),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: of_header(headers.SearchOffsetByTimestampRequest, topic="topic",
                                               actions=USE_OR_GET),
    Code.GET_MAX_OFFSET: of_header(headers.GetMaxOffsetRequest, topic="topic", actions=USE_OR_GET),
    Code.GET_MIN_OFFSET: of_header(headers.GetMinOffsetRequest, topic="topic", actions=USE_OR_GET),
    Code.GET_EARLIEST_MSG_STORETIME: of_header(headers.GetEarliestMsgStoretimeRequest, topic="topic",
                                               actions=USE_OR_GET),
    Code.QUERY_CONSUME_QUEUE: of_header(headers.QueryConsumeQueueRequest, topic="topic", group="consumer_group",
                                        actions=GET),
}

_CONSUMERS: dict[int, Read] = {
    Code.HEART_BEAT: needs.seen_in_parts,
    Code.UNREGISTER_CLIENT: of_header(headers.UnregisterClientRequest, group="consumer_group", actions=SUB),
    Code.CHECK_CLIENT_CONFIG: _check_client_config,
    Code.GET_CONSUMER_LIST_BY_GROUP: of_header(headers.GetConsumerListByGroupRequest, group="consumer_group",
                                               actions=SUB_OR_GET),
    Code.QUERY_CONSUMER_OFFSET: of_header(headers.QueryConsumerOffsetRequest, topic="topic", group="consumer_group",
                                          actions=SUB_OR_GET),
    Code.UPDATE_CONSUMER_OFFSET: of_header(headers.UpdateConsumerOffsetRequest, topic="topic", group="consumer_group",
                                           actions=SUB_OR_UPDATE),
    Code.CONSUMER_SEND_MSG_BACK: _send_back,
    Code.LOCK_BATCH_MQ: needs.seen_in_parts,
    Code.UNLOCK_BATCH_MQ: needs.seen_in_parts,
    Code.POP_MESSAGE: of_header(headers.PopMessageRequest, topic="topic", group="consumer_group", actions=SUB),
    Code.ACK_MESSAGE: _by_receipt(headers.AckMessageRequest),
    Code.BATCH_ACK_MESSAGE: _batch_ack,
    Code.PEEK_MESSAGE: of_header(headers.PeekMessageRequest, topic="topic", group="consumer_group", actions=SUB),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _by_receipt(headers.ChangeMessageInvisibletimeRequest),
    Code.NOTIFICATION: of_header(headers.NotificationRequest, topic="topic", group="consumer_group", actions=SUB),
    Code.POLLING_INFO: of_header(headers.PollingInfoRequest, topic="topic", group="consumer_group",
                                 actions=SUB_OR_GET),
    Code.QUERY_ASSIGNMENT: _query_assignment,
    Code.SET_MESSAGE_REQUEST_MODE: _message_request_mode,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: needs.cluster(GET),
}

_PRODUCERS: dict[int, Read] = {
    # 4.9's clients do not name the topic, and 5.x's not when they are asked; the half message must be of the producer
    # group and unique key that the request names, and of the topic, if it names one.
    Code.END_TRANSACTION: of_header(headers.EndTransactionRequest, topic="real_topic", actions=PUB),
    Code.RECALL_MESSAGE: of_header(headers.RecallMessageRequest, topic="topic", actions=PUB),
    # A sink's marks have no topic: whoever may write somewhere may ask for those of an id that it knows.
    Code.GET_SINK_MARKS: needs.nothing,
    Code.RELEASE_SINK_MARKS: needs.nothing,
}

_TOPICS: dict[int, Read] = {
    Code.UPDATE_AND_CREATE_TOPIC: of_header(headers.UpdateAndCreateTopicRequest, topic="topic", actions=CREATE),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: needs.seen_in_parts,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: needs.every_topic(CREATE),
    Code.DELETE_TOPIC_IN_BROKER: of_header(headers.DeleteTopicInBrokerRequest, topic="topic", actions=DELETE),
    Code.GET_TOPIC_CONFIG: of_header(headers.GetTopicConfigRequest, topic="topic", actions=USE_OR_GET),
    Code.GET_ALL_TOPIC_CONFIG: needs.every_topic(LIST),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: needs.every_topic(LIST),
    Code.GET_TOPIC_STATS_INFO: of_header(headers.GetTopicStatsInfoRequest, topic="topic", actions=USE_OR_GET),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: of_header(headers.QueryTopicConsumeByWhoRequest, topic="topic",
                                               actions=USE_OR_GET),
    Code.CLEAN_UNUSED_TOPIC: needs.every_topic(DELETE),
}

_GROUPS: dict[int, Read] = {
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _group_of_body,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: needs.seen_in_parts,
    Code.DELETE_SUBSCRIPTIONGROUP: of_header(headers.DeleteSubscriptiongroupRequest, group="group_name",
                                             actions=DELETE),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: of_header(headers.GetSubscriptiongroupConfigRequest, group="group",
                                                 actions=SUB_OR_GET),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: needs.every_group(LIST),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: of_header(headers.UpdateAndGetGroupForbiddenRequest, topic="topic",
                                                   group="group", actions=UPDATE),
    Code.GET_CONSUMER_CONNECTION_LIST: of_header(headers.GetConsumerConnectionListRequest, group="consumer_group",
                                                 actions=SUB_OR_GET),
    Code.GET_CONSUMER_RUNNING_INFO: of_header(headers.GetConsumerRunningInfoRequest, group="consumer_group",
                                              actions=SUB_OR_GET),
    Code.GET_CONSUME_STATS: _consume_stats,
    Code.QUERY_CONSUME_TIME_SPAN: of_header(headers.QueryConsumeTimeSpanRequest, topic="topic", group="group",
                                            actions=SUB_OR_GET),
    Code.QUERY_TOPICS_BY_CONSUMER: of_header(headers.QueryTopicsByConsumerRequest, group="group", actions=SUB_OR_GET),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: of_header(headers.QuerySubscriptionByConsumerRequest, topic="topic",
                                                   group="group", actions=SUB_OR_GET),
    Code.QUERY_CORRECTION_OFFSET: _query_correction,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: of_header(headers.InvokeBrokerToResetOffsetRequest, topic="topic",
                                                  group="group", actions=UPDATE),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: of_header(headers.InvokeBrokerToGetConsumerStatusRequest,
                                                         topic="topic", group="group", actions=SUB_OR_GET),
    Code.CLONE_GROUP_OFFSET: of_header(headers.CloneGroupOffsetRequest, topic="topic", group="src_group",
                                       more_groups=("dest_group",), actions=UPDATE),
    Code.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
}

_LITE_READS = (Code.GET_BROKER_LITE_INFO, Code.GET_PARENT_TOPIC_INFO, Code.GET_LITE_TOPIC_INFO,
               Code.GET_LITE_CLIENT_INFO, Code.GET_LITE_GROUP_INFO)
_LITE_DEEDS = (Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL, Code.ACK_LITE_MESSAGE, Code.NOTIFY_UNSUBSCRIBE_LITE,
               Code.TRIGGER_LITE_DISPATCH)
"""None is served: whoever may do nothing learns no more than that."""

_BROKER: dict[int, Read] = {
    **dict.fromkeys((
        Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS_DATA,
        Code.GET_BROKER_CONSUME_STATS, Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO,
        Code.GET_BROKER_HA_STATUS, Code.GET_LOG_STATE, Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS,
        Code.GET_BROKER_CLUSTER_ACL_INFO, Code.GET_BROKER_EPOCH_CACHE, Code.GET_COLD_DATA_FLOW_CTR_INFO,
        Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON, *_LITE_READS), needs.cluster(GET)),
    # Of a slave, and of tools that copy offsets of all groups.
    **dict.fromkeys((Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET), needs.cluster(GET)),
    **dict.fromkeys((
        Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG,
        Code.UPDATE_ARCHIVED_OFFSET, Code.RESUME_CHECK_HALF_MESSAGE, Code.GET_DOCUMENT,
        Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG,     # its answer has secrets
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_CREATE_ACL,
        Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL, Code.ADD_BROKER, Code.REMOVE_BROKER,
        Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO, Code.RESET_MASTER_FLUSH_OFFSET,
        Code.NOTIFY_BROKER_ROLE_CHANGED, Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, Code.SET_COMMITLOG_READ_MODE, Code.POP_ROLLBACK, *_LITE_DEEDS),
        needs.cluster(UPDATE)),
    # An ordinary account of 4.9 reads of the cluster what it likes; of users it learns nothing.
    **dict.fromkeys((Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL),
                    needs.cluster(GET)),
}

NOT_ANSWERED: dict[int, Read] = dict.fromkeys((
    Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER,
    Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO, Code.WIPE_WRITE_PERM_OF_BROKER,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.DELETE_TOPIC_IN_NAMESRV, Code.REGISTER_TOPIC_IN_NAMESRV,
    Code.GET_KVLIST_BY_NAMESPACE, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION, Code.ADD_WRITE_PERM_OF_BROKER,
    Code.GET_BROKER_MEMBER_GROUP, Code.BROKER_HEARTBEAT, Code.CHECK_TRANSACTION_STATE,
    Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CONSUMER_CLIENT_OFFSET, Code.GET_CONSUMER_STATUS_FROM_CLIENT,
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT, Code.QUERY_BROKER_OFFSET, Code.GET_TOPIC_CONFIG_LIST,
    Code.GET_TOPIC_NAME_LIST, Code.TRIGGER_DELETE_FILES, Code.GET_CLIENT_CONFIG, Code.SUSPEND_CONSUMER,
    Code.RESUME_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_CONSUMER, Code.RESET_CONSUMER_OFFSET_IN_BROKER,
    Code.ADJUST_CONSUMER_THREAD_POOL, Code.WHO_CONSUME_THE_MESSAGE, Code.REGISTER_FILTER_SERVER,
    Code.REGISTER_MESSAGE_FILTER_CLASS, Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_ELECT_MASTER,
    Code.CONTROLLER_REGISTER_BROKER, Code.CONTROLLER_GET_REPLICA_INFO, Code.CONTROLLER_GET_METADATA_INFO,
    Code.CONTROLLER_GET_SYNC_STATE_DATA, Code.UPDATE_CONTROLLER_CONFIG, Code.GET_CONTROLLER_CONFIG,
    Code.CLEAN_BROKER_DATA, Code.CONTROLLER_GET_NEXT_BROKER_ID, Code.CONTROLLER_APPLY_BROKER_ID),
    needs.cluster(UPDATE))
"""No broker serves these; should one ever, an operator's permission is the least that it needs."""

NEEDS: dict[int, Read] = {**_SENDS, **_READS, **_CONSUMERS, **_PRODUCERS, **_TOPICS, **_GROUPS, **_BROKER,
                          **NOT_ANSWERED}


def needs_of(request: RemotingCommand) -> tuple[Need, ...]:
    """Raises KeyError for a code that stands in no table, HeaderError for what is no such request."""
    try:
        return NEEDS[request.code](request)
    except (AttributeError, TypeError, ValueError) as error:
        raise HeaderError(f"request {request.code} cannot be read: {error}") from error
