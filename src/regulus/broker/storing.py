"""Stores messages except those of the fast path: place, append, count, refuse, and find out what an answer waits for.

Everything but sends that are stored straight from their frame comes through here: other sends and dead letters,
messages that consumers send back, halves, commits and ops of transactions, deliveries of the delay schedule. A message
that the store refuses is not stored anywhere: the caller keeps its source, and reports the refusal.
"""

from collections.abc import Callable

from regulus.broker.placement import place
from regulus.broker.send_facts import SendFacts
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus

GONE = "a message waited for a topic that was deleted, and is dropped"

_PUT_OK = PutStatus.PUT_OK
_MESSAGE_ILLEGAL = PutStatus.MESSAGE_ILLEGAL


class Storing:
    """`facts` follow from the current settings. `is_home` says, for a topic and a time, whether a waiting message may
    be stored there; `happenings` has those that may not. `put_failed_times` counts the store's refusals."""

    def __init__(self, facts: SendFacts, is_home: Callable[[str, int], bool] = lambda topic, now_ms: True) -> None:
        self.facts = facts
        self.is_home = is_home
        self.happenings = Happenings()
        self.put_failed_times = 0

    def store(self, message: MessageExt, now_ms: int, kind: str = "") -> Appended:
        """Place the message, and append it there. `kind`: its message type if it counts as sent."""
        place(message, self.facts.delay_level_max, self.facts.timer_precision_ms, now_ms)
        return self.append(message, now_ms, 1, kind)

    def append(self, message: MessageExt, now_ms: int, messages: int = 1, kind: str = "") -> Appended:
        """Append a message to its topic without placing it: a message whose delay is over must not wait again.
        `messages` is how many it contains if it is an inner batch."""
        appended = self.facts.store.append(message, now_ms)
        self._count(message.topic, messages, appended, kind)
        return appended

    def deliver(self, message: MessageExt, now_ms: int, kind: str = "") -> Appended:
        """Append a message that waited, unless its topic was deleted."""
        if self.is_home(message.topic, now_ms):
            return self.append(message, now_ms, 1, kind)
        self.happenings.note(GONE, message.topic)
        return Appended(_MESSAGE_ILLEGAL, remark=f"topic {message.topic} was deleted while the message waited")

    def append_batch(self, messages: list[MessageExt], now_ms: int, kind: str = "") -> Appended:
        """Append messages of one queue next to each other, or none of them."""
        appended = self.facts.store.append_batch(messages, now_ms)
        self._count(messages[0].topic, len(messages), appended, kind)
        return appended

    def durable_at(self, *, waits: bool = True) -> int:
        """Offset that an answer waits for, like `Reply.durable_at`. `waits`: whether the client wants to wait."""
        return self.facts.durable_at(self.facts.store.commit_log_max_offset(), waits)

    def _count(self, topic: str, messages: int, appended: Appended, kind: str) -> None:
        if appended.status is not _PUT_OK:
            self.put_failed_times += 1
            return
        facts = self.facts.topics.get(topic)
        # The topic of a waiting message may have been deleted.
        if facts is not None:
            facts.count(kind, messages, appended)


def refusal_of(appended: Appended) -> str:
    """The store's reason for a refusal, as a readable text."""
    return appended.remark or f"the store answers {PutStatus(appended.status).name}"
