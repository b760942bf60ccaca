"""The list of points, and the page that says which window each shows."""

import re
from pathlib import Path

import pytest

from regulus.errors import ConfigError
from regulus.testing.crash_points import POINTS, Moment, Step, named, of_steps, of_window
from tests.unit.test_delivery_page import named as named_in
from tests.unit.test_delivery_page import names_in

PAGE = Path(__file__).parents[4] / "docs" / "crash_points.md"
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]]
        for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| W\d", line)]


def test_each_step_has_points_and_each_point_a_name_of_its_own():
    assert {point.step for point in POINTS} == set(Step)
    assert len({str(point) for point in POINTS}) == len(POINTS)


@pytest.mark.parametrize("step", Step)
def test_moments_are_in_their_order(step):
    moments = [list(Moment).index(point.moment) for point in of_steps(step)]
    assert moments == sorted(moments)


def test_points_are_found_by_step_window_and_name():
    assert [str(point) for point in of_steps("P2")] == ["before P2", "during P2", "after P2"]
    assert [str(point) for point in of_window("W15")] == ["before KEY"]
    assert named("during C5").step is Step.C5
    with pytest.raises(ConfigError, match=r"no crash point 'during C9'; there are before P1, during P1"):
        named("during C9")


def test_the_page_has_each_window_with_its_points():
    assert [row[0] for row in ROWS] == [f"W{number}" for number in range(1, 27)]
    assert {row[0]: re.findall(r"`(\w+ \w+)`", row[2]) for row in ROWS} == {
        row[0]: [str(point) for point in of_window(row[0])] for row in ROWS}


def test_the_page_names_the_test_of_each_window_and_says_why_no_kill_shows_the_others():
    assert [row[0] for row in ROWS if not named_in(row[3])] == []
    assert [name for row in ROWS for name in named_in(row[3])
            if name.partition("::")[2] not in names_in(name.partition("::")[0])] == []
    assert [row[0] for row in ROWS if not of_window(row[0]) and not row[2].startswith("none: ")] == []


def test_the_page_tells_where_each_point_is():
    page = PAGE.read_text(encoding="utf-8")
    points = page[page.index("\n## The points\n"):page.index("\n## The failure windows\n")]
    told = dict(re.findall(r"^\| `(\w+ \w+)` \| (.+?) \|", points, re.MULTILINE))
    assert told == {str(point): point.where for point in POINTS}
