"""Recent events: for each kind the number of events and the first names, or a text for each event. One part notes
them, another takes and logs them."""

NAMES_MAX = 5
"""Names kept for one kind; further ones are only counted."""
TEXTS_MAX = 20
"""Texts kept between two takes; further ones are only counted."""
NAME_LENGTH_MAX = 255
"""Characters kept of a name: a peer chooses its length."""


class FirstNames:
    """The number of things, and the names of the first ones."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.names) < NAMES_MAX:
            self.names.append(name[:NAME_LENGTH_MAX])

    def merge(self, others: "FirstNames") -> None:
        self.count += others.count
        self.names = (self.names + others.names)[:NAMES_MAX]

    def __str__(self) -> str:
        others = self.count - len(self.names)
        return ", ".join(self.names) + (f" and {others} more" if others else "")


class Happenings:
    """Events by kind, in the order in which each kind first happened. A kind is a word of our own code, never text from
    a peer."""

    def __init__(self) -> None:
        self._kinds: dict[str, FirstNames] = {}

    def note(self, kind: str, name: str) -> None:
        self._kinds.setdefault(kind, FirstNames()).add(name)

    def take(self) -> dict[str, FirstNames]:
        """Everything noted since the last call."""
        taken, self._kinds = self._kinds, {}
        return taken

    def put(self, taken: dict[str, FirstNames]) -> None:
        """Add events that were taken elsewhere."""
        for kind, names in taken.items():
            self._kinds.setdefault(kind, FirstNames()).merge(names)


class EventTexts:
    """Events that are logged one by one, each with a text of its own."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._count = 0

    def note(self, text: str) -> None:
        self._count += 1
        if len(self._texts) < TEXTS_MAX:
            self._texts.append(text)

    def take(self) -> list[str]:
        """The texts since the last call; the last one counts the events that are left out."""
        texts, others = self._texts, self._count - len(self._texts)
        self._texts, self._count = [], 0
        return [*texts, f"{others} more of these"] if others else texts
