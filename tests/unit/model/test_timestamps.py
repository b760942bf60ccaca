from datetime import UTC, datetime, timedelta, timezone

import pytest

from regulus.model.timestamps import DATED_MAX_MS, dated


@pytest.mark.parametrize(("given", "nearest"), [
    (0, 0), (1_700_000_000_123, 1_700_000_000_123), (-1, 0), (-(2**63), 0), (DATED_MAX_MS, DATED_MAX_MS),
    (DATED_MAX_MS + 1, DATED_MAX_MS), (2**63 - 1, DATED_MAX_MS)])
def test_the_nearest_time_with_a_date(given, nearest):
    assert dated(given) == nearest


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_the_latest_one_has_a_date_in_every_zone(hours):
    assert datetime.fromtimestamp(DATED_MAX_MS / 1000, timezone(timedelta(hours=hours))).year == 9999
    assert datetime.fromtimestamp(DATED_MAX_MS / 1000, UTC) == datetime(9999, 12, 31, tzinfo=UTC)
