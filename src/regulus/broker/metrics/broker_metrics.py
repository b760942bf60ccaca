"""The page of a broker: all families, those with few series first, so that the limit of series cuts the long ones."""

from collections.abc import Iterator, Mapping

from regulus.broker.metrics import broker_families, group_families, own_families, topic_families
from regulus.broker.metrics.exporter_families import ExporterFamilies
from regulus.broker.metrics.group_families import GroupFamilies
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.broker.metrics.sheet import Sheet
from regulus.broker.metrics.topic_families import OpenHalves, TimerFamilies
from regulus.broker.state import BrokerState
from regulus.wire.metrics_text import GAUGE, MetricsPage

LEFT_OUT_ROOM = 200
"""Series beyond the limit that tell what was left out: one for each family, and two more."""


class BrokerMetrics:
    """`labels`: those that the configuration adds to every series. `has_exporter_names`: whether the names of
    rocketmq-exporter are shown as well."""

    def __init__(self, broker: BrokerState, labels: Mapping[str, str], *, has_exporter_names: bool = False) -> None:
        self._broker = broker
        self._labels = dict(labels)
        self._groups = GroupFamilies(broker)
        self._halves = OpenHalves()
        self._timers = TimerFamilies()
        self._exporter = ExporterFamilies(broker, labels) if has_exporter_names else None

    def fill(self, page: MetricsPage, facts: ServerFacts, now_ms: int) -> Iterator[None]:
        """Yields after each step. The numbers of one page are of its beginning, or a little later."""
        broker = self._broker
        sheet = Sheet(page, broker.config, self._labels)
        own_families.of_server(broker, sheet, facts)
        own_families.of_disk(broker, sheet)
        own_families.of_replicas(broker, sheet, now_ms)
        broker_families.tables(broker, sheet)
        broker_families.storage(broker, sheet, now_ms)
        yield
        yield from own_families.of_unflushed(broker, sheet, now_ms)
        topic_families.delay_levels(broker, sheet, now_ms)
        yield from broker_families.requests(broker, sheet)
        yield
        yield from self._timers.add(broker, sheet, now_ms)
        yield from topic_families.ended_transactions(broker, sheet)
        yield from self._halves.add(broker, sheet)
        yield from topic_families.sends(broker, sheet)
        yield from group_families.gets(broker, sheet)
        yield from group_families.ended(broker, sheet)
        yield from broker_families.connections(broker, sheet)
        yield from self._groups.add(sheet, now_ms)
        if self._exporter is not None:
            yield from self._exporter.add(page, now_ms)
        page.family("target_info", GAUGE, "Target metadata", {}).add(1)
        self._tell_left_out(page, sheet)

    def _tell_left_out(self, page: MetricsPage, sheet: Sheet) -> None:
        left_out = page.left_out
        page.open_end(LEFT_OUT_ROOM)
        sheet.own("metrics_series", GAUGE, "Series of this page.").add(page.series)
        sheet.own("metrics_left_out_pairs", GAUGE, "Pairs of group and topic that were not looked at, because the page "
                  "has all the series that it may have.").add(self._groups.pairs_left_out)
        rows = sheet.own("metrics_left_out_series", GAUGE,
                         "Series beyond metricsOtelCardinalityLimit, by family.").rows("family")
        for family, count in left_out.items():
            rows.add(count, family)
