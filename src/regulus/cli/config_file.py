"""Reads configuration files, RocketMQ's own `.conf` (Java properties) and TOML, into typed config dataclasses.

Keys of RocketMQ's own threads, caches and intervals are accepted and named in one warning, and so are keys that another
command takes, because one file may serve all of them. A key that asks for something that Regulus does not do is
refused, with advice; any other unknown key is refused with the nearest known one. Otherwise a setting would silently
have no effect.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regulus.cli.rocketmq_keys import ROCKETMQ_KEYS
from regulus.errors import ConfigError
from regulus.model.fixed_settings import FIXED_SETTINGS, setting_fault
from regulus.wire.config_text import config_key, field_name, parse_lines, with_values

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_NO_OTHERS: Mapping[str, "Collection[type[DataclassInstance]]"] = {}
_ALIKE = 0.8
"""The lowest similarity at which a key is suggested; below it, a key with another meaning would be suggested."""
_TOML_SUFFIXES = frozenset({".toml"})


@dataclass(frozen=True, slots=True)
class LoadedConfigs:
    """`configs` are in the order of their defaults. `ignored`: RocketMQ's keys that have no effect here. `elsewhere`:
    keys by the command that takes them."""

    configs: tuple[Any, ...]
    ignored: tuple[str, ...]
    elsewhere: Mapping[str, Sequence[str]]

    @property
    def warning(self) -> str | None:
        """One line that names the ignored keys; None without any."""
        told = [f"these keys of RocketMQ have no effect here: {', '.join(self.ignored)}"] if self.ignored else []
        told += [f"these keys are for {command} and have no effect on this command: {', '.join(sorted(keys))}"
                 for command, keys in sorted(self.elsewhere.items())]
        return "; ".join(told) or None


def read_values(path: Path) -> dict[str, str]:
    """The keys of a file in RocketMQ's spelling, with their values as text. The file is UTF-8, with or without a byte
    order mark; comments of a `.conf` may have any encoding. Raises ConfigError that names the file."""
    is_toml = path.suffix in _TOML_SUFFIXES
    try:
        text = path.read_text(encoding="utf-8-sig", errors="strict" if is_toml else "surrogateescape")
    except OSError as error:
        raise ConfigError(f"cannot read configuration file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration file {path} is not UTF-8: {error}") from error
    if is_toml:
        return _toml_values(path, text)
    values = parse_lines(text)
    for pair in values.items():
        if not all(map(_is_utf8, pair)):
            key, value = (text.encode("utf-8", "backslashreplace").decode() for text in pair)
            raise ConfigError(f"configuration file {path} is not UTF-8 in {key}={value}: write it in UTF-8, or as "
                              "\\uXXXX")
    return values


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def load(path: Path, *defaults: "DataclassInstance") -> LoadedConfigs:
    """The defaults with the settings of the file. Raises ConfigError that names file, key and what is allowed."""
    try:
        return apply(read_values(path), *defaults)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def apply(values: dict[str, str], *defaults: "DataclassInstance",
          others: Mapping[str, "Collection[type[DataclassInstance]]"] = _NO_OTHERS) -> LoadedConfigs:
    """The defaults with `values` set. A key that several configs have is set in each of them. `others`: the configs of
    other commands. Raises ConfigError."""
    known = [{item.name for item in fields(config) if item.init} for config in defaults]
    names = set[str]().union(*known)
    ignored = []
    elsewhere: dict[str, list[str]] = {}
    for key, text in values.items():
        if field_name(key) not in names:
            command = _who_takes(field_name(key), others)
            if command:
                elsewhere.setdefault(command, []).append(key)
                continue
            if key not in ROCKETMQ_KEYS:
                raise ConfigError(_unknown_key(key, names.union(*map(_taken, others.values()))))
            fault = setting_fault(key, text)
            if fault is not None:
                raise ConfigError(fault)
            if key not in FIXED_SETTINGS:
                ignored.append(key)
    configs = tuple(with_values(config, {key: text for key, text in values.items() if field_name(key) in its_names})
                    for config, its_names in zip(defaults, known, strict=True))
    return LoadedConfigs(configs, tuple(sorted(ignored)), elsewhere)


def _who_takes(name: str, others: Mapping[str, "Collection[type[DataclassInstance]]"]) -> str:
    return next((command for command, classes in others.items() if name in _taken(classes)), "")


def _taken(classes: "Collection[type[DataclassInstance]]") -> set[str]:
    return {item.name for each in classes for item in fields(each) if item.init}


def _unknown_key(key: str, names: set[str]) -> str:
    spellings = {known.lower(): known for known in {config_key(name) for name in names} | ROCKETMQ_KEYS}
    nearest = get_close_matches(key.lower().replace("_", ""), spellings, n=1, cutoff=_ALIKE)
    mend = f"did you mean {spellings[nearest[0]]}?" if nearest else "no known key resembles it"
    return f"unknown key {key}: {mend}"


def _toml_values(path: Path, text: str) -> dict[str, str]:
    """Keys in snake_case or RocketMQ's spelling, at the top or in tables of one level, which only group them."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    values: dict[str, str] = {}
    for name, value in document.items():
        entries = value if isinstance(value, dict) else {name: value}
        for key, setting in entries.items():
            values[config_key(key) if "_" in key else key] = _toml_text(key, setting)
    return values


def _toml_text(key: str, value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list():
            return ";".join(_toml_text(key, item) for item in value)
        case _:
            raise ConfigError(f"{key} has a {type(value).__name__}: write a text, a number, true or false, or a list")
