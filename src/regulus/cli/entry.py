"""Where the command line begins: Ctrl-C is made harmless before all else is imported, which takes a while."""

from __future__ import annotations

from regulus.cli.interrupts import end_at_an_interrupt

TYPE_CHECKING = False       # as type checkers take it; to import `typing` takes longer than all else here
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    end_at_an_interrupt()
    from regulus.cli.main import main as run_command_line

    run_command_line()
