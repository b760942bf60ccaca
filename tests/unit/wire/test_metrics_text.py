"""Pages of metrics, as readers of Prometheus take them."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from regulus.wire.metrics_text import COUNTER, GAUGE, HISTOGRAM, Histogram, MetricsPage

COMMON = {"cluster": 'a"b\\c\nd%s'}


def text(page: MetricsPage, *, is_openmetrics: bool = False) -> str:
    return b"".join(page.parts(is_openmetrics=is_openmetrics)).decode()


def samples(page: MetricsPage) -> list[tuple[str, dict[str, str], float]]:
    """The same from both forms."""
    plain, strict = ([(each.name, each.labels, each.value) for family in read for each in family.samples] for read in (
        text_families(text(page)), openmetrics_families(text(page, is_openmetrics=True))))
    assert plain == strict
    return plain


def test_names_of_strangers_are_escaped():
    page = MetricsPage(10)
    page.family("g", GAUGE, 'tells "x"\\ \n', COMMON).rows("topic").add(1.5, '%"\\\n')
    assert samples(page) == [("g", {"cluster": COMMON["cluster"], "topic": '%"\\\n'}, 1.5)]


def test_labels_are_sorted_whatever_the_order_in_which_they_are_given():
    page = MetricsPage(10)
    page.family("g", GAUGE, "", {"m": "1"}).rows("z", "a").add(0, "of z", "of a")
    assert 'g{a="of a",m="1",z="of z"} 0\n' in text(page)


def test_a_counter_has_its_suffix_once():
    page = MetricsPage(10)
    page.family("c_total", COUNTER, "", {}).add(3)
    assert "# TYPE c_total counter\nc_total 3\n" in text(page)
    assert "# TYPE c counter\nc_total 3\n# EOF\n" in text(page, is_openmetrics=True)


def test_a_histogram_is_cumulative_and_ends_with_everything():
    histogram = Histogram((1, 10))
    for value, times in ((1, 2), (1.5, 1), (10, 1), (11, 4)):
        histogram.add(value, times)
    page = MetricsPage(10)
    page.family("h", HISTOGRAM, "", {}).rows("x").add_histogram(histogram, "y")
    assert samples(page) == [
        ("h_bucket", {"x": "y", "le": "1.0"}, 2), ("h_bucket", {"x": "y", "le": "10.0"}, 4),
        ("h_bucket", {"x": "y", "le": "+Inf"}, 8), ("h_count", {"x": "y"}, 8), ("h_sum", {"x": "y"}, 57.5)]


def test_a_family_without_series_is_not_shown():
    page = MetricsPage(10)
    page.family("g", GAUGE, "", {}).rows("x")
    assert text(page) == ""


def test_what_is_beyond_the_limit_is_counted_and_a_histogram_is_there_as_a_whole_or_not_at_all():
    page = MetricsPage(4)
    gauge = page.family("g", GAUGE, "", {}).rows("x")
    gauge.add(1, "a")
    page.family("h", HISTOGRAM, "", {}).rows().add_histogram(Histogram((1,)))
    for name in "bcde":
        gauge.add(1, name)
    assert page.left_out == {"h": 4, "g": 1}
    assert page.is_full
    assert len(samples(page)) == page.series == 4


def test_there_is_room_to_tell_what_was_left_out():
    page = MetricsPage(1)
    rows = page.family("g", GAUGE, "", {}).rows("x")
    rows.add(1, "a")
    rows.add(1, "b")
    page.open_end(1)
    page.family("left_out", GAUGE, "", {}).add(page.left_out["g"])
    assert [name for name, _, _ in samples(page)] == ["g", "left_out"]


@pytest.mark.parametrize(("wanted", "shown"), [
    (["c_total"], ["c_total"]), (["c"], ["c_total"]), (["h_sum"], ["h"]), (["h", "g"], ["h", "g"]), (["x"], [])])
def test_a_reader_may_name_what_it_wants(wanted, shown):
    page = MetricsPage(10, wanted)
    page.family("c_total", COUNTER, "", {}).add(1)
    page.family("h", HISTOGRAM, "", {}).rows().add_histogram(Histogram((1,)))
    page.family("g", GAUGE, "", {}).add(1)
    assert list(page.families) == shown


def test_values_must_be_as_many_as_labels():
    with pytest.raises(ValueError, match="takes 1 label values"):
        MetricsPage(9).family("g", GAUGE, "", {}).rows("x").add(1, "a", "b")


def test_room_for_what_was_left_out_takes_none_from_others():
    page = MetricsPage(10)
    page.open_end(1)
    rows = page.family("g", GAUGE, "", {}).rows("x")
    for name in "abcde":
        rows.add(1, name)
    assert len(samples(page)) == 5
