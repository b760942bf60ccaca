"""Requests about the content of the log: pulls, queries, positions in queues."""

from regulus.access.needs import GET, SUB, SUB_OR_GET, UPDATE, USE_OR_GET, Decoded, Names, cluster, every_topic
from regulus.broker import access
from regulus.broker.handlers.bulk_pull import handle_bulk_pull
from regulus.broker.handlers.log_state import (
    handle_get_log_state,
    handle_read_commit_log,
    handle_update_archived_offset,
)
from regulus.broker.handlers.pull_message import handle_pull_message
from regulus.broker.handlers.query_consume_queue import handle_query_consume_queue
from regulus.broker.handlers.query_message import (
    handle_get_earliest_msg_storetime,
    handle_get_max_offset,
    handle_get_min_offset,
    handle_query_message,
    handle_search_offset_by_timestamp,
    handle_view_message_by_id,
)
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    # A slave whose log differs sends pulls to its master; a refusal would keep consumers that know only the slave. The
    # answer does not depend on a group that the pull creates, so it need not wait until that is saved.
    Answered(code=Code.PULL_MESSAGE, header=headers.PullMessageRequest, handler=handle_pull_message,
             needs=Decoded(access.pull), where=Where.ANYWHERE, saved_first=SavedFirst.BY_ITSELF),
    Answered(code=Code.LITE_PULL_MESSAGE, header=headers.PullMessageRequest, handler=handle_pull_message,
             needs=Decoded(access.pull), where=Where.ANYWHERE, saved_first=SavedFirst.BY_ITSELF),
    Answered(code=Code.BULK_PULL, header=headers.BulkPullRequest, handler=handle_bulk_pull,
             needs=Names(topic="topic", actions=SUB), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_MESSAGE, header=headers.QueryMessageRequest, handler=handle_query_message,
             needs=Names(topic="topic", actions=SUB_OR_GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    # The position may be that of any message, whatever topic the request names.
    Answered(code=Code.VIEW_MESSAGE_BY_ID, header=headers.ViewMessageByIdRequest, handler=handle_view_message_by_id,
             needs=every_topic(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.SEARCH_OFFSET_BY_TIMESTAMP, header=headers.SearchOffsetByTimestampRequest,
             handler=handle_search_offset_by_timestamp, needs=Names(topic="topic", actions=USE_OR_GET),
             where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_MAX_OFFSET, header=headers.GetMaxOffsetRequest, handler=handle_get_max_offset,
             needs=Names(topic="topic", actions=USE_OR_GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_MIN_OFFSET, header=headers.GetMinOffsetRequest, handler=handle_get_min_offset,
             needs=Names(topic="topic", actions=USE_OR_GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_EARLIEST_MSG_STORETIME, header=headers.GetEarliestMsgStoretimeRequest,
             handler=handle_get_earliest_msg_storetime, needs=Names(topic="topic", actions=USE_OR_GET),
             where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.QUERY_CONSUME_QUEUE, header=headers.QueryConsumeQueueRequest, handler=handle_query_consume_queue,
             needs=Names(topic="topic", groups=("consumer_group",), actions=GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_LOG_STATE, header=None, handler=handle_get_log_state,
             needs=cluster(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.READ_COMMIT_LOG, header=headers.ReadCommitLogRequest, handler=handle_read_commit_log,
             needs=every_topic(SUB), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    # The offset says up to where this log may be deleted.
    Answered(code=Code.UPDATE_ARCHIVED_OFFSET, header=headers.UpdateArchivedOffsetRequest,
             handler=handle_update_archived_offset, needs=cluster(UPDATE), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
)
