"""Requests of operators about consumer groups and their clients."""

from regulus.access.needs import DELETE, LIST, SUB_OR_GET, UPDATE, Decoded, Names, every_group, seen_in_parts
from regulus.broker import access
from regulus.broker.handlers.connections import handle_get_consumer_connection_list
from regulus.broker.handlers.consume_stats import (
    handle_get_consume_stats,
    handle_query_consume_time_span,
    handle_query_subscription_by_consumer,
    handle_query_topics_by_consumer,
)
from regulus.broker.handlers.offsets_admin import handle_clone_group_offset, handle_query_correction_offset
from regulus.broker.handlers.relay import (
    handle_consume_message_directly,
    handle_get_consumer_running_info,
    handle_invoke_broker_to_get_consumer_status,
    handle_invoke_broker_to_reset_offset,
)
from regulus.broker.handlers.subscription_group import (
    handle_delete_subscriptiongroup,
    handle_get_all_subscriptiongroup_config,
    handle_get_subscriptiongroup_config,
    handle_update_and_create_subscriptiongroup,
    handle_update_and_create_subscriptiongroup_list,
    handle_update_and_get_group_forbidden,
)
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    Answered(code=Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, header=None,
             handler=handle_update_and_create_subscriptiongroup, needs=access.group_of_body, where=Where.MASTER,
             saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, header=None,
             handler=handle_update_and_create_subscriptiongroup_list, needs=seen_in_parts, where=Where.MASTER,
             saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.DELETE_SUBSCRIPTIONGROUP, header=headers.DeleteSubscriptiongroupRequest,
             handler=handle_delete_subscriptiongroup, needs=Names(groups=("group_name",), actions=DELETE),
             where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.GET_SUBSCRIPTIONGROUP_CONFIG, header=headers.GetSubscriptiongroupConfigRequest,
             handler=handle_get_subscriptiongroup_config, needs=Names(groups=("group",), actions=SUB_OR_GET),
             where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header=None, handler=handle_get_all_subscriptiongroup_config,
             needs=every_group(LIST), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header=headers.UpdateAndGetGroupForbiddenRequest,
             handler=handle_update_and_get_group_forbidden,
             needs=Names(topic="topic", groups=("group",), actions=UPDATE), where=Where.MASTER,
             saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.GET_CONSUMER_CONNECTION_LIST, header=headers.GetConsumerConnectionListRequest,
             handler=handle_get_consumer_connection_list, needs=Names(groups=("consumer_group",), actions=SUB_OR_GET),
             where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    # The answer comes from a client, not from the log.
    Answered(code=Code.GET_CONSUMER_RUNNING_INFO, header=headers.GetConsumerRunningInfoRequest,
             handler=handle_get_consumer_running_info, needs=Names(groups=("consumer_group",), actions=SUB_OR_GET),
             where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_CONSUME_STATS, header=headers.GetConsumeStatsRequest, handler=handle_get_consume_stats,
             needs=Decoded(access.consume_stats), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_CONSUME_TIME_SPAN, header=headers.QueryConsumeTimeSpanRequest,
             handler=handle_query_consume_time_span,
             needs=Names(topic="topic", groups=("group",), actions=SUB_OR_GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_TOPICS_BY_CONSUMER, header=headers.QueryTopicsByConsumerRequest,
             handler=handle_query_topics_by_consumer, needs=Names(groups=("group",), actions=SUB_OR_GET),
             where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_SUBSCRIPTION_BY_CONSUMER, header=headers.QuerySubscriptionByConsumerRequest,
             handler=handle_query_subscription_by_consumer,
             needs=Names(topic="topic", groups=("group",), actions=SUB_OR_GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_CORRECTION_OFFSET, header=headers.QueryCorrectionOffsetRequest,
             handler=handle_query_correction_offset, needs=Decoded(access.query_correction), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.INVOKE_BROKER_TO_RESET_OFFSET, header=headers.InvokeBrokerToResetOffsetRequest,
             handler=handle_invoke_broker_to_reset_offset,
             needs=Names(topic="topic", groups=("group",), actions=UPDATE), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header=headers.InvokeBrokerToGetConsumerStatusRequest,
             handler=handle_invoke_broker_to_get_consumer_status,
             needs=Names(topic="topic", groups=("group",), actions=SUB_OR_GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.CLONE_GROUP_OFFSET, header=headers.CloneGroupOffsetRequest, handler=handle_clone_group_offset,
             needs=Names(topic="topic", groups=("src_group", "dest_group"), actions=UPDATE), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    # The client gets a message of the log.
    Answered(code=Code.CONSUME_MESSAGE_DIRECTLY, header=headers.ConsumeMessageDirectlyRequest,
             handler=handle_consume_message_directly, needs=Decoded(access.consume_directly), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
)
