"""A value that no member can take is refused in a sentence, whatever the body and the member."""

import inspect
import re
from contextlib import suppress
from dataclasses import is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.model.steps import run_to_end
from regulus.wire import bodies, json_fields

VALUES = ("1e400", "-1e400", "NaN", "Infinity", "1" * 5000, "9223372036854775808", "-1", "1.5", '"9e999"', '"nan"',
          '"' + "9" * 5000 + '"', '"\\ud800"', "[]", "{}", "[null]", '{"a":1}', "[" * 65 + "]" * 65, "true", "null",
          '""')
BODIES = [each for _, each in inspect.getmembers(bodies, inspect.isclass) if is_dataclass(each)]


def sample(hint: Any) -> str:
    """The JSON of some value of this type, every container with one entry."""
    origin, arguments = get_origin(hint), get_args(hint)
    if NoneType in arguments:
        return sample(next(each for each in arguments if each is not NoneType))
    if origin in (list, frozenset):
        return f"[{sample(arguments[0])}]"
    if origin is dict:
        key = sample(arguments[0])
        return "{" + (key if key[0] in '{"' else f'"{key}"') + ":" + sample(arguments[1]) + "}"
    if hint is MessageQueue:
        return '{"topic":"T","brokerName":"b","queueId":0}'
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        members = [f'"{name}":{sample(hints[attribute])}' for attribute, name, *_ in json_fields._plan(hint)]
        return "{" + ",".join(members) + "}"
    return {bool: "true", int: "1", float: "1"}.get(hint, '"1"')


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_any_value_in_any_place_is_taken_or_refused(body: Any) -> None:
    text = sample(body)
    json_fields.decode(body, text.encode())
    for place in re.finditer(r'(?<=[:\[])("1"|1|true|"T"|"b"|0)(?=[,\]}])', text):
        for value in VALUES:
            hostile = text[:place.start()] + value + text[place.end():]
            taken = None
            with suppress(HeaderError):     # its text is pinned where each cause is tested
                taken = json_fields.decode(body, hostile.encode())
            if taken is not None:
                json_fields.decode(body, json_fields.encode(taken))
            assert made_in_steps(body, hostile) == taken


def made_in_steps(body: Any, text: str) -> Any:
    """None when it is refused."""
    with suppress(HeaderError):
        return run_to_end(json_fields.decode_in_steps(body, text.encode()))
    return None
