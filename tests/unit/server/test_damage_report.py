from regulus.server import damage_report
from regulus.server.damage_report import REPORT_INTERVAL_MS, DamageReport


def test_each_damage_is_told_at_once_and_then_once_an_interval() -> None:
    now = [5]
    report = DamageReport(lambda: now[0])
    assert [report.is_due("a"), report.is_due("b"), report.is_due("a")] == [True, True, False]
    now[0] += REPORT_INTERVAL_MS - 1
    assert not report.is_due("a")
    now[0] += 1
    assert [report.is_due("a"), report.is_due("a")] == [True, False]


def test_no_more_is_remembered_than_the_limit(monkeypatch) -> None:
    monkeypatch.setattr(damage_report, "SENTENCES_MAX", 2)
    report = DamageReport(lambda: 0)
    assert [report.is_due(text) for text in "aabac"] == [True, False, True, False, True]
    assert report.is_due("a")
