"""A broker's page, as a test asks it."""

from prometheus_client.parser import text_string_to_metric_families

from regulus.broker.metrics.broker_metrics import BrokerMetrics
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.wire.metrics_text import MetricsPage
from tests.unit.broker.conftest import Rig


def page_of(rig: Rig, series_max: int = 50_000, metrics: BrokerMetrics | None = None) -> MetricsPage:
    page = MetricsPage(series_max)
    for _ in (metrics or BrokerMetrics(rig.broker, {})).fill(page, ServerFacts(), rig.tell_time()):
        pass
    return page


def values(rig: Rig, name: str, *labels: str, metrics: BrokerMetrics | None = None) -> dict[tuple[str, ...], float]:
    """The samples of that name by the values of these labels."""
    text = b"".join(page_of(rig, metrics=metrics).parts(is_openmetrics=False)).decode()
    return {tuple(sample.labels[label] for label in labels): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples if sample.name == name}
