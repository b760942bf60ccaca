"""Charts are well-formed drawings whose lines and bars lie where the values say."""

import re
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, fromstring, tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.pipeline.report.charts import (
    HEIGHT,
    WIDTH,
    Bar,
    Line,
    Mark,
    bar_chart,
    clock,
    decades,
    line_chart,
    merged,
    nice_ticks,
    time_ticks,
)


def drawn(svg: Element) -> Element:
    """As a browser reads it: written out and parsed again."""
    return fromstring(re.sub(' xmlns="[^"]*"', "", tostring(svg, encoding="unicode")))


def chart(*lines: Line, **changes: object) -> Element:
    return drawn(line_chart("a chart", lines, **{  # type: ignore[arg-type]
        "x_words": str, "y_words": str, "x_ticks": (0, 10), **changes}))


def test_a_line_runs_from_corner_to_corner() -> None:
    svg = chart(Line("up", "sent", [(0, 0), (10, 100)]))
    path = svg.find(".//path[@class='line sent']")
    assert path is not None
    (x0, y0), (x1, y1) = ([float(part) for part in place.split(",")] for place in path.attrib["d"][1:].split("L"))
    assert x0 < x1 <= WIDTH
    assert HEIGHT > y0 > y1 > 0
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"] == svg.findtext("title") == "a chart"


def test_each_value_can_be_read_by_pointing() -> None:
    svg = chart(Line("a", "sent", [(0, 1), (5, 2)]), Line("b", "dead", [(5, 3)]))
    assert [title.text for title in svg.iterfind(".//rect[@class='pointer']/title")] == ["0: a 1", "5: a 2, b 3"]


def test_words_of_marks_that_are_close_stand_in_rows() -> None:
    marks = [Mark(50, 51, "broker killed"), Mark(5, 6, "relay killed"), Mark(49, 50, "consumer killed"),
             Mark(51, 52, "broker back")]
    svg = chart(Line("a", "sent", [(0, 1), (100, 2)]), marks=marks)
    heights = {each.text: float(each.get("y", "")) for each in svg.iter("text")}
    first = heights["relay killed"]
    assert heights["consumer killed"] == first
    assert first < heights["broker killed"] < heights["broker back"]


def test_a_mark_has_its_words() -> None:
    svg = chart(Line("a", "sent", [(0, 1), (10, 2)]), marks=[Mark(4, 6, "killed <here>")])
    assert svg.findtext(".//rect[@class='mark']/title") == "killed <here>"


def test_a_logarithmic_axis_shows_decades_and_nothing_falls_below_it() -> None:
    svg = chart(Line("a", "sent", [(0, 0), (10, 5000)]), logarithmic=True)
    path = svg.find(".//path[@class='line sent']")
    assert path is not None
    bottom = float(path.attrib["d"][1:].split("L")[0].split(",")[1])
    assert bottom < HEIGHT
    assert {"1.0", "10.0", "100.0", "1000.0", "10000.0"} <= {text.text for text in svg.iterfind(".//text")}


def test_bars_are_as_long_as_their_shares_and_small_ones_are_still_seen() -> None:
    svg = drawn(bar_chart("bars", [Bar("UA", [("applied", "applied", 999_999), ("dead", "dead", 1)]),
                                   Bar("AA", [("applied", "applied", 500_000)])], str))
    widths = [float(bar.attrib["width"]) for bar in svg.iterfind(".//rect")]
    assert widths[0] == pytest.approx(WIDTH, abs=4)
    assert widths[1] >= 1
    assert widths[2] == pytest.approx(WIDTH / 2, abs=4)
    assert svg.findtext(".//rect/title") == "UA: 999999 applied"


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_ticks_are_round_and_reach_the_top(top: float) -> None:
    ticks = nice_ticks(top)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 7
    assert ticks[-1] >= top * 0.999


def test_decades_begin_at_one() -> None:
    assert decades(0) == [1, 10]
    assert decades(999) == [1, 10, 100, 1000]


@given(st.integers(0, 2_000_000_000), st.integers(1, 400_000_000))
def test_time_ticks_lie_between_and_are_few(first: int, span: int) -> None:
    ticks = time_ticks(first, first + span)
    assert 1 <= len(ticks) <= 10
    assert all(first <= tick <= first + span for tick in ticks)


def test_the_clock_tells_what_the_span_needs() -> None:
    at = datetime(2026, 1, 31, 8, 5, 9, tzinfo=UTC).timestamp()
    assert [clock(span)(at) for span in (60, 3600, 1e6)] == ["08:05:09", "08:05", "31 Jan"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=1000))
def test_merging_keeps_order_and_bounds(values: list[float]) -> None:
    points = merged([(float(at), value) for at, value in enumerate(values)], 50)
    assert len(points) <= 50
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert min(values) * 0.999 <= min(y for _, y in points)
    assert max(y for _, y in points) <= max(values) * 1.001 + 1e-9
