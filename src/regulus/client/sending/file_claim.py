"""A claim on a file: only one holder has it at a time, in all processes, and it ends with the process of its holder."""

import fcntl
import os
from pathlib import Path
from weakref import WeakSet


class FileClaim:
    """A lock on a separate file next to the claimed one, `<name>.claim`, which stays when the claim ends."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.claim")
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Try to take the claim; whether we have it now. Raises OSError."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        _held.add(self)
        return True

    def release(self) -> None:
        """Give the claim back; without one this does nothing."""
        if self._descriptor is not None:
            # Closing alone is not enough: a child that is just being forked has the descriptor open, too.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close a forked child's descriptor of the claim, which stays with the parent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


_held: "WeakSet[FileClaim]" = WeakSet()


def _leave_to_the_parent() -> None:
    """Forget all claims in a forked child: it inherits the descriptors, and would keep the claims after the parent's
    end."""
    for claim in list(_held):
        claim.forget()


os.register_at_fork(after_in_child=_leave_to_the_parent)
