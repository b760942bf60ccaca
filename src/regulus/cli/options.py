"""Options that had another name before: the old one still works, and the help does not show it."""

from collections.abc import Callable, Sequence
from typing import Any

import click


class _Renamed(click.Option):
    def __init__(self, param_decls: Sequence[str], *, old: Sequence[str], **attributes: Any) -> None:
        super().__init__([*param_decls, *old], **attributes)
        self._old = frozenset(old)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        accepted = self.opts
        self.opts = [name for name in accepted if name not in self._old]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = accepted


def renamed(*names: str, old: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`click.option` of an option that was called `old`."""
    return click.option(*names, cls=_Renamed, old=(old,), **attributes)
