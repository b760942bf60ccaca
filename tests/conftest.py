"""Fixtures of all tests. The package brings them as a pytest plugin; naming them serves an uninstalled checkout."""

from regulus.testing.fixtures import broker_process, make_broker_process, regulus_server

__all__ = ["broker_process", "make_broker_process", "regulus_server"]
