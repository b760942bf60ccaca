import pytest

from regulus.errors import ConfigError
from regulus.model.metrics_config import MetricsConfig


def test_no_page_is_served_unless_somebody_says_so():
    assert not MetricsConfig().is_served
    assert MetricsConfig(metrics_exporter_type="PROM").is_served


@pytest.mark.parametrize("kind", ["OTLP_GRPC", "LOG", "prom", ""])
def test_an_exporter_that_is_not_served_is_refused_with_what_is(kind):
    with pytest.raises(ConfigError, match=f"metricsExporterType is {kind}: write DISABLE or PROM"):
        MetricsConfig(metrics_exporter_type=kind)


@pytest.mark.parametrize(("field", "value"), [
    ("metrics_prom_exporter_port", -1), ("metrics_prom_exporter_port", 65_536), ("metrics_connections_max", 0),
    ("metrics_connections_max", 257), ("metrics_otel_cardinality_limit", 0), ("metrics_request_timeout_millis", 0)])
def test_numbers_have_limits(field, value):
    with pytest.raises(ConfigError, match=f"is {value}: write a number from"):
        MetricsConfig(**{field: value})


def test_labels_are_pairs():
    assert MetricsConfig(metrics_label="dc:hall-1,env:test").labels == {"dc": "hall-1", "env": "test"}
    assert MetricsConfig().labels == {}


@pytest.mark.parametrize("text", ["bad", "a:b:c", ":x", "a:", "1a:x", "a-b:x", "__a:x", "cluster:mine", "node_id:mine",
                                  "le:x"])
def test_a_label_that_cannot_be_is_refused(text):
    with pytest.raises(ConfigError, match="metricsLabel has"):
        MetricsConfig(metrics_label=f"dc:hall-1,{text}")
