"""A consumer's subscription to a topic. Source: SubscriptionData, FilterAPI.buildSubscriptionData."""

from dataclasses import dataclass, replace
from typing import Any

from regulus.errors import HeaderError
from regulus.model.java_hash import java_hash
from regulus.wire.json_fields import JsonBody, prepared

TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"


def _tolerant_codes(value: Any) -> Any:
    """Go clients write the hashes as text; an entry that is not a number is treated as a tag and hashed here."""
    if isinstance(value, list):
        return [_code(each) for each in value]
    return value


def _code(entry: Any) -> int:
    try:
        return int(entry)
    except (TypeError, ValueError):
        return java_hash(str(entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionData(JsonBody):
    """One subscription. `sub_version` in ms. Empty `tags_set` and `code_set` match every message; codes are Java hashes
    of the tags."""

    topic: str
    sub_string: str = ALL
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[int] = prepared(_tolerant_codes, default=frozenset())
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False

    @staticmethod
    def compile(topic: str, expression: str | None, sub_version: int = 0,
                expression_type: str = TAG) -> "SubscriptionData":
        """The subscription of `TagA || TagB`, `*` or a SQL92 expression. Raises HeaderError when no tag is named."""
        text = ALL if expression is None or not expression.strip() else expression
        data = SubscriptionData(topic=topic, sub_string=text, sub_version=sub_version, expression_type=expression_type)
        if expression_type != TAG or text == ALL:
            return data
        tags = frozenset([tag.strip() for tag in text.split("||") if tag.strip()])
        if not tags:
            raise HeaderError(f"subscription {text!r} of topic {topic} names no tag; write TagA || TagB, or *")
        return replace(data, tags_set=tags, code_set=frozenset([java_hash(tag) for tag in tags]))
