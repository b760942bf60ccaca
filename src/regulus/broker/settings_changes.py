"""Counts changes of topics and groups, so that answers can wait until the changes are saved.

A topic or group is unsaved until the number of its last change is saved; a request that changes or uses it in the
meantime is answered only then. When nothing is saved (`is_kept` is false), no answer waits.
"""


class SettingsChanges:
    """`awaited` is the change that the current request must wait for, 0 for none. `fault` is why changes could not be
    saved. Tables of unsaved names have the number of the last change of each, in this order."""

    def __init__(self) -> None:
        self.count = 0
        self.saved = 0
        self.awaited = 0
        self.fault = ""
        self.is_kept = False

    def next(self, unsaved: dict[str, int], *names: str) -> None:
        """Count one change of these names; `unsaved` is the table of their kind."""
        self.count += 1
        if self.is_kept:
            self.awaited = self.count
            for name in names:
                unsaved.pop(name, None)
                unsaved[name] = self.count

    def use(self, unsaved: dict[str, int], name: str) -> None:
        """Let the answer wait until this name is saved."""
        number = unsaved.get(name, 0)
        if number > self.awaited:
            self.awaited = number

    def use_all(self) -> None:
        """Let the answer wait for all earlier changes."""
        if self.count > self.saved and self.is_kept:
            self.awaited = self.count

    def take_saved(self, unsaved: dict[str, int]) -> list[str]:
        """Remove and return the names whose last change is saved."""
        names = []
        for name, number in unsaved.items():
            if number > self.saved:
                break
            names.append(name)
        for name in names:
            del unsaved[name]
        return names
