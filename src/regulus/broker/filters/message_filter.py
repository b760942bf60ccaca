"""Selects the messages of a subscription: by the hash of the tag, which consume queues contain, or by properties.

Source: SubscriptionData, FilterAPI, DefaultMessageFilter, ExpressionMessageFilter.
"""

from functools import lru_cache

from regulus.broker.config import BrokerConfig
from regulus.broker.filters.sql_parser import compile_condition
from regulus.broker.filters.sql_parts import Condition
from regulus.errors import HeaderError
from regulus.model import message_properties as names
from regulus.model.message_filter import EVERYTHING, Filter
from regulus.wire.bodies import SubscriptionData
from regulus.wire.bodies.subscription_data import SQL92, TAG

FILTERS_CACHED_MAX = 1024       # by tag expression, and by tag hashes
CONDITIONS_CACHED_MAX = 128
"""SQL92 conditions that are kept compiled, or with their error if they are invalid; others are compiled for each
pull."""

NOT_SERVED = "The broker does not support consumer to filter message by "


class ConditionFilter(Filter):
    """Accepts the messages whose properties match a condition, with any tag."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(names=condition.names, reads_properties=True, weight=condition.weight)
        self._condition = condition

    def matches(self, values: list[str | None]) -> bool:
        return self._condition.takes(values)


class PoppedRetries(Filter):
    """Accepts popped messages of a retry topic that another filter accepts.

    Messages that a pull consumer sent back are left out: they may be of another group, whose retry topic has the same
    name. Popped ones have a property; a message without both properties comes from a client, and is accepted.
    """

    def __init__(self, wanted: Filter) -> None:
        super().__init__(wanted.tags_codes, True, wanted.weight,
                         (*[name.decode() for name in wanted.names], names.RETRY_TOPIC, names.FIRST_POP_TIME))
        self._wanted = wanted

    def matches(self, values: list[str | None]) -> bool:
        count = len(self._wanted.names)
        was_popped = values[count] is None or values[count + 1] is not None
        return was_popped and self._wanted.matches(values[:count])


def not_served(expression_type: str | None, config: BrokerConfig) -> str:
    """Why the broker does not filter by expressions of this type; empty when it does."""
    if not expression_type or expression_type == TAG:
        return ""
    if expression_type != SQL92:
        return NOT_SERVED + expression_type
    return "" if config.enable_property_filter else f"{NOT_SERVED}{SQL92} (enablePropertyFilter=false)"


def subscription_filter(subscription: SubscriptionData) -> Filter:
    """The filter of a subscription. Raises HeaderError."""
    if subscription.expression_type == SQL92:
        return expression_filter(subscription.sub_string, SQL92)
    if subscription.code_set:
        return _filter(subscription.code_set)
    return expression_filter(subscription.sub_string)


def expression_filter(expression: str | None, expression_type: str | None = TAG) -> Filter:
    """The filter for tags such as `A || B`, for all messages (`*` or empty), or for a SQL92 condition.

    Raises HeaderError when it names no tag, or is an invalid condition.
    """
    if expression_type != SQL92:
        return _tag_filter(expression)
    found = _condition(expression or "")
    if isinstance(found, str):
        raise HeaderError(found)
    return found


@lru_cache(maxsize=CONDITIONS_CACHED_MAX)
def _condition(text: str) -> ConditionFilter | str:
    """Compile a condition. Errors are cached too, because the client repeats its pull."""
    try:
        return ConditionFilter(compile_condition(text))
    except HeaderError as error:
        return str(error)


@lru_cache(maxsize=FILTERS_CACHED_MAX)
def _tag_filter(expression: str | None) -> Filter:
    return _filter(SubscriptionData.compile("", expression).code_set)


@lru_cache(maxsize=FILTERS_CACHED_MAX)
def _filter(codes: frozenset[int]) -> Filter:
    return Filter(codes) if codes else EVERYTHING
