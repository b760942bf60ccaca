"""Requests of consumers about themselves, about sharing queues, and about their offsets."""

from regulus.access.needs import GET, SUB, SUB_OR_GET, SUB_OR_UPDATE, Decoded, Names, cluster, seen_in_parts
from regulus.broker import access
from regulus.broker.handlers.consumer_list import handle_get_consumer_list_by_group
from regulus.broker.handlers.consumer_offset import handle_query_consumer_offset, handle_update_consumer_offset
from regulus.broker.handlers.consumer_send_msg_back import handle_consumer_send_msg_back
from regulus.broker.handlers.heart_beat import handle_check_client_config, handle_heart_beat, handle_unregister_client
from regulus.broker.handlers.lock_batch_mq import handle_lock_batch_mq, handle_unlock_batch_mq
from regulus.broker.handlers.query_assignment import (
    handle_get_all_message_request_mode,
    handle_query_assignment,
    handle_set_message_request_mode,
)
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    Answered(code=Code.HEART_BEAT, header=None, handler=handle_heart_beat,
             needs=seen_in_parts, where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.UNREGISTER_CLIENT, header=headers.UnregisterClientRequest, handler=handle_unregister_client,
             needs=Names(groups=("consumer_group",), actions=SUB), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.CHECK_CLIENT_CONFIG, header=None, handler=handle_check_client_config,
             needs=access.check_client_config, where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_CONSUMER_LIST_BY_GROUP, header=headers.GetConsumerListByGroupRequest,
             handler=handle_get_consumer_list_by_group, needs=Names(groups=("consumer_group",), actions=SUB_OR_GET),
             where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    # An offset is a place in the log, and means another message in a log that differs from the master's.
    Answered(code=Code.QUERY_CONSUMER_OFFSET, header=headers.QueryConsumerOffsetRequest,
             handler=handle_query_consumer_offset,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB_OR_GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.UPDATE_CONSUMER_OFFSET, header=headers.UpdateConsumerOffsetRequest,
             handler=handle_update_consumer_offset,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB_OR_UPDATE), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.CONSUMER_SEND_MSG_BACK, header=headers.ConsumerSendMsgBackRequest,
             handler=handle_consumer_send_msg_back, needs=Decoded(access.send_back), where=Where.MASTER,
             saved_first=SavedFirst.WHAT_IT_USED),
    # A lock protects a queue only if one broker grants it.
    Answered(code=Code.LOCK_BATCH_MQ, header=None, handler=handle_lock_batch_mq,
             needs=seen_in_parts, where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.UNLOCK_BATCH_MQ, header=None, handler=handle_unlock_batch_mq,
             needs=seen_in_parts, where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_ASSIGNMENT, header=None, handler=handle_query_assignment,
             needs=access.query_assignment, where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.SET_MESSAGE_REQUEST_MODE, header=None, handler=handle_set_message_request_mode,
             needs=access.message_request_mode, where=Where.MASTER, saved_first=SavedFirst.EVERY_CHANGE),
    Answered(code=Code.GET_ALL_MESSAGE_REQUEST_MODE, header=None, handler=handle_get_all_message_request_mode,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
)
