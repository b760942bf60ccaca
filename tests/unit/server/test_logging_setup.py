"""What a line of the log looks like, in both forms."""

import json
import logging
import sys
from datetime import UTC, datetime

import pytest

from regulus.errors import ConfigError
from regulus.server import logging_setup
from regulus.server.logging_setup import JsonFormatter, TextFormatter

MOMENT = 1_700_000_000.25


def record(message: str, *values: object, exc_info: object = None) -> logging.LogRecord:
    made = logging.LogRecord("regulus.server.x", logging.WARNING, "x.py", 1, message, values, exc_info)     # type: ignore[arg-type]
    made.created = MOMENT
    return made


def failed() -> logging.LogRecord:
    try:
        raise RuntimeError("broken\nin two")
    except RuntimeError:
        return record("request %d failed", 310, exc_info=sys.exc_info())


def test_json_is_one_object_a_line() -> None:
    line = JsonFormatter().format(record("topics made: %s", 'a "b"\nü'))
    told = json.loads(line)
    assert "\n" not in line
    assert {key: told[key] for key in told if key != "time"} == {
        "level": "WARNING", "logger": "regulus.server.x", "message": 'topics made: a "b"\nü'}


def test_its_time_is_iso_8601_with_a_zone() -> None:
    moment = datetime.fromisoformat(json.loads(JsonFormatter().format(record("x")))["time"])
    assert moment.utcoffset() is not None
    assert moment.astimezone(UTC) == datetime.fromtimestamp(MOMENT, UTC)


def test_an_exception_is_a_member_of_the_same_line() -> None:
    line = JsonFormatter().format(failed())
    told = json.loads(line)
    assert "\n" not in line
    assert told["message"] == "request 310 failed"
    assert told["exception"].startswith("Traceback (most recent call last):\n")
    assert "RuntimeError: broken" in told["exception"]


def test_a_line_of_text_cannot_be_made_to_look_like_two() -> None:
    line = TextFormatter().format(record("topics made: %s", "a\n2026-01-01 ERROR \x1b[2J\u2028b\x85ü"))
    assert line.endswith("WARNING regulus.server.x: topics made: a\\n2026-01-01 ERROR \\x1b[2J\\u2028b\\x85ü")


def test_the_trace_of_an_exception_follows_as_it_is() -> None:
    first, second, *_ = TextFormatter().format(failed()).splitlines()
    assert first.endswith("request 310 failed")
    assert second == "Traceback (most recent call last):"


@pytest.mark.parametrize(("level", "log_format"), [("LOUD", "text"), ("INFO", "xml")])
def test_what_is_not_known_is_refused(level: str, log_format: str) -> None:
    with pytest.raises(ConfigError, match="write one of"):
        logging_setup.set_up(level, log_format)
