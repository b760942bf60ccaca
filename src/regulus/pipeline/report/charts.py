"""Charts as SVG elements: lines over time or over a scale, and stacked bars. No network, no script, no fonts.

Colours come from the page's style sheet by class (`sent`, `applied`, `dead`, ...), so that one drawing serves light
and dark. A drawing is 440 units wide, so that its letters stay readable on a phone. Each value that can be pointed at
has a `title`, which browsers show and screen readers read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement

WIDTH = 440
HEIGHT = 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 26, 34
_ROW = 34
_WORDS_ROW, _LETTER = 14, 6
"""Of the words above marks: from row to row, and about the width of a letter."""
_POINTS_MAX = 240
"""More points than these lie on the same pixel of a phone."""

Words = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Line:
    """`points`: (x, y), x rising."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of the x axis that something happened in."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """`parts`: (name, colour, value), drawn one behind the other. `note` stands behind the bar's end."""

    label: str
    parts: Sequence[tuple[str, str, float]]
    note: str = ""


def line_chart(title: str, lines: Sequence[Line], *, x_words: Words, y_words: Words, x_ticks: Sequence[float],
               logarithmic: bool = False, marks: Sequence[Mark] = (), filled: bool = False,
               height: int = HEIGHT) -> Element:
    """Lines over one x axis. A logarithmic y axis shows what is below 1 at 1."""
    svg = _drawing(title, height)
    values = [y for line in lines for _, y in line.points]
    xs = [x for line in lines for x, _ in line.points]
    y_ticks = decades(max(values)) if logarithmic else nice_ticks(max(values, default=0))
    x_first, x_last = min(xs), max(max(xs), min(xs) + 1e-9)
    y_top = y_ticks[-1]

    def x_at(x: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (x - x_first) / (x_last - x_first)

    def y_at(y: float) -> float:
        share = math.log10(max(y, 1)) / math.log10(y_top) if logarithmic else y / y_top
        return height - _BOTTOM - (height - _BOTTOM - _TOP) * share

    row_ends: list[float] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        _mark(svg, mark, x_at(max(mark.start, x_first)), x_at(min(mark.end, x_last)), height, row_ends)
    for tick in y_ticks:
        _tag(svg, "line", "grid", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y_at(tick), y2=y_at(tick))
        _text(svg, y_words(tick), _LEFT - 6, y_at(tick) + 4, "tick end")
    for tick in x_ticks:
        anchor = "start" if x_at(tick) < _LEFT + 12 else "end" if x_at(tick) > WIDTH - _RIGHT - 12 else "middle"
        _text(svg, x_words(tick), x_at(tick), height - _BOTTOM + 18, f"tick {anchor}")
    for line in lines:
        places = [(x_at(x), y_at(y)) for x, y in line.points]
        path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
        if filled:
            last, first = places[-1][0], places[0][0]
            _tag(svg, "path", f"area {line.colour}", d=f"{path}L{last:.1f},{y_at(0)}L{first:.1f},{y_at(0)}Z")
        _tag(svg, "path", f"line {line.colour}", d=path)
    _pointers(svg, lines, x_at, (x_words, y_words), height)
    return svg


def bar_chart(title: str, bars: Sequence[Bar], words: Words) -> Element:
    """Bars below each other on one scale, each with its label above it."""
    svg = _drawing(title, _ROW * len(bars) + 8)
    longest = max((sum(value for _, _, value in bar.parts) for bar in bars), default=0) or 1
    for number, bar in enumerate(bars):
        top = number * _ROW
        _text(svg, bar.label, 0, top + 13, "label start")
        _text(svg, bar.note or words(sum(value for _, _, value in bar.parts)), WIDTH, top + 13, "value end")
        left = 0.0
        for name, colour, value in bar.parts:
            # A share that is there is never thinner than a hair that can be seen.
            width = max(WIDTH * value / longest, 2.0) if value else 0.0
            width = min(width, WIDTH - left)
            if width:
                part = _tag(svg, "rect", f"bar {colour}", x=left, y=top + 18, width=max(width - 1, 1), height=9, rx=2)
                SubElement(part, "title").text = f"{bar.label}: {words(value)} {name}"
            left += width
    return svg


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """From 0 in even steps of 1, 2 or 5 times a power of ten to `top` or just beyond it."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def decades(top: float) -> list[float]:
    """1, 10, 100 ... to `top` or just beyond it; at least up to 10."""
    return [10.0**power for power in range(max(1, math.ceil(math.log10(max(top, 10)))) + 1)]


def time_ticks(first: float, last: float, count: int = 4) -> list[float]:
    """Seconds since 1970 that are round on a clock, between two moments."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
    wanted = max(last - first, 1) / count
    days = math.ceil(wanted / 86400) * 86400
    step = next((size for size in steps if size >= wanted), days)
    start = math.ceil(first / step) * step
    return [float(at) for at in range(int(start), int(last) + 1, int(step))] or [first]


def clock(span_s: float) -> Words:
    """How to write a moment (UTC) on an axis of that many seconds."""
    pattern = "%H:%M:%S" if span_s < 600 else "%H:%M" if span_s < 2 * 86400 else "%d %b"
    return lambda at: datetime.fromtimestamp(at, UTC).strftime(pattern)


def merged(points: Sequence[tuple[float, float]], count_max: int = _POINTS_MAX) -> list[tuple[float, float]]:
    """Neighbours put together by their mean, so that at most `count_max` points are left."""
    size = math.ceil(len(points) / count_max) if points else 1
    groups = [points[at:at + size] for at in range(0, len(points), size)]
    return [(group[0][0], sum(y for _, y in group) / len(group)) for group in groups]


def _drawing(title: str, height: int) -> Element:
    svg = Element("svg", {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": title,
                          "xmlns": "http://www.w3.org/2000/svg"})
    SubElement(svg, "title").text = title
    return svg


def _mark(svg: Element, mark: Mark, left: float, right: float, height: int, row_ends: list[float]) -> None:
    """Its words stand in the first row where they have room; `row_ends`: where those of earlier marks end."""
    band = _tag(svg, "rect", "mark", x=left, y=_TOP, width=max(right - left, 2), height=height - _BOTTOM - _TOP)
    SubElement(band, "title").text = mark.text
    side = "end" if left > WIDTH * 0.6 else "start"
    size = len(mark.text) * _LETTER
    begin = right - size if side == "end" else left
    row = next((row for row, end in enumerate(row_ends) if end < begin), len(row_ends))
    row_ends[row:row + 1] = [begin + size]
    _text(svg, mark.text, right if side == "end" else left, _TOP - 8 + row * _WORDS_ROW, f"tick {side}")


def _pointers(svg: Element, lines: Sequence[Line], x_at: Callable[[float], float], words: tuple[Words, Words],
              height: int) -> None:
    """Unseen columns that tell all lines' values where the pointer is."""
    x_words, y_words = words
    by_x: dict[float, list[str]] = {}
    for line in lines:
        for x, y in line.points:
            by_x.setdefault(x, []).append(f"{line.name} {y_words(y)}")
    places = sorted(by_x)
    for number, x in enumerate(places):
        left = (x_at(places[number - 1]) + x_at(x)) / 2 if number else x_at(x)
        right = (x_at(places[number + 1]) + x_at(x)) / 2 if number + 1 < len(places) else x_at(x)
        column = _tag(svg, "rect", "pointer", x=left, y=_TOP, width=max(right - left, 1),
                      height=height - _BOTTOM - _TOP)
        SubElement(column, "title").text = f"{x_words(x)}: {', '.join(by_x[x])}"


def _tag(svg: Element, name: str, classes: str, **places: float | str) -> Element:
    return SubElement(svg, name, {"class": classes, **{
        key: value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0") for key, value in places.items()}})


def _text(svg: Element, text: str, x: float, y: float, classes: str) -> None:
    _tag(svg, "text", classes, x=x, y=y).text = text
