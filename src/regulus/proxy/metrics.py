"""What a proxy counts, as families of metrics. RocketMQ's proxy has one, `rocketmq_proxy_up`."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regulus.wire.metrics_text import GAUGE, MetricsPage

CLUSTER_MODE, LOCAL_MODE = "cluster", "local"
SCOPE = "broker-meter"
CLUSTER = "DefaultCluster"
"""RocketMQ's proxyClusterName, which is not a setting here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyNumbers:
    clients: int
    renewals: int
    calls: int
    receives: int
    streams: int


def proxy_families(page: MetricsPage, labels: Mapping[str, str], mode: str, numbers: ProxyNumbers) -> Iterator[None]:
    """Yields after each step."""
    common = {**labels, "cluster": CLUSTER, "node_type": "proxy", "node_id": socket.gethostname()}
    page.family("rocketmq_proxy_up", GAUGE, "1 while the proxy runs.",
                {**common, "otel_scope_name": SCOPE, "proxy_mode": mode}).add(1)

    def gauge(name: str, text: str, value: float) -> None:
        page.family(f"regulus_proxy_{name}", GAUGE, text, common).add(value)
    gauge("clients", "Clients that are known.", numbers.clients)
    gauge("calls", "Calls in progress.", numbers.calls)
    gauge("receives", "Receives in progress.", numbers.receives)
    gauge("telemetry_streams", "Telemetry streams.", numbers.streams)
    gauge("renewals", "Messages whose invisible time is kept up.", numbers.renewals)
    yield
