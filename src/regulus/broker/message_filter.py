"""Which messages a subscription wants: by the hash of their tag, as consume queues keep it.

Source: SubscriptionData, FilterAPI, DefaultMessageFilter.
"""

from functools import lru_cache

from regulus.model.message_filter import EVERYTHING, Filter
from regulus.wire.bodies import SubscriptionData

TAG = "TAG"
FILTERS_CACHED_MAX = 1024


def is_tag(expression_type: str | None) -> bool:
    return not expression_type or expression_type == TAG


def subscription_filter(subscription: SubscriptionData) -> Filter:
    """Raises HeaderError."""
    if subscription.code_set:
        return _filter(subscription.code_set)
    return expression_filter(subscription.sub_string)


@lru_cache(maxsize=FILTERS_CACHED_MAX)
def expression_filter(expression: str | None) -> Filter:
    """The filter of `A || B`; every message for `*` or nothing. Raises HeaderError when it names no tag."""
    return _filter(SubscriptionData.compile("", expression).code_set)


@lru_cache(maxsize=FILTERS_CACHED_MAX)
def _filter(codes: frozenset[int]) -> Filter:
    return Filter(codes) if codes else EVERYTHING
