"""Fixtures of all tests, and a header that says which build is tested.

The package brings the fixtures as a pytest plugin; naming them serves an uninstalled checkout.
"""

from collections.abc import Iterator

import pytest

import regulus.record.message_record
from regulus.testing.fixtures import broker_process, make_broker_process, regulus_server

__all__ = ["broker_process", "make_broker_process", "pytest_collection_modifyitems", "pytest_report_header",
           "regulus_server"]
SESSION_GROUP = "session"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """For workers side by side: a file's tests stay together, and so do those of the one Spark session, which go first.
    A second session costs what the first has cost: half a minute until Java has seen it all once."""
    def group(item: pytest.Item) -> str:
        return SESSION_GROUP if "spark" in getattr(item, "fixturenames", ()) else item.path.stem

    items.sort(key=lambda item: group(item) != SESSION_GROUP)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
    yield


def pytest_report_header() -> str:
    path = regulus.record.message_record.__file__ or ""
    return f"regulus: {'interpreted' if path.endswith('.py') else 'compiled'} ({path.partition('/regulus/record')[0]})"
