"""A page under way, with the labels that a broker's families have in common."""

from regulus.broker.config import BrokerConfig
from regulus.broker.metrics.names import common_labels, rocketmq_labels
from regulus.wire.metrics_text import COUNTER, GAUGE, MetricFamily, MetricsPage


class Sheet:
    """`more`: labels that the configuration adds to every series."""

    def __init__(self, page: MetricsPage, config: BrokerConfig, more: dict[str, str]) -> None:
        self.page = page
        self._own = common_labels(config, more)
        self._rocketmq = rocketmq_labels(config, more)

    def gauge(self, name: str, text: str) -> MetricFamily:
        return self.rocketmq(name, GAUGE, text)

    def counter(self, name: str, text: str) -> MetricFamily:
        return self.rocketmq(name, COUNTER, text)

    def rocketmq(self, name: str, kind: str, text: str) -> MetricFamily:
        """A family that RocketMQ has as well."""
        return self.page.family(name, kind, text, self._rocketmq)

    def own(self, name: str, kind: str, text: str) -> MetricFamily:
        """A family of Regulus alone."""
        return self.page.family(f"regulus_{name}", kind, text, self._own)
