"""The entry point of the command line: it makes Ctrl-C harmless before the imports, which take a while."""

from __future__ import annotations

from regulus.cli.interrupts import end_at_an_interrupt

TYPE_CHECKING = False       # type checkers know this name; importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    end_at_an_interrupt()
    from regulus.cli.main import main as run_command_line

    run_command_line()
