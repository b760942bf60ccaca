"""The report page: one HTML file that needs nothing else, from the rows of the pipeline's small tables.

A section stands there when its table has rows; so the page of a pipeline without effects or groups has fewer.

Each number says whether it counts keys or copies: a key is what the application calls a message by, a copy is one
message of it in a topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element, SubElement, tostring

from regulus.pipeline.report.charts import Bar, Line, Mark, bar_chart, clock, line_chart, merged, time_ticks

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]

ROWS_MAX = 40
"""How many rows of one table are shown; the rest are counted."""

_STEPS_MAX = 100_000
_STYLE = Path(__file__).with_name("report_page.css")
_LEG_WORDS = {"born_to_stored": "born → stored", "stored_to_delivered": "stored → delivered",
              "delivered_to_applied": "delivered → applied", "stored_to_applied": "stored → applied",
              "born_to_applied": "born → applied"}
_LEG_COLOURS = {"born_to_stored": "sent", "stored_to_delivered": "copies", "delivered_to_applied": "retried",
                "stored_to_applied": "retried", "born_to_applied": "applied"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """`source` says where the messages were read; `marks` are moments (seconds since 1970) that the charts name."""

    title: str
    source: str
    made_at: datetime
    tag_word: str = "tag"
    marks: Sequence[Mark] = ()


def page(tables: Tables, heading: Heading) -> str:
    """The whole file's text."""
    html = Element("html", {"lang": "en"})
    head = SubElement(html, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "title").text = f"{heading.title}: {_verdict(tables)[0]}"
    SubElement(head, "style").text = _STYLE.read_text(encoding="utf-8")
    main = SubElement(SubElement(html, "body"), "main")
    SubElement(main, "h1").text = heading.title
    _head(main, tables)
    charts = SubElement(main, "div", {"class": "charts"})
    for section in (_throughput(tables, heading), _latency(tables), _ladder(tables), _causes(tables)):
        if section is not None:
            charts.append(section)
    for section in (_by_tag(tables, heading.tag_word), _latency_hours(tables), _lag(tables), _gaps(tables),
                    _duplicates(tables)):
        if section is not None:
            main.append(section)
    SubElement(main, "footer").text = (
        f"Read from {heading.source} by regulus pipeline; page made {heading.made_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        " UTC. Times are UTC.")
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"


def number(value: float | None) -> str:
    """With commas; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def duration(value: float | None) -> str:
    """Ms in the unit that reads best."""
    if value is None:
        return "–"
    for limit, divisor, unit in ((1000, 1, "ms"), (60_000, 1000, "s"), (3_600_000, 60_000, "min"),
                                 (float("inf"), 3_600_000, "h")):
        if abs(value) < limit:
            scaled = value / divisor
            return f"{scaled:.0f} {unit}" if divisor == 1 or scaled == int(scaled) else f"{scaled:.1f} {unit}"
    raise AssertionError


# --- on top ----------------------------------------------------------------------------------------------------------


def _verdict(tables: Tables) -> tuple[str, str, bool]:
    """The ledger in words, what else is to be said, and whether all is well."""
    totals = _first(tables, "ledger_total")
    if totals is None:
        return "no ledger was made", "The pipeline has no table ledger_total yet.", False
    waiting = f", {number(totals['waiting'])} waiting" if totals["waiting"] else ""
    dead = totals["dead_lettered"] + totals["dead_again"]
    copies = f" (in {number(dead)} copies)" if totals["dead_again"] else ""
    words = (f"{number(totals['sent'])} keys sent = {number(totals['applied'])} applied + "
             f"{number(totals['dead_lettered'])} dead-lettered{copies}{waiting}, {number(totals['lost'])} lost")
    doubts = []
    if totals["lost"]:
        doubts.append(f"{number(totals['lost'])} keys have neither an effect nor a dead letter")
    if totals["both"]:
        doubts.append(f"{number(totals['both'])} keys have an effect and a dead letter")
    missing = sum(row["missing"] for row in tables.get("queue_gaps", ()))
    if missing:
        doubts.append(f"{number(missing)} copies are missing from their queues")
    rejected = _sum(tables.get("rejected_by_reason", ()), "rejected")
    if rejected:
        reasons = "; ".join(f"{number(row['rejected'])}: {row['reason']}" for row in tables["rejected_by_reason"])
        doubts.append(f"{number(rejected)} copies were rejected ({reasons})")
    if not doubts:
        behind = _sum(tables.get("group_lag", ()), "lag")
        ended = "has ended in one place or still waits" if waiting or behind else "ended in exactly one place"
        unread = f", {number(behind)} copies are not yet consumed" if behind else ""
        return words, f"The ledger balances: each key {ended}{unread}, and no queue has a hole.", True
    return words, f"The ledger needs a look: {'; '.join(doubts)}.", False


def _head(main: Element, tables: Tables) -> None:
    words, remark, is_fine = _verdict(tables)
    box = SubElement(main, "div", {"class": "verdict" if is_fine else "verdict broken", "role": "status"})
    SubElement(box, "strong").text = f"{'✓' if is_fine else '✗'} {words}"
    SubElement(box, "span").text = remark
    totals = _first(tables, "ledger_total")
    if totals is None:
        return
    SubElement(main, "p").text = ("A key is what the application calls a message by; a copy is one message of it in a "
                                  "topic: sent again, retried, or dead.")
    figures = SubElement(main, "dl", {"class": "figures"})
    for word, name in (("keys sent", "sent"), ("keys applied", "applied"), ("keys dead-lettered", "dead_lettered"),
                       ("keys lost", "lost"), ("keys waiting", "waiting"), ("keys retried", "retried"),
                       ("more copies sent", "duplicates"), ("copies delivered again", "redelivered")):
        if name == "waiting" and not totals[name]:
            continue
        box = SubElement(figures, "div")
        SubElement(box, "dt").text = word
        SubElement(box, "dd").text = number(totals[name])


# --- charts ----------------------------------------------------------------------------------------------------------


def _throughput(tables: Tables, heading: Heading) -> Element | None:
    rows = tables.get("throughput", ())
    if not rows:
        return None
    step = rows[0]["bucket_seconds"]
    kinds: dict[str, tuple[str, dict[float, float]]] = {"sent": ("sent", {})}
    for row in rows:
        name = "copies for retries" if row["is_copy"] else "sent"
        at = kinds.setdefault(name, ("copies", {}))[1]
        at[_seconds(row["bucket_start"])] = at.get(_seconds(row["bucket_start"]), 0) + row["messages"] / step
    for row in tables.get("effects_over_time", ()):
        at = kinds.setdefault("applied", ("applied", {}))[1]
        at[_seconds(row["bucket_start"])] = row["effects"] / step
    everything = sorted({at for _, values in kinds.values() for at in values})
    first, last = everything[0], everything[-1] + step
    # Of years with an hour now and then, the empty stretches are not worth a point each.
    count = round((last - first) / step)
    places = [first + step * place for place in range(count)] if count <= _STEPS_MAX else everything
    lines = [Line(name, colour, _until(last, merged([(at, values.get(at, 0.0)) for at in places])))
             for name, (colour, values) in kinds.items()]
    section = _section("Throughput", "Copies a second by the broker's clock, and effects by the consumer's.")
    _legend(section, [(line.name, line.colour) for line in lines])
    section.append(line_chart("Throughput over time", lines, x_words=clock(last - first), y_words=_short,
                              x_ticks=time_ticks(first, places[-1]), marks=heading.marks, filled=True, height=320))
    return section


def _until(last: float, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A single step has a width too."""
    return [*points, (last, points[-1][1])] if len(points) == 1 else points


def _latency(tables: Tables) -> Element | None:
    rows = tables.get("latency_curve", ())
    if not rows:
        return None
    legs: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: row["share"]):
        legs.setdefault(row["leg"], []).append((row["share"], row["ms"]))
    lines = [Line(_LEG_WORDS[leg], _LEG_COLOURS[leg], legs[leg]) for leg in _LEG_WORDS if leg in legs]
    section = _section("Latency", "So many percent of the copies took at most so long.")
    _legend(section, [(line.name, line.colour) for line in lines])
    section.append(line_chart("Latency percentiles", lines, x_words=lambda share: f"{share:g} %", y_words=duration,
                              x_ticks=(0, 25, 50, 75, 100), logarithmic=True))
    summary = tables.get("latency_percentiles", ())
    columns = (("leg", "leg"), ("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"), ("max", "max_ms"))
    shown = [{**row, "leg": _LEG_WORDS[row["leg"]]} for leg in _LEG_WORDS for row in summary if row["leg"] == leg]
    if shown:
        section.append(_table(columns, shown))
    return section


def _ladder(tables: Tables) -> Element | None:
    """What became of copies at each delivery: they ended there, or failed and went on to the next."""
    rows, totals = tables.get("retry_ladder", ()), _first(tables, "ledger_total")
    if not rows or totals is None:
        return None
    failed = sum(row["messages"] for row in rows)
    sent = totals["sent"] + totals["duplicates"]
    rungs = [Bar("first delivery", [("did not fail", "applied", max(0, sent - failed)),
                                    ("failed and went on", "rest", failed)], number(max(sent, failed)))]
    for tries in range(max(row["tries"] for row in rows) + 1):
        here = [row for row in rows if row["tries"] == tries]
        onward = sum(row["messages"] for row in rows if row["tries"] > tries)
        parts = [("applied", "applied", _sum(here, "applied") + _sum(here, "passed")),
                 ("dead letters", "dead", _sum(here, "dead_letters")),
                 ("waiting or not known", "retried", _sum(here, "waiting") + _sum(here, "unknown")),
                 ("failed and went on", "rest", onward)]
        if tries == 0 and not here:
            continue
        label = f"retry {tries}" if tries else "no retry wanted"
        rungs.append(Bar(label, parts, f"{number(sum(value for _, _, value in parts))}"))
    section = _section("Retry ladder", f"{number(failed)} copies failed at least once: each delivery of them, and its "
                       "end.")
    _legend(section, [("applied", "applied"), ("dead letter", "dead"), ("waiting", "retried"), ("went on", "rest")])
    section.append(bar_chart("Retry ladder", rungs, number))
    return section


def _causes(tables: Tables) -> Element | None:
    rows = sorted(tables.get("dead_letters_by_cause", ()), key=lambda row: -row["dead_letters"])
    if not rows:
        return None
    bars = [Bar(f"{row['cause']} · {row['consumer_group']}", [("dead letters", "dead", row["dead_letters"])])
            for row in rows[:8]]
    section = _section("Dead letters by cause", f"{number(_sum(rows, 'dead_letters'))} copies died, by what a property "
                       "says, or else by how they came there. A key may have several.")
    section.append(bar_chart("Dead letters by cause", bars, number))
    return section


# --- tables ----------------------------------------------------------------------------------------------------------


def _by_tag(tables: Tables, tag_word: str) -> Element | None:
    rows = sorted(tables.get("ledger_by_tag", ()), key=lambda row: -row["sent"])
    if not rows:
        return None
    section = _section(f"Ledger by {tag_word}", "Numbers of keys, but for the copies that were sent beside the first "
                       "of a key.", "wide")
    columns = ((tag_word, "tags"), ("keys sent", "sent"), ("applied", "applied"), ("retried", "retried"),
               ("dead-lettered", "dead_lettered"), ("lost", "lost"), ("more copies sent", "duplicates"),
               ("p50", "latency_p50_ms"), ("p99", "latency_p99_ms"))
    shares = [Bar(str(row["tags"] or "none"), [("applied", "applied", row["applied"]),
                                                ("dead letters", "dead", row["dead_lettered"]),
                                                ("lost", "retried", row["lost"])]) for row in rows[:ROWS_MAX]]
    section.append(_table(columns, rows))
    details = SubElement(section, "details")
    SubElement(details, "summary").text = f"as bars, by {tag_word}"
    details.append(bar_chart(f"Where messages ended, by {tag_word}", shares, number))
    return section


def _latency_hours(tables: Tables) -> Element | None:
    rows = sorted((row for row in tables.get("latency_hourly", ()) if row["leg"] in ("born_to_applied",
                                                                                      "born_to_stored")),
                  key=lambda row: (row["bucket_start"], row["topic"], row["leg"]))
    if len({row["bucket_start"] for row in rows}) < 2:
        return None
    section = _section("Latency by hour", "", "wide")
    shown = [{**row, "hour": f"{row['bucket_start']:%Y-%m-%d %H:%M}", "way": _LEG_WORDS[row["leg"]]}
             for row in rows[-ROWS_MAX:]]
    section.append(_table((("hour", "hour"), ("topic", "topic"), ("", "way"), ("copies", "messages"),
                           ("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"), ("max", "max_ms")), shown))
    return section


def _lag(tables: Tables) -> Element | None:
    rows = sorted(tables.get("group_lag", ()), key=lambda row: -row["lag"])
    if not rows:
        return None
    behind = sum(row["lag"] for row in rows)
    section = _section("Groups", f"{number(behind)} copies are not yet consumed." if behind else
                       "All groups have consumed all copies that were stored.", "wide")
    section.append(_table((("group", "consumer_group"), ("topic", "topic"), ("queues", "queues"),
                           ("copies behind", "lag"),
                           ("behind in time", "lag_ms")), rows))
    return section


def _gaps(tables: Tables) -> Element | None:
    rows = tables.get("queue_gaps", ())
    if not rows:
        return None
    section = _section("Holes in queues", "A queue numbers its copies without gaps, so a hole is a loss.", "wide")
    section.append(_table((("topic", "topic"), ("broker", "broker_name"), ("queue", "queue_id"),
                           ("from", "start_offset"), ("up to", "end_offset"), ("copies missing", "missing")), rows))
    return section


def _duplicates(tables: Tables) -> Element | None:
    rows = tables.get("duplicates", ())
    if not rows:
        return None
    section = _section("Stored twice", f"{number(len(rows))} message ids have several copies in their topic, as when a "
                       "producer tries again after a timeout.", "wide")
    shown = [{**row, "where": ", ".join(row["places"])} for row in rows[:10]]
    section.append(_table((("key", "keys"), ("topic", "topic"), ("copies", "copies"), ("places", "where")), shown))
    return section


# --- pieces ----------------------------------------------------------------------------------------------------------


def _section(title: str, words: str, classes: str = "") -> Element:
    section = Element("section", {"class": classes} if classes else {})
    SubElement(section, "h2").text = title
    SubElement(section, "p").text = words
    return section


def _legend(section: Element, entries: Sequence[tuple[str, str]]) -> None:
    legend = SubElement(section, "ul", {"class": "legend"})
    for name, colour in entries:
        entry = SubElement(legend, "li")
        swatch = SubElement(entry, "i", {"class": colour})
        swatch.tail = name


def _table(columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Element:
    box = Element("div", {"class": "scroll", "tabindex": "0"})
    table = SubElement(box, "table")
    head = SubElement(SubElement(table, "thead"), "tr")
    for title, name in columns:
        SubElement(head, "th", {"scope": "col", **_words(rows, name)}).text = title
    body = SubElement(table, "tbody")
    for row in rows[:ROWS_MAX]:
        line = SubElement(body, "tr")
        for place, (_, name) in enumerate(columns):
            cell = SubElement(line, "td" if place else "th", {} if place else {"scope": "row"})
            cell.text = _cell(name, row[name])
            if place:
                cell.attrib.update(_words(rows, name))
            if name in ("lost", "missing") and row[name]:
                cell.set("class", "alarm")
    if len(rows) > ROWS_MAX:
        SubElement(box, "p").text = f"... and {number(len(rows) - ROWS_MAX)} more."
    return box


def _words(rows: Sequence[Row], name: str) -> dict[str, str]:
    return {"class": "words"} if any(isinstance(row[name], str) for row in rows) else {}


def _cell(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return duration(value)
    if isinstance(value, int | float):
        return number(value)
    return "–" if value is None else str(value)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _first(tables: Tables, name: str) -> Row | None:
    rows = tables.get(name, ())
    return rows[0] if rows else None


def _sum(rows: Sequence[Row], name: str) -> int:
    return sum(row[name] for row in rows)


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
