"""Checks the fields of receives and sets their times. Source: ReceiveMessageActivity."""


from regulus.errors import CallRefused, HeaderError
from regulus.proxy.caller import Caller
from regulus.proxy.config import ProxyConfig
from regulus.proxy.times import ms_of
from regulus.wire.bodies import SubscriptionData
from regulus.wire.bodies.subscription_data import ALL, SQL92, TAG
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code, FilterType

BATCH_MAX = 32
"""Messages of one receive; a broker pops no more at a time."""
EXPRESSION_SIZE_MAX = 4_096
"""Characters of a filter. If maxUserPropertySize is larger, that is the limit, so that each tag that can be sent can be
named."""
ATTEMPT_ID_SIZE_MAX = 128
"""Characters of an attempt id."""


def invisible_ms(request: messages.ReceiveMessageRequest, config: ProxyConfig) -> int:
    """How long the received messages stay invisible to other consumers, in ms. Raises CallRefused."""
    if request.auto_renew and config.enable_proxy_auto_renew:
        return config.default_invisible_time_mills
    asked = ms_of(request.invisible_duration)
    _check_invisible(asked, config.min_invisible_time_mills_for_recv, config)
    return asked


def changed_invisible_ms(request: messages.ChangeInvisibleDurationRequest, config: ProxyConfig) -> int:
    """The new invisible time of a message in ms; 0 makes it visible at once. Raises CallRefused."""
    asked = ms_of(request.invisible_duration)
    _check_invisible(asked, 0, config)
    return asked


def _check_invisible(asked_ms: int, low_ms: int, config: ProxyConfig) -> None:
    """Raises CallRefused with the texts of RocketMQ, as clients compare them."""
    if asked_ms < low_ms:
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {low_ms}")
    if asked_ms > config.max_invisible_time_mills:
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME,
                          f"the invisibleTime is too large. max is {config.max_invisible_time_mills}")


def poll_ms(request: messages.ReceiveMessageRequest, caller: Caller, config: ProxyConfig, now_ms: int) -> int:
    """How long to wait for a message, in ms: the time that the client asks for, within the limits of the settings.

    The wait always ends before the deadline of the client."""
    low = config.grpc_client_consumer_min_long_polling_timeout_millis
    high = config.grpc_client_consumer_max_long_polling_timeout_millis
    left = high + config.long_polling_reserve_time_in_millis
    if caller.deadline_ms is not None:
        left = max(0, caller.deadline_ms - now_ms)
    asked = ms_of(request.long_polling_timeout) if request.HasField("long_polling_timeout") else left
    return max(0, min(max(asked, low), high, left - config.long_polling_reserve_time_in_millis))


def batch_size(request: messages.ReceiveMessageRequest) -> int:
    return min(request.batch_size, BATCH_MAX) if request.batch_size > 0 else BATCH_MAX


def subscription(topic: str, expression: messages.FilterExpression, config: ProxyConfig) -> SubscriptionData:
    """The compiled filter of a receive; an empty one of tags wants all messages. Raises CallRefused
    ILLEGAL_FILTER_EXPRESSION."""
    kind = SQL92 if expression.type == FilterType.SQL else TAG
    text = expression.expression.strip()
    size_max = max(EXPRESSION_SIZE_MAX, config.max_user_property_size)
    if len(text) > size_max:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION,
                          f"the filter has {len(text)} characters; {size_max} are the most")
    if kind == SQL92 and not text:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, "the SQL filter is empty")
    try:
        return SubscriptionData.compile(topic, text or ALL, expression_type=kind)
    except HeaderError as error:
        raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from error


def has_wanted_tag(tag: str, wanted: SubscriptionData) -> bool:
    """Whether the client wants a message with this tag. The broker compares only hashes of tags, and a message of the
    retry topic may have been popped with another filter before."""
    return not wanted.tags_set or tag in wanted.tags_set


def attempt_id(request: messages.ReceiveMessageRequest) -> str | None:
    if not request.HasField("attempt_id"):
        return None
    if len(request.attempt_id) > ATTEMPT_ID_SIZE_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"the attempt id has {len(request.attempt_id)} characters; "
                                            f"{ATTEMPT_ID_SIZE_MAX} are the most")
    return request.attempt_id or None
