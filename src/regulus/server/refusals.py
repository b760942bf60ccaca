"""Counts refused requests by request and answer, and logs them in one line a minute.

The first refusal after a quiet minute is logged at the next tick. Only answers with an error code come here, so that
others cost nothing. Codes that report a normal state to a client (nothing to pull, no offset yet) do not count as
refusals.
"""

import logging

from regulus.model.peer import Peer
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

REFUSALS_INTERVAL_MS = 60_000
"""ms between two lines."""
KINDS_MAX = 1_000
"""Pairs of request and answer that are counted separately; the others count as one, because a peer may invent codes."""
KINDS_TOLD_MAX = 5
"""Pairs in one line, the most frequent."""
REMARK_LENGTH_MAX = 500
"""Characters of a remark that are logged."""

NO_REFUSALS = frozenset((
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED, ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE,
    ResponseCode.POLLING_TIMEOUT))

_OTHERS = (-1, -1)


class Refusals:
    def __init__(self) -> None:
        self.total = 0
        """All refusals since the start."""
        self._counts: dict[tuple[int, int], int] = {}
        self._last = ""
        self._next_ms = 0

    def note(self, request: RemotingCommand, answer: RemotingCommand, peer: Peer) -> None:
        if answer.code in NO_REFUSALS:
            return
        self.total += 1
        kind = (request.code, answer.code)
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = _OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._last = f"{_named(kind)}, of {peer.remote_text}: {(answer.remark or '')[:REMARK_LENGTH_MAX]}"

    def tick(self, steady_ms: int) -> None:
        if self._counts and steady_ms >= self._next_ms:
            self._next_ms = steady_ms + REFUSALS_INTERVAL_MS
            self.tell()

    def tell(self) -> None:
        """Log now what was not logged yet."""
        if not self._counts:
            return
        counts, self._counts = self._counts, {}
        most = sorted(counts.items(), key=lambda item: -item[1])[:KINDS_TOLD_MAX]
        told = ", ".join([f"{count} {_named(kind)}" for kind, count in most])
        others = sum(counts.values()) - sum(count for _, count in most)
        _log.info("refused: %s%s; the last: %s", told, f" and {others} more" if others else "", self._last)


def request_name(code: int) -> str:
    """`SEND_MESSAGE_V2`; for an unknown code `request 4711`."""
    return RequestCode(code).name if code in _REQUESTS else f"request {code}"


def _named(kind: tuple[int, int]) -> str:
    """`SEND_MESSAGE_V2 with 17 TOPIC_NOT_EXIST`."""
    if kind == _OTHERS:
        return "of other kinds"
    request, answer = kind
    words = [request_name(request), "with", str(answer)]
    return " ".join([*words, ResponseCode(answer).name] if answer in _ANSWERS else words)


_REQUESTS = frozenset(RequestCode)
_ANSWERS = frozenset(ResponseCode)
