from dataclasses import dataclass, field
from enum import Enum

import pytest

from regulus.errors import ConfigError
from regulus.wire.config_text import config_key, config_values, field_name, format_lines, parse_lines, with_values


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    listen_port: int = 1
    broker_ip1: str = ""
    is_fast: bool = False
    colour: Colour = Colour.RED
    derived: int = field(init=False, default=7)


@pytest.mark.parametrize(("name", "key"), [("listen_port", "listenPort"), ("broker_ip1", "brokerIP1"),
                                           ("namesrv_addr", "namesrvAddr"), ("perm", "perm"), ("use_tls", "useTLS"),
                                           ("check_crc_on_recover", "checkCRCOnRecover")])
def test_keys_have_two_spellings(name: str, key: str) -> None:
    assert config_key(name) == key
    assert field_name(key) == name


def test_lines_are_sorted() -> None:
    assert format_lines({"b": "2", "a": "1"}) == "a=1\nb=2\n"


@pytest.mark.parametrize(("text", "values"), [
    ("a=1\nb = 2 \n", {"a": "1", "b": "2"}),
    ("# comment\n! also\n\n  a:1", {"a": "1"}),
    ("a b c", {"a": "b c"}),
    ("a=b=c", {"a": "b=c"}),
    ("a=1,\\\n   2", {"a": "1,2"}),
    ("a\\=b=x\\ty\\\\", {"a=b": "x\ty\\"}),
    ("a=", {"a": ""}),
    ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
    ("a=1\\", {"a": "1"}),
    ("a=\\u4e2d\\u6587 \\ud83d\\ude80 \\u12", {"a": "\u4e2d\u6587 \U0001f680 u12"}),
    ("a=x\u2028y\nb=1\rc=2", {"a": "x\u2028y", "b": "1", "c": "2"}),
    ("", {}),
])
def test_java_properties_are_read(text: str, values: dict[str, str]) -> None:
    assert parse_lines(text) == values


def test_values_go_out_and_come_in() -> None:
    config = with_values(Config(), {"listenPort": "42", "brokerIP1": "10.0.0.1", "isFast": "TRUE",
                                    "colour": "BLUE"})
    assert config == Config(listen_port=42, broker_ip1="10.0.0.1", is_fast=True, colour=Colour.BLUE)
    values = config_values(config)
    assert values == {"listenPort": "42", "brokerIP1": "10.0.0.1", "isFast": "true", "colour": "BLUE"}
    assert with_values(Config(), values) == config


@pytest.mark.parametrize(("key", "text"), [("listenPort", "many"), ("isFast", "1"), ("colour", "green"),
                                           ("listenPort", "1e400"), ("listenPort", "9" * 5000),
                                           ("listenPort", "9223372036854775808"), ("listenPort", "1_0"),
                                           ("listenPort", "nan"), ("other", "1"), ("derived", "1")])
def test_what_does_not_fit_is_named(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        with_values(Config(), {key: text})
