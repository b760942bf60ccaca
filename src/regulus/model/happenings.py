"""What happened lately, of each kind how often and to whom first: whoever decides notes it, whoever logs takes it."""

NAMES_MAX = 5
"""Names kept of one kind; the others are counted."""
NAME_LENGTH_MAX = 255
"""Characters of a name that are kept: some names are as long as their peer likes."""


class FirstNames:
    """`count` things, and the names of the first."""

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
    """By kind, in the order in which each kind happened first. A kind is a word of our own, never one of a peer."""

    def __init__(self) -> None:
        self._kinds: dict[str, FirstNames] = {}

    def note(self, kind: str, name: str) -> None:
        self._kinds.setdefault(kind, FirstNames()).add(name)

    def take(self) -> dict[str, FirstNames]:
        """All that was noted since the last call."""
        taken, self._kinds = self._kinds, {}
        return taken

    def put(self, taken: dict[str, FirstNames]) -> None:
        """Note what was taken elsewhere."""
        for kind, names in taken.items():
            self._kinds.setdefault(kind, FirstNames()).merge(names)
