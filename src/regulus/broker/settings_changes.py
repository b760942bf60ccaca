"""Which changes of topics and groups are saved, and which answers must wait until they are.

Changes are counted. A topic or group that changed is unsaved until the number of its change is saved; whoever changes
or uses one meanwhile is answered only then. Where nobody saves anything (`is_kept` is false), nothing waits.
"""


class SettingsChanges:
    """`awaited` is the change that the request being handled must wait for, 0 for none; `fault` is why changes are not
    saved, when they could not be. `changed` names what changed and is not saved, with the number of its last change,
    in order of these."""

    def __init__(self) -> None:
        self.count = 0
        self.saved = 0
        self.awaited = 0
        self.fault = ""
        self.is_kept = False

    def next(self, unsaved: dict[str, int], *names: str) -> None:
        """These changed now; `unsaved` is the table of their kind."""
        self.count += 1
        if self.is_kept:
            self.awaited = self.count
            for name in names:
                unsaved.pop(name, None)
                unsaved[name] = self.count

    def use(self, unsaved: dict[str, int], name: str) -> None:
        """An answer may speak of this one only when it is saved."""
        number = unsaved.get(name, 0)
        if number > self.awaited:
            self.awaited = number

    def use_all(self) -> None:
        """An answer waits for whatever changed before."""
        if self.count > self.saved and self.is_kept:
            self.awaited = self.count

    def take_saved(self, unsaved: dict[str, int]) -> list[str]:
        """Take out the names whose last change is saved."""
        names = []
        for name, number in unsaved.items():
            if number > self.saved:
                break
            names.append(name)
        for name in names:
            del unsaved[name]
        return names
