"""Which handler answers which request: the broker's table of contents."""

from collections.abc import Callable

from regulus.broker.handlers.ack_message import (
    handle_ack_message,
    handle_batch_ack_message,
    handle_change_message_invisibletime,
)
from regulus.broker.handlers.admin_table import ADMIN_HANDLERS
from regulus.broker.handlers.bulk_pull import handle_bulk_pull
from regulus.broker.handlers.consumer_list import handle_get_consumer_list_by_group
from regulus.broker.handlers.consumer_offset import handle_query_consumer_offset, handle_update_consumer_offset
from regulus.broker.handlers.consumer_send_msg_back import handle_consumer_send_msg_back
from regulus.broker.handlers.end_transaction import handle_end_transaction, handle_resume_check_half_message
from regulus.broker.handlers.heart_beat import (
    handle_check_client_config,
    handle_heart_beat,
    handle_unregister_client,
)
from regulus.broker.handlers.lock_batch_mq import handle_lock_batch_mq, handle_unlock_batch_mq
from regulus.broker.handlers.notification import (
    handle_notification,
    handle_peek_message,
    handle_polling_info,
)
from regulus.broker.handlers.pop_message import handle_pop_message
from regulus.broker.handlers.pull_message import handle_pull_message
from regulus.broker.handlers.query_assignment import (
    handle_get_all_message_request_mode,
    handle_query_assignment,
    handle_set_message_request_mode,
)
from regulus.broker.handlers.query_message import (
    handle_get_earliest_msg_storetime,
    handle_get_max_offset,
    handle_get_min_offset,
    handle_query_message,
    handle_search_offset_by_timestamp,
    handle_view_message_by_id,
)
from regulus.broker.handlers.recall_message import (
    handle_get_timer_check_point,
    handle_get_timer_metrics,
    handle_recall_message,
)
from regulus.broker.handlers.send_message import handle_send_message
from regulus.broker.handlers.send_reply_message import handle_send_reply_message
from regulus.broker.handlers.sink_marks import handle_get_sink_marks, handle_release_sink_marks
from regulus.broker.outcome import NO_REPLY, Hold, Outcome, refuse, when_saved
from regulus.broker.refusals import refusal_remark
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError
from regulus.model.peer import Peer
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import ONEWAY_FLAG, RemotingCommand

Handler = Callable[[RemotingCommand, Peer, BrokerState, int], Outcome]

_HANDLERS: dict[RequestCode, Handler] = {
    RequestCode.SEND_MESSAGE: handle_send_message,
    RequestCode.SEND_MESSAGE_V2: handle_send_message,
    RequestCode.SEND_BATCH_MESSAGE: handle_send_message,
    RequestCode.SEND_REPLY_MESSAGE: handle_send_reply_message,
    RequestCode.SEND_REPLY_MESSAGE_V2: handle_send_reply_message,
    RequestCode.CONSUMER_SEND_MSG_BACK: handle_consumer_send_msg_back,
    RequestCode.END_TRANSACTION: handle_end_transaction,
    RequestCode.RECALL_MESSAGE: handle_recall_message,
    RequestCode.GET_TIMER_CHECK_POINT: handle_get_timer_check_point,
    RequestCode.GET_TIMER_METRICS: handle_get_timer_metrics,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: handle_resume_check_half_message,
    RequestCode.PULL_MESSAGE: handle_pull_message,
    RequestCode.LITE_PULL_MESSAGE: handle_pull_message,
    RequestCode.POP_MESSAGE: handle_pop_message,
    RequestCode.NOTIFICATION: handle_notification,
    RequestCode.PEEK_MESSAGE: handle_peek_message,
    RequestCode.POLLING_INFO: handle_polling_info,
    RequestCode.ACK_MESSAGE: handle_ack_message,
    RequestCode.BATCH_ACK_MESSAGE: handle_batch_ack_message,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: handle_change_message_invisibletime,
    RequestCode.QUERY_ASSIGNMENT: handle_query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: handle_set_message_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: handle_get_all_message_request_mode,
    RequestCode.BULK_PULL: handle_bulk_pull,
    RequestCode.QUERY_CONSUMER_OFFSET: handle_query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: handle_update_consumer_offset,
    RequestCode.HEART_BEAT: handle_heart_beat,
    RequestCode.UNREGISTER_CLIENT: handle_unregister_client,
    RequestCode.CHECK_CLIENT_CONFIG: handle_check_client_config,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: handle_get_consumer_list_by_group,
    RequestCode.LOCK_BATCH_MQ: handle_lock_batch_mq,
    RequestCode.UNLOCK_BATCH_MQ: handle_unlock_batch_mq,
    RequestCode.QUERY_MESSAGE: handle_query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: handle_view_message_by_id,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: handle_search_offset_by_timestamp,
    RequestCode.GET_MAX_OFFSET: handle_get_max_offset,
    RequestCode.GET_MIN_OFFSET: handle_get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: handle_get_earliest_msg_storetime,
    RequestCode.GET_SINK_MARKS: handle_get_sink_marks,
    RequestCode.RELEASE_SINK_MARKS: handle_release_sink_marks,
}

_SEES_TO_IT = frozenset((
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
"""A send waits for its topic where it leaves the straight way; a pull says nothing of the group that it makes."""
_SETTINGS = frozenset((
    RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.DELETE_SUBSCRIPTIONGROUP, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL))
"""A yes to one of these means that it is so and saved, also when it had been so before."""


def _answered_when_saved(handler: Handler, is_setting: bool) -> Handler:
    """The same handler, but the answer waits until the topics and groups that it changed or used are saved."""
    def handle(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
        settings = broker.settings
        settings.awaited = 0
        outcome = handler(request, peer, broker, now_ms)
        if is_setting:
            settings.use_all()
        return when_saved(outcome, settings.awaited) if settings.awaited else outcome
    return handle


HANDLERS: dict[int, Handler] = {
    int(code): handler if code in _SEES_TO_IT else _answered_when_saved(handler, code in _SETTINGS)
    for code, handler in (_HANDLERS | ADMIN_HANDLERS).items()}

_ONEWAY = ONEWAY_FLAG
_TABLE = HANDLERS


MASTER_ONLY = _SETTINGS | {
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE, RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ, RequestCode.RECALL_MESSAGE,
    RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME}
"""What only a master answers: messages and settings come to a slave from there, and two locks of a queue are none."""


WITHOUT_LOG = frozenset((
    RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE,    # a refusal would keep their consumers here, as the only
                                                                # broker that they know: they are sent to the master
    RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_ASSIGNMENT, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.POLLING_INFO, RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_ALL_PRODUCER_INFO, RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_BROKER_HA_STATUS,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG, RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_GET_ACL, RequestCode.AUTH_LIST_ACL))
"""What a slave answers whose log parted from its master's: nothing of it comes from the log, or changes it."""


def _lets_begin(request: RemotingCommand) -> bool:
    """Whether it gives a group places, which a slave has from its master."""
    return request.code == RequestCode.NOTIFICATION and "initMode" in request.ext


def handle_as_slave(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """The same by a slave."""
    if request.code in MASTER_ONLY or _lets_begin(request):
        refusal = refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE,
                         f"this is a slave of {broker.config.broker_name}, which takes no messages and settings: ask "
                         "its master")
        return NO_REPLY if request.is_oneway else refusal
    if broker.parted and request.code not in WITHOUT_LOG and request.code in _TABLE:
        refusal = refuse(request, ResponseCode.SERVICE_NOT_AVAILABLE,
                         f"this slave of {broker.config.broker_name} must not be read from: {broker.parted}")
        return NO_REPLY if request.is_oneway else refusal
    return handle(request, peer, broker, now_ms)


def handle(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Decide what to do with one request. A one-way request gets no answer, not even a refusal."""
    handler = _TABLE.get(request.code)
    if handler is None:
        outcome: Outcome = refuse(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, refusal_remark(request.code))
    else:
        try:
            outcome = handler(request, peer, broker, now_ms)
        except HeaderError as error:
            outcome = refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
    return NO_REPLY if request.flag & _ONEWAY and not isinstance(outcome, Hold) else outcome
