"""What producers ask: to store messages and to end transactions."""

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
    # A send waits for its topic where it leaves the straight way.
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
    # 4.9's clients do not name the topic, and 5.x's not when they are asked; the half message must be of the producer
    # group and unique key that the request names, and of the topic, if it names one.
    Answered(code=Code.END_TRANSACTION, header=headers.EndTransactionRequest, handler=handle_end_transaction,
             needs=Names(topic="real_topic", actions=PUB), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
    Answered(code=Code.RECALL_MESSAGE, header=headers.RecallMessageRequest, handler=handle_recall_message,
             needs=Names(topic="topic", actions=PUB), where=Where.MASTER, saved_first=SavedFirst.WHAT_IT_USED),
)
