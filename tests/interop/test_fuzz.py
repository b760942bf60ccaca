"""A minute of the fuzzer at the compiled parsers finds nothing; and it would, as faults that are planted show."""

from pathlib import Path

import pytest
from tests.fuzz import doors
from tests.fuzz.build import BUILD, Build, build, changed_project
from tests.fuzz.run import COVERAGE_MIN, again, fuzz

SECONDS = 60
PLANTED_SECONDS = 60        # it is found in the first ones
NEW_UNITS_MIN = 50

# A record of a batch that ends behind the batch is read on; the C code that reads numbers knows no bounds.
UNBOUNDED = {"src/regulus/wire/message_batch.py": ("if size < _SIZE_MIN or end > len(data):", "if size < _SIZE_MIN:")}
PLANTED_MODULES = ("regulus.wire.message_batch", "regulus.wire.row_digest", "regulus.model.message_properties")
# One that says it has two bytes of body more than are there: what is read lies one byte behind the object.
ONE_BYTE_BEHIND = doors.input_for(doors.batch, (24).to_bytes(4, "big") + bytes(12) + (2).to_bytes(4, "big") + bytes(2))
REFUSAL = 'raise HeaderError(f"batch is cut short at {start}")'
PLANTED_FAULTS = {
    "an error that is not documented": ('raise IndexError("planted")', "IndexError: planted"),
    "an error that cannot be raised": ("type('Planted', (), {'__del__': lambda self: 1 // 0})()", "ZeroDivisionError"),
    "an input that takes too long": ("while True: pass", "libFuzzer: timeout"),
    "an input that takes too much memory": ("bytes(1 << 30)", "libFuzzer: out-of-memory"),
}


@pytest.fixture(scope="module")
def sanitized() -> Build:
    return build()


@pytest.fixture(scope="module")
def planted() -> Build:
    project = changed_project(BUILD / "planted", UNBOUNDED)
    return build(project, project / "sanitized", PLANTED_MODULES)


def test_no_input_of_a_minute_is_a_finding_and_the_fuzzer_sees_where_it_goes(sanitized: Build) -> None:
    outcome = fuzz(sanitized, SECONDS)
    assert not outcome.fault, outcome.fault + outcome.log[-6000:]
    assert outcome.coverage > outcome.coverage_of_seeds > COVERAGE_MIN
    assert outcome.new_units > NEW_UNITS_MIN


def test_one_byte_that_is_read_behind_an_object_is_seen(planted: Build, sanitized: Build, tmp_path: Path) -> None:
    past = tmp_path / "past"
    past.write_bytes(ONE_BYTE_BEHIND)
    status, log = again(planted, past)
    assert status != 0
    assert "AddressSanitizer: heap-buffer-overflow" in log
    assert "message_batch" in log
    assert again(sanitized, past)[0] == 0


def test_an_overread_that_is_planted_is_found_and_saved_and_comes_again(
        planted: Build, sanitized: Build, tmp_path: Path) -> None:
    outcome = fuzz(planted, PLANTED_SECONDS, findings=tmp_path)
    (finding,) = outcome.findings
    assert str(finding) in outcome.fault
    status, log = again(planted, finding)
    assert status != 0
    assert "AddressSanitizer" in log
    assert again(sanitized, finding)[0] == 0


@pytest.mark.parametrize("fault", PLANTED_FAULTS)
def test_each_kind_of_finding_is_one(fault: str, tmp_path: Path) -> None:
    """Planted where a batch is refused that is cut short; interpreted, because the process is what is tried."""
    deed, told = PLANTED_FAULTS[fault]
    copy = changed_project(tmp_path / "project", {"src/regulus/wire/message_batch.py": (REFUSAL, deed)})
    short = tmp_path / "short"
    short.write_bytes(doors.input_for(doors.batch, b"short"))
    status, log = again(Build(copy / "src"), short)
    assert status != 0
    assert told in log
