"""What a name server counts, as families of metrics. RocketMQ's name server has none."""

from collections.abc import Iterator, Mapping

from regulus.nameserver.state import NameServerState
from regulus.wire.metrics_text import COUNTER, GAUGE, MetricsPage


def nameserver_families(state: NameServerState, page: MetricsPage, labels: Mapping[str, str], connections: int,
                        longest_step_ms: float, refused: int) -> Iterator[None]:
    """Yields after each step."""
    common = {**labels, "node_type": "nameserver"}
    routes = state.routes

    def gauge(name: str, text: str, value: float) -> None:
        page.family(f"regulus_nameserver_{name}", GAUGE, text, common).add(value)
    gauge("brokers", "Brokers that are registered, masters and slaves.", routes.live_count)
    gauge("topics", "Topics of all brokers.", len(routes.topics))
    gauge("clusters", "Clusters.", len(routes.clusters))
    gauge("connections", "Connections of brokers and clients.", connections)
    gauge("event_loop_longest_step_milliseconds", "The longest step of the last one to two minutes.",
          round(longest_step_ms, 3))
    page.family("regulus_nameserver_refused_requests_total", COUNTER, "Requests that were answered with an error code.",
                common).add(refused)
    silent = page.family("regulus_nameserver_broker_silent_milliseconds", GAUGE, "Time since a broker registered last.",
                         common).rows("address", "broker", "cluster")
    for cluster, name, address, silent_ms in routes.silences(state.steady_ms):
        silent.add(silent_ms, address, name, cluster)
    yield
