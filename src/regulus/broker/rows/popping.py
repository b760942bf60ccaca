"""Requests of consumers that pop."""

from regulus.access.needs import SUB, SUB_OR_GET, Decoded, Names
from regulus.broker import access
from regulus.broker.handlers.ack_message import (
    handle_ack_message,
    handle_batch_ack_message,
    handle_change_message_invisibletime,
)
from regulus.broker.handlers.notification import handle_notification, handle_peek_message, handle_polling_info
from regulus.broker.handlers.pop_message import handle_pop_message
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code
from regulus.wire.remoting_command import RemotingCommand


def _where_notified(request: RemotingCommand) -> Where:
    """With `initMode` the request sets offsets, which a slave copies from its master."""
    return Where.MASTER if "initMode" in request.ext else Where.SOUND_LOG


ROWS: tuple[Answered, ...] = (
    Answered(code=Code.POP_MESSAGE, header=headers.PopMessageRequest, handler=handle_pop_message,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB), where=Where.MASTER,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.NOTIFICATION, header=headers.NotificationRequest, handler=handle_notification,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB), where=_where_notified,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.PEEK_MESSAGE, header=headers.PeekMessageRequest, handler=handle_peek_message,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB), where=Where.SOUND_LOG,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.POLLING_INFO, header=headers.PollingInfoRequest, handler=handle_polling_info,
             needs=Names(topic="topic", groups=("consumer_group",), actions=SUB_OR_GET), where=Where.ANYWHERE,
             saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.ACK_MESSAGE, header=headers.AckMessageRequest, handler=handle_ack_message,
             needs=Decoded(access.by_receipt), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.BATCH_ACK_MESSAGE, header=None, handler=handle_batch_ack_message,
             needs=access.batch_ack, where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.CHANGE_MESSAGE_INVISIBLETIME, header=headers.ChangeMessageInvisibletimeRequest,
             handler=handle_change_message_invisibletime, needs=Decoded(access.by_receipt), where=Where.MASTER,
             saved_first=SavedFirst.WHAT_IT_USED),
)
