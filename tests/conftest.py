"""Fixtures of all tests, and a header that says which build is tested.

The package brings the fixtures as a pytest plugin; naming them serves an uninstalled checkout.
"""

import regulus.record.message_record
from regulus.testing.fixtures import broker_process, make_broker_process, regulus_server

__all__ = ["broker_process", "make_broker_process", "pytest_report_header", "regulus_server"]


def pytest_report_header() -> str:
    path = regulus.record.message_record.__file__ or ""
    return f"regulus: {'interpreted' if path.endswith('.py') else 'compiled'} ({path.partition('/regulus/record')[0]})"
