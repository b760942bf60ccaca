"""How long requests take, by request and answer. There is one for a broker whose page of metrics is on.

The time runs from the read that brought the request until its answer was written; all requests of one read that are
answered at once leave in one write, and have one time. Runs of equal answers are counted together.
"""

from collections.abc import Iterable
from typing import NamedTuple

from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.metrics_text import Histogram

EDGES_MS = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
"""Source: BrokerMetricsManager / RemotingMetricsManager, RPC latency buckets."""
CREATION_EDGES_MS = (10, 100, 1000, 3000, 5000)
"""Edges for the creation of topics and groups. Source: BrokerMetricsManager."""
KINDS_MAX = 1_024
"""Kinds of answers that are counted by themselves. Request codes are strangers' numbers; further kinds are one."""

SUCCESS, ONEWAY = "success", "oneway"

_CREATIONS = frozenset((int(RequestCode.UPDATE_AND_CREATE_TOPIC), int(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST),
                        int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
                        int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)))


class AnswerKind(NamedTuple):
    request_code: int
    response_code: int
    is_long_polling: bool
    result: str


OTHERS = AnswerKind(-1, -1, False, SUCCESS)
"""All kinds beyond KINDS_MAX."""

Kind = tuple[int, int, bool, str]
"""What an AnswerKind is, made faster."""
Runs = Iterable[tuple[Kind, int]]
"""A kind of answer, and how many of it in a row."""


class RequestLatencies:
    """`histograms` in ms. `creations` are those of topics and groups by request code, and whether they succeeded."""

    def __init__(self) -> None:
        self.histograms: dict[Kind, Histogram] = {}
        self.creations: dict[tuple[int, bool], Histogram] = {}

    def all(self) -> list[tuple[AnswerKind, Histogram]]:
        """A copy of the list."""
        return [(AnswerKind(*kind), histogram) for kind, histogram in self.histograms.items()]

    def note_runs(self, runs: Runs, took_ms: float) -> None:
        """Answers that left together."""
        for kind, times in runs:
            histogram = self.histograms.get(kind)       # whose keys are as such tuples
            if histogram is None or kind[0] in _CREATIONS:
                self.note(kind[0], kind[1], took_ms, result=kind[3], times=times)
            else:
                histogram.add(took_ms, times)

    def note(self, request_code: int, response_code: int, took_ms: float, *, is_long_polling: bool = False,
             result: str = SUCCESS, times: int = 1) -> None:
        kind = AnswerKind(request_code, response_code, is_long_polling, result)
        histogram = self.histograms.get(kind) or self._new(kind)
        histogram.add(took_ms, times)
        if request_code in _CREATIONS:
            self._note_creation(request_code, response_code == ResponseCode.SUCCESS, took_ms)

    def created(self, codes: Iterable[RequestCode], is_success: bool) -> Histogram | None:
        """The creations by these requests together; None when there were none."""
        found = [self.creations[code, is_success] for code in codes if (code, is_success) in self.creations]
        if not found:
            return None
        together = Histogram(CREATION_EDGES_MS)
        together.counts = [sum(counts) for counts in zip(*[each.counts for each in found], strict=True)]
        together.sum = sum([each.sum for each in found])
        return together

    def _new(self, kind: AnswerKind) -> Histogram:
        if len(self.histograms) >= KINDS_MAX:
            kind = OTHERS
        return self.histograms.setdefault(kind, Histogram(EDGES_MS))

    def _note_creation(self, request_code: int, is_success: bool, took_ms: float) -> None:
        histogram = self.creations.get((request_code, is_success))
        if histogram is None:
            histogram = self.creations[request_code, is_success] = Histogram(CREATION_EDGES_MS)
        histogram.add(took_ms)


def code_name(code: int, codes: type[RequestCode] | type[ResponseCode]) -> str:
    """The name in lower case, as RocketMQ writes it; an unknown code is its number."""
    if code == OTHERS.request_code:
        return "others"
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)
