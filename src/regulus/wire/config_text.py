"""Configuration in requests and in files: `key=value` lines with RocketMQ's key spelling.

Our dataclasses have the same keys in snake_case: `broker_ip1` is `brokerIP1` and `listen_port` is `listenPort`.

Source: MixAll.properties2String, MixAll.string2Properties, MixAll.properties2Object.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from regulus.errors import ConfigError
from regulus.wire.ext_fields import parse_long

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Config = TypeVar("_Config", bound="DataclassInstance")
_Value = str | int | bool | Enum | None

_IRREGULAR_KEYS = {
    "broker_ip1": "brokerIP1", "broker_ip2": "brokerIP2", "use_tls": "useTLS",
    "check_crc_on_recover": "checkCRCOnRecover",
    # RocketMQ has these as system properties and in the file named by tls.config.file; the last three are ours.
    "tls_server_mode": "tls.server.mode", "tls_test_mode_enable": "tls.test.mode.enable",
    "tls_server_cert_path": "tls.server.certPath", "tls_server_key_path": "tls.server.keyPath",
    "tls_server_key_password": "tls.server.keyPassword", "tls_server_trust_cert_path": "tls.server.trustCertPath",
    "tls_server_need_client_auth": "tls.server.need.client.auth", "tls_server_auth_client": "tls.server.authClient",
    "tls_enable": "tls.enable", "tls_client_cert_path": "tls.client.certPath",
    "tls_client_key_path": "tls.client.keyPath", "tls_client_key_password": "tls.client.keyPassword",
    "tls_client_trust_cert_path": "tls.client.trustCertPath", "tls_client_auth_server": "tls.client.authServer",
    "tls_client_check_host": "tls.client.checkHost", "tls_ha_enable": "tls.ha.enable",
}
_IRREGULAR_FIELDS = {key: name for name, key in _IRREGULAR_KEYS.items()}
_LINE_END = re.compile(r"\r\n|\r|\n")       # Java's: fewer than Python's ends of lines
_UNICODE = re.compile("[0-9A-Fa-f]{4}")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")     # Java writes characters beyond four digits as two
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def config_key(field_name: str) -> str:
    """RocketMQ's spelling of one of our field names."""
    if field_name in _IRREGULAR_KEYS:
        return _IRREGULAR_KEYS[field_name]
    first, *rest = field_name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def field_name(key: str) -> str:
    """Our spelling of one of RocketMQ's keys."""
    if key in _IRREGULAR_FIELDS:
        return _IRREGULAR_FIELDS[key]
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def format_lines(values: Mapping[str, str]) -> str:
    """`key=value` lines, sorted by key."""
    return "".join(f"{key}={values[key]}\n" for key in sorted(values))


def parse_lines(text: str) -> dict[str, str]:
    """Parse Java properties: `#` and `!` begin comments; `=`, `:` or a blank ends the key; a backslash at the end joins
    lines."""
    values: dict[str, str] = {}
    joined = ""
    for line in _LINE_END.split(text):
        joined += line.lstrip() if joined else line.strip()
        if not joined or joined[0] in "#!":
            joined = ""
        elif _ends_with_open_backslash(joined):
            joined = joined[:-1]
        else:
            key, value = _split_line(joined)
            values[key] = value
            joined = ""
    if joined:
        key, value = _split_line(joined)
        values[key] = value
    return values


def config_values(config: "DataclassInstance") -> dict[str, str]:
    """All fields of a config dataclass as RocketMQ's keys and texts; None becomes the empty text."""
    return {config_key(item.name): _format_value(getattr(config, item.name)) for item in fields(config) if item.init}


def with_values(config: _Config, values: Mapping[str, str]) -> _Config:
    """The config with the fields of these keys changed. Raises ConfigError for an unknown key or unparsable value."""
    changes: dict[str, _Value] = {}
    known = {item.name for item in fields(config) if item.init}
    for key, text in values.items():
        name = field_name(key)
        if name not in known:
            raise ConfigError(f"{key} is not a configuration key")
        changes[name] = _parse_value(key, text, getattr(config, name))
    return replace(config, **changes)


def _ends_with_open_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_line(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=: \t":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t")
    return _unescape(key), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        position += 1
        if letter == "\\" and position < len(text):
            letter = _ESCAPES.get(text[position], text[position])
            position += 1
            if letter == "u" and (code := _UNICODE.match(text, position)):
                letter = chr(int(code[0], 16))
                position = code.end()
        pieces.append(letter)
    return _PAIR.sub(_joined_pair, "".join(pieces))


def _joined_pair(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _format_value(value: _Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Enum():
            return (str(value) if isinstance(value, str) else "") or value.name
        case _:
            return str(value)


def _parse_value(key: str, text: str, current: _Value) -> _Value:
    text = text.strip()
    match current:
        case bool():
            if text.lower() not in ("true", "false"):
                raise ConfigError(f"{key} has {text!r}: write true or false")
            return text.lower() == "true"
        case Enum():
            texts = {_format_value(each): each for each in type(current)}
            if text not in texts:
                raise ConfigError(f"{key} has {text!r}: write one of {', '.join(texts)}")
            return texts[text]
        case int():
            try:
                return parse_long(text)
            except ValueError:
                raise ConfigError(f"{key} has {text[:40]!r}: write a whole number without a unit, of 64 bits at "
                                  "most") from None
        case _:
            return text
