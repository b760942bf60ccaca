"""Why a call of a listener failed."""

import pytest

from regulus.client.core.listener_cause import LATER, cause_of


def raised(error: Exception, depth: int = 1) -> Exception:
    """The exception, raised by a function within others."""
    def fall(more: int) -> None:
        if more:
            fall(more - 1)
        raise error
    with pytest.raises(type(error)):
        fall(depth)
    return error


def test_an_exception_is_its_type_its_text_on_one_line_and_its_innermost_frames():
    cause = cause_of(raised(ValueError("no\n  price")), "")
    assert cause.text == "ValueError: no price"
    assert "in fall" in cause.stack
    assert cause.stack.rstrip().splitlines()[-1].strip() == "raise error"


def test_a_deep_stack_keeps_its_innermost_frames():
    cause = cause_of(raised(ValueError("x"), depth=200), "")
    assert len(cause.stack) <= 2_000
    assert cause.stack.rstrip().endswith("raise error")


def test_an_exception_that_cannot_be_written_has_a_cause_too():
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Odd" in cause_of(raised(Odd()), "").text


@pytest.mark.parametrize(("odd_answer", "text"), [
    ("", "RECONSUME_LATER"), ("returned nothing", "RECONSUME_LATER: the listener returned nothing")])
def test_a_listener_that_raises_nothing(odd_answer, text):
    assert cause_of(None, odd_answer) == LATER._replace(text=text)
