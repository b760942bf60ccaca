from datetime import UTC, datetime, timedelta, timezone

import pytest

from regulus.model.timestamps import DATED_MAX_MS, dated, milliseconds_of


@pytest.mark.parametrize(("given", "nearest"), [
    (0, 0), (1_700_000_000_123, 1_700_000_000_123), (-1, 0), (-(2**63), 0), (DATED_MAX_MS, DATED_MAX_MS),
    (DATED_MAX_MS + 1, DATED_MAX_MS), (2**63 - 1, DATED_MAX_MS)])
def test_the_nearest_time_with_a_date(given, nearest):
    assert dated(given) == nearest


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_the_latest_one_has_a_date_in_every_zone(hours):
    assert datetime.fromtimestamp(DATED_MAX_MS / 1000, timezone(timedelta(hours=hours))).year == 9999
    assert datetime.fromtimestamp(DATED_MAX_MS / 1000, UTC) == datetime(9999, 12, 31, tzinfo=UTC)


def test_a_moment_lies_in_its_ms_and_not_in_the_one_before():
    """1_081_606_291_034 ms are 1081606291.0339999 s in floating point, and a ms less when they are multiplied again."""
    assert all(milliseconds_of(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)) == ms
               for ms in (0, 1_081_606_291_034, 2_187_479_279_194, *range(1_700_000_000_000, 1_700_000_001_000)))
    one = datetime(2026, 1, 1, 13, 0, 0, 1999, tzinfo=timezone(timedelta(hours=1)))
    assert milliseconds_of(one) == 1_767_268_800_001
