"""The demo's verdict by the ledger: each commit has exactly one effect, or waits for a human who knows of it."""

from pathlib import Path

from regulus.cli.demo.databases import airports, departure_board
from regulus.reliability.ledger import Audit, audit

_EVER = 1 << 62


def audited(directory: Path) -> Audit:
    with airports(directory).begin() as business, departure_board(directory).begin() as effects:
        return audit(business, 0, _EVER, effects)


def sentence(found: Audit) -> str:
    return (f"{found.committed} committed = {found.applied + found.parked.count} applied or parked, "
            f"{found.lost.count} lost, {found.doubled.count} doubled")


def is_whole(found: Audit, flights: int) -> bool:
    return found.is_kept and flights == found.committed == found.applied + found.parked.count
