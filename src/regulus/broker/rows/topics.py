"""Requests of operators about topics."""

from regulus.access.needs import CREATE, DELETE, LIST, USE_OR_GET, Names, every_topic, seen_in_parts
from regulus.broker.handlers.consume_stats import handle_query_topic_consume_by_who
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
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    Answered(code=Code.UPDATE_AND_CREATE_TOPIC, header=headers.UpdateAndCreateTopicRequest,
             handler=handle_update_and_create_topic, needs=Names(topic="topic", actions=CREATE), where=Where.MASTER,
             saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.UPDATE_AND_CREATE_TOPIC_LIST, header=None, handler=handle_update_and_create_topic_list,
             needs=seen_in_parts, where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.DELETE_TOPIC_IN_BROKER, header=headers.DeleteTopicInBrokerRequest,
             handler=handle_delete_topic_in_broker, needs=Names(topic="topic", actions=DELETE), where=Where.MASTER,
             saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.GET_TOPIC_CONFIG, header=headers.GetTopicConfigRequest, handler=handle_get_topic_config,
             needs=Names(topic="topic", actions=USE_OR_GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_ALL_TOPIC_CONFIG, header=None, handler=handle_get_all_topic_config,
             needs=every_topic(LIST), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, header=None, handler=handle_get_system_topic_list_from_broker,
             needs=every_topic(LIST), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_TOPIC_STATS_INFO, header=headers.GetTopicStatsInfoRequest,
             handler=handle_get_topic_stats_info, needs=Names(topic="topic", actions=USE_OR_GET),
             where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_TOPIC_CONSUME_BY_WHO, header=headers.QueryTopicConsumeByWhoRequest,
             handler=handle_query_topic_consume_by_who, needs=Names(topic="topic", actions=USE_OR_GET),
             where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    # It deletes queues, which depend on the log.
    Answered(code=Code.CLEAN_UNUSED_TOPIC, header=None, handler=handle_clean_unused_topic,
             needs=every_topic(DELETE), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
)
