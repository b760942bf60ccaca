"""Requests of operators, slaves and sinks about the broker as a whole."""

from regulus.access.needs import GET, UPDATE, cluster, nothing
from regulus.broker.handlers.broker_config import handle_get_broker_config, handle_update_broker_config
from regulus.broker.handlers.broker_runtime_info import handle_get_broker_runtime_info
from regulus.broker.handlers.broker_stats import handle_view_broker_stats_data
from regulus.broker.handlers.connections import handle_get_all_producer_info, handle_get_producer_connection_list
from regulus.broker.handlers.consume_stats import handle_get_broker_consume_stats
from regulus.broker.handlers.documents import handle_get_document
from regulus.broker.handlers.end_transaction import handle_resume_check_half_message
from regulus.broker.handlers.ha_status import handle_get_broker_ha_status
from regulus.broker.handlers.offsets_admin import handle_get_all_consumer_offset, handle_get_all_delay_offset
from regulus.broker.handlers.recall_message import handle_get_timer_check_point, handle_get_timer_metrics
from regulus.broker.handlers.retention import handle_clean_expired_consumequeue, handle_delete_expired_commitlog
from regulus.broker.handlers.sink_marks import handle_get_sink_marks, handle_release_sink_marks
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    Answered(code=Code.UPDATE_BROKER_CONFIG, header=None, handler=handle_update_broker_config,
             needs=cluster(UPDATE), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_BROKER_CONFIG, header=None, handler=handle_get_broker_config,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    # Operators need this when a log differs; the answer has numbers about this broker, but no messages.
    Answered(code=Code.GET_BROKER_RUNTIME_INFO, header=None, handler=handle_get_broker_runtime_info,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.VIEW_BROKER_STATS_DATA, header=headers.ViewBrokerStatsDataRequest,
             handler=handle_view_broker_stats_data, needs=cluster(GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_BROKER_CONSUME_STATS, header=headers.GetBrokerConsumeStatsRequest,
             handler=handle_get_broker_consume_stats, needs=cluster(GET), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_PRODUCER_CONNECTION_LIST, header=headers.GetProducerConnectionListRequest,
             handler=handle_get_producer_connection_list, needs=cluster(GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_ALL_PRODUCER_INFO, header=None, handler=handle_get_all_producer_info,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.CLEAN_EXPIRED_CONSUMEQUEUE, header=None, handler=handle_clean_expired_consumequeue,
             needs=cluster(UPDATE), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.DELETE_EXPIRED_COMMITLOG, header=None, handler=handle_delete_expired_commitlog,
             needs=cluster(UPDATE), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.RESUME_CHECK_HALF_MESSAGE, header=headers.ResumeCheckHalfMessageRequest,
             handler=handle_resume_check_half_message, needs=cluster(UPDATE), where=Where.MASTER,
             saved_first=SavedFirst.WHAT_IT_USED),
    # Counted from the log.
    Answered(code=Code.GET_TIMER_CHECK_POINT, header=None, handler=handle_get_timer_check_point,
             needs=cluster(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_TIMER_METRICS, header=None, handler=handle_get_timer_metrics,
             needs=cluster(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_BROKER_HA_STATUS, header=None, handler=handle_get_broker_ha_status,
             needs=cluster(GET), where=Where.ANYWHERE, saved_first=SavedFirst.WHAT_IT_USED),
    # For slaves, and tools that copy the offsets of all groups.
    Answered(code=Code.GET_ALL_CONSUMER_OFFSET, header=None, handler=handle_get_all_consumer_offset,
             needs=cluster(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_ALL_DELAY_OFFSET, header=None, handler=handle_get_all_delay_offset,
             needs=cluster(GET), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.GET_DOCUMENT, header=headers.GetDocumentRequest, handler=handle_get_document,
             needs=cluster(UPDATE), where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    # A sink's marks belong to no topic, so any client that knows the sink's id may ask for them. They refer to the log.
    Answered(code=Code.GET_SINK_MARKS, header=headers.GetSinkMarksRequest, handler=handle_get_sink_marks,
             needs=nothing, where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.RELEASE_SINK_MARKS, header=headers.ReleaseSinkMarksRequest, handler=handle_release_sink_marks,
             needs=nothing, where=Where.SOUND_LOG, saved_first=SavedFirst.WHAT_IT_USED),
)
