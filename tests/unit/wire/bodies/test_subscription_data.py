import pytest

from regulus.errors import HeaderError
from regulus.wire.bodies import SubscriptionData


@pytest.mark.parametrize("expression", ["*", "", "  ", None])
def test_no_expression_takes_everything(expression: str | None) -> None:
    data = SubscriptionData.compile("T", expression, 5)
    assert (data.sub_string, data.tags_set, data.code_set, data.sub_version) == ("*", frozenset(), frozenset(), 5)


@pytest.mark.parametrize("expression", ["TagA || TagB", "TagA||TagB", " || TagB ||  TagA ||"])
def test_tags_are_hashed_as_java_hashes_them(expression: str) -> None:
    data = SubscriptionData.compile("T", expression)
    assert data.tags_set == {"TagA", "TagB"}
    assert data.code_set == {2598919, 2598920}


def test_hashes_wrap_around_and_count_utf16_units() -> None:
    assert SubscriptionData.compile("T", "a long tag that wraps").code_set == {java_hash("a long tag that wraps")}
    assert SubscriptionData.compile("T", "标签😀").code_set == {java_hash("标签😀")}


def java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    number = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + 256 * high + low) % 2**32
    return number - 2**32 if number >= 2**31 else number


def test_an_expression_without_tags_is_refused() -> None:
    with pytest.raises(HeaderError, match="names no tag"):
        SubscriptionData.compile("T", " || ")


def test_sql_is_kept_as_it_is() -> None:
    data = SubscriptionData.compile("T", "a > 5 || b", expression_type="SQL92")
    assert (data.sub_string, data.tags_set, data.expression_type) == ("a > 5 || b", frozenset(), "SQL92")


def test_tags_where_hashes_belong_are_hashed() -> None:
    """Go clients send them so."""
    data = SubscriptionData.decode(b'{"topic":"T","codeSet":["TagA",2598920],"tagsSet":["TagA","TagB"]}')
    assert data.code_set == {2598919, 2598920}


def test_a_code_set_that_is_no_list_is_refused() -> None:
    with pytest.raises(HeaderError, match="codeSet"):
        SubscriptionData.decode(b'{"topic":"T","codeSet":7}')
