"""Message properties: their names, and the property string `name 0x01 value 0x02 ...`.

Source: MessageConst, MessageDecoder.messageProperties2String, MessageDecoder.string2messageProperties.
"""

NAME_VALUE_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"
PROPERTIES_SIZE_MAX = 32767

KEYS = "KEYS"
TAGS = "TAGS"
WAIT_STORE_MSG_OK = "WAIT"
DELAY_TIME_LEVEL = "DELAY"
RETRY_TOPIC = "RETRY_TOPIC"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
BUYER_ID = "BUYER_ID"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME = "CONSUME_START_TIME"
UNIQUE_KEY = "UNIQ_KEY"
EXTEND_UNIQUE_INFO = "EXTEND_UNIQ_INFO"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
INSTANCE_ID = "INSTANCE_ID"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_HALF_OFFSET = "TRANS_OFFSET"
"""The physical offset of the half message that an op message of RocketMQ 5.5 ends."""
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
SHARDING_KEY = "__SHARDINGKEY"
PRIORITY = "_SYS_MSG_PRIORITY_"
"""See `model.priority`."""
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_PROPERTIES = frozenset((TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS))
"""The properties that set a delivery time; the first one present counts."""
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQUE_KEY = "TIMER_DEL_UNIQKEY"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
POP_CK = "POP_CK"
FIRST_POP_TIME = "1ST_POP_TIME"
CRC32 = "__CRC32#"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
LITE_TOPIC = "__LITE_TOPIC"
"""The queue of RocketMQ 5.5, below its topic, to which a message goes."""
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
BUSINESS_ID = "BUSINESS_ID"
"""Ours: the id of the stub in a user's database for which the message was sent."""
SINK = "SINK"
"""Ours: the sink writer that sent the message, `<sinkId>/<partition>`."""
SEQUENCE = "SEQ"
"""Ours: the message's position in what that writer writes, `<batch>/<row>`."""
SINK_DIGEST = "SINK_DIGEST"
"""Ours, only in requests: the digest of what that writer sent earlier in this batch, `wire.row_digest`."""

SET_BACKS = "SET_BACKS"
"""Ours: the number of the last reset of the consumer offset that moved a pop back; -1 when none did."""

TOPIC_EPOCH = "TOPIC_EPOCH"
"""Ours: which of the topics that had this name a pop was from."""

GROUP_REMOVED = "GROUP_REMOVED"
"""Ours: the number of the last deletion of its group that a pop knew, if there was one."""

GIVEN_BACK = "GIVEN_BACK"
"""Ours: how often a message was popped, reached no client, and was not counted as delivered."""

# Private names allow these two to be typed constants in the compiled form.
_NAME_END = NAME_VALUE_SEPARATOR
_PROPERTY_END = PROPERTY_SEPARATOR


def number(text: str | None) -> int:
    """The number in a property; -1 when it is missing, or is not a number that fits into a long."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else -1


def parse(text: str) -> dict[str, str]:
    """Parse a property string; the result keeps its order.

    A segment counts only if it has the separator with at least one character on each side; a later duplicate wins.
    """
    properties: dict[str, str] = {}
    start = 0
    size = len(text)
    while start < size:
        end = text.find(_PROPERTY_END, start, size)
        if end < 0:
            end = size
        separator = text.find(_NAME_END, start, end)
        if start < separator < end - 1:
            properties[text[start:separator]] = text[separator + 1:end]
        start = end + 1
    return properties


def format(properties: dict[str, str]) -> str:
    """The property string, with the last 0x02, as RocketMQ 5.x writes it. An entry with an empty value is left out."""
    pieces = []
    for name, value in properties.items():
        if value:
            pieces.append(name)
            pieces.append(_NAME_END)
            pieces.append(value)
            pieces.append(_PROPERTY_END)
    return "".join(pieces)
