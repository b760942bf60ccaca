"""The claims of a real Redis, of this machine or of Debian: the tests that a machine without one leaves out."""

import os
from inspect import signature

import pytest
from tests.unit.reliability import test_claims as claims_tests
from tests.unit.reliability import test_decision_table as decision_tests
from tests.unit.reliability import test_kills as kill_tests
from tests.unit.reliability import test_windows as window_tests
from tests.unit.reliability.conftest import claims_address, engine, own, postgresql_address, setting
from tests.unit.reliability.test_claims import claims, server
from tests.unit.reliability.test_decision_table import gate
from toolchain import redis_server

__all__ = ["claims", "claims_address", "engine", "gate", "own", "postgresql_address", "server", "setting"]

globals().update({name: test for module in (claims_tests, decision_tests) for name, test in vars(module).items()
                  if name.startswith("test_")})
# Of the others, those that use claims.
globals().update({name: test for module in (kill_tests, window_tests) for name, test in vars(module).items()
                  if name.startswith("test_") and "claims_address" in signature(test).parameters})


@pytest.fixture(autouse=True)
def redis_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, environment = redis_server()
    monkeypatch.setenv("PATH", f"{programs / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", environment.get("LD_LIBRARY_PATH", ""))
