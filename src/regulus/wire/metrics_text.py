"""Pages of metrics as Prometheus reads them: text 0.0.4, and OpenMetrics 1.0.

A page is filled family by family, and written in parts. The two forms differ in the lines that begin a family, and in
the last line; samples are the same. Label values are strangers' text: they are escaped, and the number of series is
limited.

Source: prometheus/docs, content/docs/instrumenting/exposition_formats.md; OpenMetrics 1.0.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

LINES_A_PART = 2_000
"""Samples that one part of the written page has."""

_SUFFIXES = {COUNTER: ("_total", ""), GAUGE: ("",), HISTOGRAM: ("", "_bucket", "_sum", "_count")}

Number = int | float


class Histogram:
    """Counts of values by edges: `counts[i]` are those above the edge before and not above edge i; the last count is of
    those above all edges."""

    __slots__ = ("counts", "edges", "sum")

    def __init__(self, edges: Sequence[Number]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.sum: Number = 0

    def add(self, value: Number, times: int = 1) -> None:
        self.counts[bisect_left(self.edges, value)] += times
        self.sum += value * times


class Rows:
    """Series of one family that have the same labels. A value is given with those of the labels, in their order."""

    __slots__ = ("_family", "_labels", "_order", "_template")

    def __init__(self, family: "MetricFamily", common: Mapping[str, str], labels: Sequence[str]) -> None:
        names = sorted({*common, *labels})
        fixed = {name: escaped(value).replace("%", "%%") for name, value in common.items()}
        self._family = family
        self._order = [labels.index(name) for name in names if name in labels]
        self._template = ",".join(f'{name}="%s"' if name in labels else f'{name}="{fixed[name]}"' for name in names)
        self._labels = len(labels)

    def add(self, value: Number, *labels: str) -> None:
        family = self._family
        if family.has_room(1):
            text = self._text(labels)
            family.lines.append(f"{family.name}{{{text}}} {number(value)}\n" if text else
                                f"{family.name} {number(value)}\n")

    def add_histogram(self, histogram: Histogram, *labels: str) -> None:
        """A histogram counts as one series for each of its lines, and is there as a whole or not at all."""
        family, edges = self._family, histogram.edges
        if not family.has_room(len(edges) + 3):
            return
        name, text, total = family.name, self._text(labels), 0
        comma = "," if text else ""
        for edge, count in zip([*map(float, edges), "+Inf"], histogram.counts, strict=True):
            total += count
            family.lines.append(f'{name}_bucket{{{text}{comma}le="{edge}"}} {total}\n')
        family.lines.append(f"{name}_count{{{text}}} {total}\n")
        family.lines.append(f"{name}_sum{{{text}}} {number(histogram.sum)}\n")

    def _text(self, labels: tuple[str, ...]) -> str:
        if len(labels) != self._labels:
            raise ValueError(f"{self._family.name} takes {self._labels} label values, not {len(labels)}")
        return self._template % tuple([escaped(labels[index]) for index in self._order])


class MetricFamily:
    """`name` is that of the samples: counters end with `_total`. `left_out` counts series beyond the page's limit."""

    __slots__ = ("_common", "_page", "help", "kind", "left_out", "lines", "name")

    def __init__(self, page: "MetricsPage", name: str, kind: str, text: str, common: Mapping[str, str]) -> None:
        self.name = name
        self.kind = kind
        self.help = text
        self.lines: list[str] = []
        self.left_out = 0
        self._page = page
        self._common = common

    def rows(self, *labels: str) -> Rows:
        """Rows for series with these labels and the common ones."""
        return Rows(self, self._common, labels)

    def add(self, value: Number) -> None:
        """The only series, of a family without labels of its own."""
        self.rows().add(value)

    def has_room(self, lines: int) -> bool:
        """Takes room for this many lines; without room, they are counted as left out."""
        if self._page.series + lines > self._page.series_max:
            self.left_out += lines
            return False
        self._page.series += lines
        return True

    def head(self, is_openmetrics: bool) -> str:
        name = self.name.removesuffix("_total") if is_openmetrics and self.kind == COUNTER else self.name
        text = self.help.replace("\\", "\\\\").replace("\n", "\\n")
        if is_openmetrics:
            text = text.replace('"', '\\"')
        return f"# HELP {name} {text}\n# TYPE {name} {self.kind}\n"


class MetricsPage:
    """One page. `wanted`: names of the families or samples to show; empty for all."""

    def __init__(self, series_max: int, wanted: Collection[str] = ()) -> None:
        self.series = 0
        self.series_max = series_max
        self.families: dict[str, MetricFamily] = {}
        self._wanted = frozenset(wanted)

    @property
    def is_full(self) -> bool:
        return self.series >= self.series_max

    def open_end(self, series: int) -> None:
        """Make room for at least this many more series, which tell what was left out."""
        self.series_max = max(self.series_max, self.series + series)

    @property
    def left_out(self) -> dict[str, int]:
        return {family.name: family.left_out for family in self.families.values() if family.left_out}

    def wants(self, name: str, kind: str) -> bool:
        """Whether the family is to be shown."""
        if not self._wanted:
            return True
        base = name.removesuffix("_total") if kind == COUNTER else name
        return any(base + suffix in self._wanted for suffix in _SUFFIXES[kind])

    def family(self, name: str, kind: str, text: str, common: Mapping[str, str]) -> MetricFamily:
        """A new family, or the one of this name. One that is not wanted takes series and is not written."""
        family = self.families.get(name)
        if family is not None:
            return family
        if self.wants(name, kind):
            family = self.families[name] = MetricFamily(self, name, kind, text, common)
            return family
        return MetricFamily(_NOBODY, name, kind, text, common)

    def parts(self, *, is_openmetrics: bool) -> Iterator[bytes]:
        """The page in parts. A family without series is not shown."""
        for family in self.families.values():
            lines = family.lines
            if not lines:
                continue
            yield family.head(is_openmetrics).encode()
            for start in range(0, len(lines), LINES_A_PART):
                yield "".join(lines[start:start + LINES_A_PART]).encode()
        if is_openmetrics:
            yield b"# EOF\n"


_NOBODY = MetricsPage(0)


def escaped(value: str) -> str:
    """A label's value between its quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def number(value: Number) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)
