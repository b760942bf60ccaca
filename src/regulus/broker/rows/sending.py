"""Requests of producers: storing messages and ending transactions."""

from regulus.access.needs import PUB, Decoded, Names
from regulus.broker import access
from regulus.broker.handlers.end_transaction import handle_end_transaction
from regulus.broker.handlers.recall_message import handle_recall_message
from regulus.broker.handlers.send_message import handle_send_message
from regulus.broker.handlers.send_reply_message import handle_send_reply_message
from regulus.broker.request_row import Answered, SavedFirst, Where
from regulus.wire import headers
from regulus.wire.codes import RequestCode as Code

ROWS: tuple[Answered, ...] = (
    # A send waits by itself until its topic is saved, when it leaves the fast path.
    Answered(code=Code.SEND_MESSAGE, header=headers.SendMessageRequest, handler=handle_send_message,
             needs=Decoded(access.send), where=Where.MASTER, saved_first=SavedFirst.BY_ITSELF),
    Answered(code=Code.SEND_MESSAGE_V2, header=headers.SendMessageRequest, handler=handle_send_message,
             needs=Decoded(access.send), where=Where.MASTER, saved_first=SavedFirst.BY_ITSELF),
    Answered(code=Code.SEND_BATCH_MESSAGE, header=headers.SendMessageRequest, handler=handle_send_message,
             needs=Decoded(access.send), where=Where.MASTER, saved_first=SavedFirst.BY_ITSELF),
    Answered(code=Code.SEND_REPLY_MESSAGE, header=headers.SendMessageRequest, handler=handle_send_reply_message,
             needs=Decoded(access.send), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.SEND_REPLY_MESSAGE_V2, header=headers.SendMessageRequest, handler=handle_send_reply_message,
             needs=Decoded(access.send), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    # Clients of 4.9 do not name the topic, and those of 5.x do not in answers to checks. The half message must match
    # the producer group and unique key of the request, and its topic if it names one.
    Answered(code=Code.END_TRANSACTION, header=headers.EndTransactionRequest, handler=handle_end_transaction,
             needs=Names(topic="real_topic", actions=PUB), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.RECALL_MESSAGE, header=headers.RecallMessageRequest, handler=handle_recall_message,
             needs=Names(topic="topic", actions=PUB), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
)
