"""How many messages began to wait for a time of their own, and how many waited long enough, since the start."""

from regulus.wire.metrics_text import Histogram

TOPICS_MAX = 50_000
"""That are counted; others are not."""
DELAY_EDGES_S = (60, 600, 3600, 43_200, 86_400, 259_200)
"""Source: DefaultStoreMetricsManager, delay message latency buckets."""


class TimerTotals:
    """By the topic where the messages go. `delays`: for how many seconds they were to wait."""

    def __init__(self) -> None:
        self.entered: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.delays: dict[str, Histogram] = {}

    def note_entered(self, topic: str, delay_s: int) -> None:
        if topic not in self.entered:
            if len(self.entered) >= TOPICS_MAX:
                return
            self.entered[topic], self.delays[topic] = 0, Histogram(DELAY_EDGES_S)
        self.entered[topic] += 1
        self.delays[topic].add(delay_s)

    def note_done(self, topic: str) -> None:
        if topic and (topic in self.done or len(self.done) < TOPICS_MAX):
            self.done[topic] = self.done.get(topic, 0) + 1
