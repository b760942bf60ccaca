"""Which messages a subscription wants: by the hash of their tag, as consume queues keep it.

Source: SubscriptionData, FilterAPI, DefaultMessageFilter.
"""

from functools import lru_cache

from regulus.wire.bodies import SubscriptionData

TAG = "TAG"
EXPRESSIONS_CACHED_MAX = 1024


def is_tag(expression_type: str | None) -> bool:
    return not expression_type or expression_type == TAG


def tags_codes(subscription: SubscriptionData) -> frozenset[int] | None:
    """The tag hashes that the subscription takes; None when it takes every message. Raises HeaderError."""
    if subscription.code_set:
        return subscription.code_set
    return expression_codes(subscription.sub_string)


@lru_cache(maxsize=EXPRESSIONS_CACHED_MAX)
def expression_codes(expression: str | None) -> frozenset[int] | None:
    """The same of `A || B`; None for `*` or nothing. Raises HeaderError when it names no tag."""
    return SubscriptionData.compile("", expression).code_set or None


def is_wanted(tags_code: int, codes: frozenset[int] | None) -> bool:
    return codes is None or tags_code in codes
