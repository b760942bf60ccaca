"""The values that options take: numbers, paths, durations."""

import os
from math import isfinite
from pathlib import Path
from typing import Any

import click

from regulus.errors import ConfigError
from regulus.model.delay_level import parse_ladder
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.model.local_path import address_fault

CORES_MAX = 1024
COUNT = click.IntRange(1, INT_MAX)
LIMIT = click.IntRange(0, INT_MAX)
"""A number of rows or tries, which Spark and RocketMQ keep in 32 bits."""
OFFSET = click.IntRange(0, LONG_MAX)
"""An offset in a queue, which RocketMQ keeps in 64 bits."""
PORT = click.IntRange(0, 65535)


def names(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    """A callback for an option with several values, separated by commas."""
    return tuple(name for name in map(str.strip, (text or "").split(",")) if name)


class LocalPath(click.Path):
    """A path on this machine. An address is refused, because it would be taken for a folder of that name."""

    def __init__(self, *, path_type: type[Any] | None = Path, **attributes: Any) -> None:
        super().__init__(path_type=path_type, **attributes)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if fault := address_fault(os.fsdecode(value)):
            self.fail(fault, param, ctx)
        return super().convert(value, param, ctx)


class Duration(click.ParamType[int]):
    """A duration in ms: 500ms is 500."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            (duration_ms,) = parse_ladder(str(value))
        except (ConfigError, ValueError):
            self.fail(f"{value!r} is not a duration: write 500ms, 90s, 5m, 36h or 3d", param, ctx)
        return duration_ms


class Finite(click.FloatRange):
    """A number in a range; `nan` and `inf` are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number
