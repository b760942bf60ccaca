"""Settings of the page of metrics, the same for a broker, a name server and a proxy. Names are RocketMQ's keys in
snake_case.

Source: BrokerConfig, ProxyConfig, MetricsExporterType, release 5.5.1.
"""

from dataclasses import dataclass

from regulus.errors import ConfigError

_EXPORTER_TYPES = ("DISABLE", "PROM")
OWN_LABELS = ("cluster", "node_type", "node_id", "aggregation", "le")
"""Labels of every series, and that of buckets, which `metricsLabel` cannot replace."""

_CONNECTIONS_MAX = 256
_SERIES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Raises ConfigError for a value that makes no sense."""

    # The page
    metrics_exporter_type: str = "DISABLE"
    """`DISABLE`: no port is opened. `PROM`: numbers for Prometheus at `/metrics`, and the probes `/healthz` and
    `/readyz`. RocketMQ's `OTLP_GRPC` and `LOG` are refused: a collector of OpenTelemetry reads the page as well."""
    metrics_prom_exporter_port: int = 5557
    """[port] Port of the page. 0 takes any free one."""
    metrics_prom_exporter_host: str = ""
    """Address of the page. Empty: `brokerIP1` of a broker that has one, else the address at which the server listens.
    Nothing guards the page: everybody who reaches it reads the names of all topics and groups."""
    metrics_label: str = ""
    """`key:value,key:value`: labels for every series, such as the room or the stage."""
    metrics_otel_cardinality_limit: int = 50_000
    """[series] Most on the page. What is beyond it is left out, and `regulus_metrics_left_out_series` counts it.
    RocketMQ has this limit for each metric by itself."""
    metrics_exporter_names_enable: bool = False
    """Whether a broker's page also has the names of apache/rocketmq-exporter, for dashboards that know those."""

    # Its limits
    metrics_connections_max: int = 32
    """[connections] Most at the page at once; the next one is closed at once."""
    metrics_request_timeout_millis: int = 10_000
    """[ms] A connection that brings no whole request, or does not read its answer, for so long is closed."""

    def __post_init__(self) -> None:
        if self.metrics_exporter_type not in _EXPORTER_TYPES:
            raise ConfigError(f"metricsExporterType is {self.metrics_exporter_type}: write DISABLE or PROM, whose page "
                              "a collector of OpenTelemetry reads as well")
        for key, number, low, high in (
                ("metricsPromExporterPort", self.metrics_prom_exporter_port, 0, 65_535),
                ("metricsOtelCardinalityLimit", self.metrics_otel_cardinality_limit, 1, _SERIES_MAX),
                ("metricsConnectionsMax", self.metrics_connections_max, 1, _CONNECTIONS_MAX),
                ("metricsRequestTimeoutMillis", self.metrics_request_timeout_millis, 1, 600_000)):
            if not low <= number <= high:
                raise ConfigError(f"{key} is {number}: write a number from {low} to {high}")
        for pair in filter(None, self.metrics_label.split(",")):
            name, _, value = pair.partition(":")
            if not is_label_name(name) or not value or ":" in value:
                raise ConfigError(f"metricsLabel has {pair!r}: write key:value, the key in letters, digits and _, the "
                                  "value without colon and comma")
            if name in OWN_LABELS:
                raise ConfigError(f"metricsLabel has {name!r}, which the page has already")

    @property
    def is_served(self) -> bool:
        return self.metrics_exporter_type == "PROM"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of `metrics_label`."""
        return dict(pair.split(":", 1) for pair in self.metrics_label.split(",") if pair)


def is_label_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not name.startswith("__")
