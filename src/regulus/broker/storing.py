"""The one way to the log beside the straight one: place, append, count, refuse, and what an answer waits for.

Whatever is stored that a send does not bring straight from its frame comes by here: other sends and their dead letters,
what consumers send back, halves, commits and ops of transactions, what the delay schedule delivers. A message that the
store refuses is nowhere: the caller keeps what it was made of, and says so.
"""

from collections.abc import Callable

from regulus.broker.placement import place
from regulus.broker.send_facts import SendFacts
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus

GONE = "a message waited for a topic that was deleted, and is passed by"

_PUT_OK = PutStatus.PUT_OK
_MESSAGE_ILLEGAL = PutStatus.MESSAGE_ILLEGAL


class Storing:
    """`facts` are those of the settings that hold now. `is_home` says of a topic and the time whether a message that
    waited may go there, `happenings` has what may not. `put_failed_times` counts what the store refused."""

    def __init__(self, facts: SendFacts, is_home: Callable[[str, int], bool] = lambda topic, now_ms: True) -> None:
        self.facts = facts
        self.is_home = is_home
        self.happenings = Happenings()
        self.put_failed_times = 0

    def store(self, message: MessageExt, now_ms: int, kind: str = "") -> Appended:
        """Give the message its place, and append it there. `kind`: its message type if it counts as sent."""
        place(message, self.facts.delay_level_max, self.facts.timer_precision_ms, now_ms)
        return self.append(message, now_ms, 1, kind)

    def append(self, message: MessageExt, now_ms: int, messages: int = 1, kind: str = "") -> Appended:
        """Append a message where it is: one whose delay is over must not wait again. `messages`: how many it is, for an
        inner batch."""
        appended = self.facts.store.append(message, now_ms)
        self._count(message.topic, messages, appended, kind)
        return appended

    def deliver(self, message: MessageExt, now_ms: int, kind: str = "") -> Appended:
        """Append a message that waited, unless its topic is gone."""
        if self.is_home(message.topic, now_ms):
            return self.append(message, now_ms, 1, kind)
        self.happenings.note(GONE, message.topic)
        return Appended(_MESSAGE_ILLEGAL, remark=f"topic {message.topic} was deleted while the message waited")

    def append_batch(self, messages: list[MessageExt], now_ms: int, kind: str = "") -> Appended:
        """Append messages of one queue, one behind the other, or none of them."""
        appended = self.facts.store.append_batch(messages, now_ms)
        self._count(messages[0].topic, len(messages), appended, kind)
        return appended

    def durable_at(self, *, waits: bool = True) -> int:
        """What an answer to what was just stored waits for, as Reply says it. `waits`: whether the client wants to."""
        return self.facts.durable_at(self.facts.store.commit_log_max_offset(), waits)

    def _count(self, topic: str, messages: int, appended: Appended, kind: str) -> None:
        if appended.status is not _PUT_OK:
            self.put_failed_times += 1
            return
        facts = self.facts.topics.get(topic)
        # A topic may be gone while a message for it waited.
        if facts is not None:
            facts.count(kind, messages, appended)


def refusal_of(appended: Appended) -> str:
    """Why the store refused, to read."""
    return appended.remark or f"the store answers {PutStatus(appended.status).name}"
